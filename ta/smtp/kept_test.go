package smtp

// Short bodies are read once.

import (
	"io"
	"strings"
	"testing"
)

// countingReader counts the reads of a file.
type countingReader struct {
	io.ReaderAt
	reads int
}

func (r *countingReader) ReadAt(b []byte, at int64) (int, error) {
	r.reads++
	return r.ReaderAt.ReadAt(b, at)
}

func TestShortBodyIsReadOnce(t *testing.T) {
	for _, c := range []struct {
		lines int
		once  bool
	}{{0, true}, {100, true}, {maxKept/18 + 1, false}} {
		text := strings.Repeat("text of a message\n", c.lines)
		file := &countingReader{ReaderAt: strings.NewReader(text)}
		m, err := measure("Subject: x\n", io.NewSectionReader(file, 0, int64(len(text))), new(buffers))
		if err != nil {
			t.Fatal(err)
		}
		measured := file.reads
		var sent strings.Builder
		if err := m.sendTo(&sent, "", true, nil); err != nil {
			t.Fatal(err)
		}
		if want := "Subject: x\r\n\r\n" + strings.ReplaceAll(text, "\n", "\r\n"); sent.String() != want {
			t.Errorf("%d lines: %d bytes were sent, want %d", c.lines, sent.Len(), len(want))
		}
		if once := file.reads == measured; once != c.once || measured > 2 {
			t.Errorf("%d lines: %d reads, %d of them to measure", c.lines, file.reads, measured)
		}
	}
}
