package eventlog

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// nearlyFull opens a log with a limit, whose file has five bytes less.
func nearlyFull(t *testing.T) (w *Writer, path string, full chan int64, lost chan int) {
	t.Helper()
	const limit = 16 << 20
	path = filepath.Join(t.TempDir(), "events")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, limit-5); err != nil {
		t.Fatal(err)
	}
	full, lost = make(chan int64, 100), make(chan int, 100)
	w, err := Open(path, limit, func(lines int) { lost <- lines })
	if err != nil {
		t.Fatal(err)
	}
	w.Full = func(limit int64) { full <- limit }
	return w, path, full, lost
}

func TestLogGrowsToItsLimit(t *testing.T) {
	w, path, full, lost := nearlyFull(t)
	_, _ = w.Write([]byte("four\n"))
	_, _ = w.Write([]byte("one more\n"))
	if got := <-full; got != 16<<20 {
		t.Errorf("the limit is %d", got)
	}
	long := []byte(strings.Repeat("x", 1<<20) + "\n")
	for range 6 {
		_, _ = w.Write(long)
	}
	if info, err := os.Stat(path); err != nil || info.Size() > 16<<20 {
		t.Errorf("the file has %d bytes, %v", info.Size(), err)
	}
	losing := w.Lost()
	if losing == 0 {
		t.Error("lines that are being lost are not counted")
	}
	// logrotate(8): rename, and the signal.
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	w.Reopen()
	if n := <-lost; n < 1 || n > 6 || uint64(n) != losing || w.Lost() != losing {
		t.Errorf("%d lines were lost, %d counted before, %d now", n, losing, w.Lost())
	}
	w.Close()
	text, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(text, []byte("one more\n")) || !bytes.Contains(text, []byte(`"event":"lost"`)) {
		t.Errorf("the new file has %d bytes, %v", len(text), err)
	}
	if len(full) > 0 {
		t.Error("the limit was reported twice for one file")
	}
}

// A file that was copied and cut takes lines again.
func TestLogThatWasCutTakesLines(t *testing.T) {
	w, path, full, _ := nearlyFull(t)
	_, _ = w.Write([]byte("too long\n"))
	<-full
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write([]byte("next\n"))
	w.Close()
	if text, err := os.ReadFile(path); err != nil || string(text) != "too long\nnext\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// A file that is full again after a cut is reported again.
func TestEachFullFileIsReported(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	reports := 0
	l := &limited{File: file, limit: 10, full: func() { reports++ }}
	for range 2 {
		for _, test := range []struct {
			line string
			want error
		}{{"seven\n", nil}, {"too long\n", errFull}, {"too long\n", errFull}} {
			if _, err := l.Write([]byte(test.line)); err != test.want {
				t.Errorf("%q: %v", test.line, err)
			}
		}
		if err := file.Truncate(0); err != nil {
			t.Fatal(err)
		}
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			t.Fatal(err)
		}
	}
	if reports != 2 {
		t.Errorf("%d reports", reports)
	}
}
