package sm

import (
	"bufio"
	"bytes"
	"errors"
	"strings"
	"testing"
)

func frame(t *testing.T, how Flags, pieces ...string) string {
	t.Helper()
	var b bytes.Buffer
	w := bufio.NewWriter(&b)
	f := &framer{w: w, how: how}
	for _, p := range pieces {
		if n, err := f.Write([]byte(p)); n != len(p) || err != nil {
			t.Fatalf("write %q: %d, %v", p, n, err)
		}
	}
	f.end()
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestFraming(t *testing.T) {
	const text = "From me\n.\r\n..\nFrom\n>From x\n x From y\na\rb\n\nFro"
	for _, c := range []struct {
		how  Flags
		want string
	}{
		{0, "From me\n.\n..\nFrom\n>From x\n x From y\na\rb\n\nFro\n"},
		{CRLF, "From me\r\n.\r\n..\r\nFrom\r\n>From x\r\n x From y\r\na\rb\r\n\r\nFro\r\n"},
		{HideDots, "From me\n..\n...\nFrom\n>From x\n x From y\na\rb\n\nFro\n"},
		{QuoteFrom, ">From me\n.\n..\nFrom\n>From x\n x From y\na\rb\n\nFro\n"},
		{CRLF | HideDots | QuoteFrom, ">From me\r\n..\r\n...\r\nFrom\r\n>From x\r\n x From y\r\na\rb\r\n\r\nFro\r\n"},
	} {
		expect(t, frame(t, c.how, text), c.want)
		expect(t, frame(t, c.how, strings.Split(text, "")...), c.want)
	}
	expect(t, frame(t, CRLF), "")
	expect(t, frame(t, CRLF, "a\r"), "a\r\r\n")
	expect(t, frame(t, 0, "\n\n"), "\n\n")
}

type fullDisk struct{}

var errFull = errors.New("disk full")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestFramerTellsOfItsWriter(t *testing.T) {
	f := &framer{w: bufio.NewWriter(fullDisk{}), how: CRLF}
	if _, err := f.Write(make([]byte, 100_000)); err != errFull {
		t.Error(err)
	}
}

// Where the pieces are cut does not matter, and dots can be taken away again.
func FuzzFramer(f *testing.F) {
	f.Add("From a\r\n.\n\r\r\n", uint8(7), 3)
	f.Fuzz(func(t *testing.T, text string, how uint8, cut int) {
		cut = max(0, min(cut, len(text)))
		var flags Flags
		for i, flag := range []Flags{CRLF, HideDots, QuoteFrom} {
			if how>>i&1 != 0 {
				flags |= flag
			}
		}
		whole := frame(t, flags, text)
		expect(t, frame(t, flags, text[:cut], text[cut:]), whole)
		if whole != "" && !strings.HasSuffix(whole, "\n") {
			t.Errorf("%q has no end", whole)
		}
		var undone []string
		for line := range strings.Lines(frame(t, HideDots, text)) {
			undone = append(undone, strings.TrimPrefix(line, "."))
		}
		expect(t, strings.Join(undone, ""), frame(t, 0, text))
	})
}
