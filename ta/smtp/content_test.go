package smtp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// bodyOf is a message file of a text, whose length is said to be size.
func bodyOf(text string, size int) *io.SectionReader {
	return io.NewSectionReader(strings.NewReader(text), 0, int64(size))
}

// simple is what a server gets of a text, without the dots.
func simple(text string) string {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return strings.ReplaceAll(text, "\n", "\r\n")
}

// A short message is in memory, with the length for SIZE and BDAT. A long one is read while
// it is sent. The server cannot tell which it was.
func TestShortAndLongMessagesAreSentTheSameWay(t *testing.T) {
	for _, lines := range []int{0, 1, 100, maxShort / 20, maxShort/20 + 1, blockSize / 10} {
		for _, line := range []string{".text of a message x\n", "text of a message\r\n\n", "Grüße an alle Leute\r\n"} {
			body := strings.Repeat(line, lines)
			c, err := newContent("A: b\n", bodyOf(body, len(body)))
			if err != nil {
				t.Fatal(err)
			}
			want := simple("A: b\n\n" + body)
			if long := len("A: b\n\n"+body) > maxShort; long != (c.text == nil) || !long && (string(c.text) != want || c.size != int64(len(want))) {
				t.Errorf("%d lines of %q: %d bytes in memory, size %d", lines, line, len(c.text), c.size)
			}
			if c.text != nil && c.eight != !ascii(body) {
				t.Errorf("%d lines of %q: eight bits: %v", lines, line, c.eight)
			}
			var sent bytes.Buffer
			if err := c.sendDotted(&sent); err != nil {
				t.Fatal(err)
			}
			if got := strings.ReplaceAll(sent.String(), "\n..", "\n."); got != want {
				t.Errorf("%d lines of %q: %d bytes are sent, want %d", lines, line, len(got), len(want))
			}
		}
	}
}

// A message file that has become shorter is not sent as if it were whole.
func TestMessageFileThatBecameShorter(t *testing.T) {
	if _, err := newContent("A: b\n", bodyOf("one\n", 10)); err != errCut {
		t.Error(err)
	}
	c, err := newContent("A: b\n", bodyOf(strings.Repeat("one\n", maxShort), 4*maxShort+1))
	if err != nil {
		t.Fatal(err)
	}
	var local *localError
	if err := c.sendDotted(io.Discard); !errors.As(err, &local) {
		t.Error(err)
	}
}

func TestLoneCRDoesNotBeginAField(t *testing.T) {
	c, err := newContent("Subject: x\rFrom: ceo@a.example\r\nX: y\n", bodyOf("a\rb\n", 4))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(c.text); got != "Subject: x From: ceo@a.example\r\nX: y\r\n\r\na\r\nb\r\n" {
		t.Errorf("%q", got)
	}
}

// FuzzLines: however a text comes in pieces, it is sent as the simple version makes
// it, with CRLF line ends only; dots are added and can be removed again.
func FuzzLines(f *testing.F) {
	for _, s := range []string{"a\nb\n", ".\r\n..\r\n", "a\rb\r\r\n\n\r", "", "no end", ".\r.\r"} {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, text []byte, piece int) {
		piece = max(1, piece%17)
		want := simple(string(text))
		var plain, dotted bytes.Buffer
		writers := []*lineWriter{{w: bufio.NewWriter(&plain)}, {w: bufio.NewWriter(&dotted), dots: true}}
		for _, l := range writers {
			for rest := text; len(rest) > 0; rest = rest[min(piece, len(rest)):] {
				if _, err := l.Write(rest[:min(piece, len(rest))]); err != nil {
					t.Fatal(err)
				}
			}
			l.end()
			_ = l.w.Flush()
		}
		if plain.String() != want || string(withCRLF(text)) != want || has8(text) == ascii(string(text)) {
			t.Errorf("%q: %q and %q, want %q", text, plain.String(), withCRLF(text), want)
		}
		var back strings.Builder
		for line := range strings.Lines(dotted.String()) {
			if line == ".\r\n" {
				t.Errorf("%q: the end is within", text)
			}
			back.WriteString(strings.TrimPrefix(line, "."))
		}
		if back.String() != want {
			t.Errorf("%q: with dots %q", text, dotted.String())
		}
	})
}
