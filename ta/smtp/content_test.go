package smtp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"zsched/ta"
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

// sentOf returns what is sent of a message, without the dots that were added.
func sentOf(t *testing.T, c *content) string {
	t.Helper()
	var sent bytes.Buffer
	w := bufio.NewWriter(&sent)
	if err := errors.Join(c.send(w), w.Flush()); err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(sent.String(), "\n..", "\n.")
}

func TestMessagesOfAnyLengthAreSentWhole(t *testing.T) {
	for _, lines := range []int{0, 1, 100, 1600, 32 << 10} {
		for _, line := range []string{".text of a message x\n", "text of a message\r\n\n", "Grüße an alle Leute\r\n"} {
			body := strings.Repeat(line, lines)
			c := newContent("A: b\n", bodyOf(body, len(body)))
			if want, got := simple("A: b\n\n"+body), sentOf(t, c); got != want || c.size() != int64(len("A: b\n\n"+body)) {
				t.Errorf("%d lines of %q: %d bytes are sent, want %d; size %d", lines, line, len(got), len(want), c.size())
			}
		}
	}
}

// A message file that has become shorter is not sent as if it were whole.
func TestMessageFileThatBecameShorter(t *testing.T) {
	for _, body := range []string{"one\n", strings.Repeat("one\n", 32<<10)} {
		c := newContent("A: b\n", bodyOf(body, len(body)+1))
		var local *ta.ReadError
		if err := c.send(bufio.NewWriter(io.Discard)); !errors.As(err, &local) {
			t.Error(err)
		}
	}
}

func TestLoneCRDoesNotBeginAField(t *testing.T) {
	c := newContent("Subject: x\rFrom: ceo@a.example\r\nX: y\n", bodyOf("a\rb\n", 4))
	if got := sentOf(t, c); got != "Subject: x From: ceo@a.example\r\nX: y\r\n\r\na\r\nb\r\n" {
		t.Errorf("%q", got)
	}
}
