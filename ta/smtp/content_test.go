package smtp

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// changing is a message file whose text changes.
type changing struct {
	*strings.Reader
	then string
	left int // readings until then
}

func (c *changing) Seek(offset int64, whence int) (int64, error) {
	if c.left--; c.left == 0 {
		c.Reader = strings.NewReader(c.then)
	}
	return c.Reader.Seek(offset, whence)
}

// A message that changes after it was measured is not sent as if it were whole.
func TestMessageThatChanges(t *testing.T) {
	for _, then := range []string{"", "one\n", "one\ntwo\nthree\n"} {
		file := &changing{strings.NewReader("one\ntwo\n"), then, 2}
		c, err := measure("A: b\n", file, &buffers{})
		if err != nil || c.size != int64(len("A: b\r\n\r\none\r\ntwo\r\n")) {
			t.Fatal(c, err)
		}
		if file.left != 1 {
			t.Fatalf("measured in %d readings, not in one", 2-file.left)
		}
		var local *localError
		if err := c.sendTo(io.Discard, "", false, nil); !errors.As(err, &local) {
			t.Errorf("%q: %v", then, err)
		}
	}
}

func TestLoneCRDoesNotBeginAField(t *testing.T) {
	c, err := measure("Subject: x\rFrom: ceo@a.example\r\nX: y\n", strings.NewReader("a\rb\n"), &buffers{})
	if err != nil {
		t.Fatal(err)
	}
	var sent bytes.Buffer
	if err := c.sendTo(&sent, "", false, nil); err != nil {
		t.Fatal(err)
	}
	if got := sent.String(); got != "Subject: x From: ceo@a.example\r\nX: y\r\n\r\na\r\nb\r\n" || c.size != int64(len(got)) {
		t.Errorf("%q, size %d", got, c.size)
	}
}

// Whatever the length, some bytes of a message are not sent before commit, and none if it
// fails.
func TestCommitComesBeforeTheLastBytes(t *testing.T) {
	for _, size := range []int{0, 1, bufferSize - maxReplyLine - 3, bufferSize - maxReplyLine, bufferSize, 3 * bufferSize} {
		c, err := measure("A: b\n", strings.NewReader(strings.Repeat("x", size)), &buffers{})
		if err != nil {
			t.Fatal(err)
		}
		var sent bytes.Buffer
		before := 0
		refuse := func() error { before = sent.Len(); return errLeaving }
		if err := c.sendTo(&sent, "", false, refuse); err != errLeaving || sent.Len() != before || int64(before) >= c.size {
			t.Errorf("%d bytes: %d of %d were sent: %v", size, sent.Len(), c.size, err)
		}
	}
}

// FuzzLines: however a text comes in pieces, it is sent as the simple version makes
// it, with CRLF line ends only and of the length that was counted; dots are added
// and can be removed again.
func FuzzLines(f *testing.F) {
	for _, s := range []string{"a\nb\n", ".\r\n..\r\n", "a\rb\r\r\n\n\r", "", "no end", ".\r.\r"} {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, text []byte, piece int) {
		piece = max(1, piece%17)
		simple := strings.ReplaceAll(strings.ReplaceAll(string(text), "\r\n", "\n"), "\r", "\n")
		if simple != "" && !strings.HasSuffix(simple, "\n") {
			simple += "\n"
		}
		simple = strings.ReplaceAll(simple, "\n", "\r\n")
		var plain, dotted bytes.Buffer
		count := &lineCounter{}
		senders := []*sender{{w: &plain, left: int64(len(simple))}, {w: &dotted, left: int64(len(simple)), dots: true}}
		for rest := text; len(rest) > 0; rest = rest[min(piece, len(rest)):] {
			part := rest[:min(piece, len(rest))]
			_, _ = count.Write(part)
			for _, s := range senders {
				if _, err := s.Write(part); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, s := range senders {
			if s.end() != nil || s.flush() != nil {
				t.Fatalf("%q: %v", text, s.err)
			}
		}
		if plain.String() != simple || count.end() != int64(len(simple)) || count.eight != !ascii(string(text)) {
			t.Errorf("%q: %q of %d bytes, want %q", text, plain.String(), count.end(), simple)
		}
		var back strings.Builder
		for line := range strings.Lines(dotted.String()) {
			if line == ".\r\n" {
				t.Errorf("%q: the end is within", text)
			}
			back.WriteString(strings.TrimPrefix(line, "."))
		}
		if back.String() != simple {
			t.Errorf("%q: with dots %q", text, dotted.String())
		}
	})
}
