package ta

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// framed is a text as it is written.
func framed(t *testing.T, f Framing, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := bufio.NewWriterSize(&b, 16)
	if err := errors.Join(f.Write(w, strings.NewReader(text), int64(len(text))), w.Flush()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestFraming(t *testing.T) {
	const text = "From me\n.\r\n..\nFrom\n>From x\n x From y\na\rb\n\nFro"
	for f, want := range map[Framing]string{
		{}:                                   "From me\n.\r\n..\nFrom\n>From x\n x From y\na\rb\n\nFro\n",
		{CRLF: true}:                         "From me\r\n.\r\n..\r\nFrom\r\n>From x\r\n x From y\r\na\r\nb\r\n\r\nFro\r\n",
		{Dots: true}:                         "From me\n..\r\n...\nFrom\n>From x\n x From y\na\rb\n\nFro\n",
		{From: true}:                         ">From me\n.\r\n..\nFrom\n>From x\n x From y\na\rb\n\nFro\n",
		{CRLF: true, Dots: true, From: true}: ">From me\r\n..\r\n...\r\nFrom\r\n>From x\r\n x From y\r\na\r\nb\r\n\r\nFro\r\n",
	} {
		if got := framed(t, f, text); got != want {
			t.Errorf("%+v: %q", f, got)
		}
	}
	for text, want := range map[string]string{"": "", "a\r": "a\r\n", "\n\n": "\r\n\r\n", "\r\r\n": "\r\n\r\n"} {
		if got := framed(t, Framing{CRLF: true}, text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// A message file that has become shorter is not written as if it were whole, and an error of
// reading is told from one of writing.
func TestFramingTellsWhoFailed(t *testing.T) {
	text := strings.Repeat("one\n", framingBlock)
	for more := range int64(2) {
		err := Framing{}.Write(bufio.NewWriter(brokenWriter{}), strings.NewReader(text), int64(len(text))+more)
		if err == nil || errors.As(err, new(*ReadError)) != (more > 0) {
			t.Errorf("%d bytes more: %v", more, err)
		}
	}
	if err := (Framing{}).Write(bufio.NewWriter(io.Discard), strings.NewReader("x"), 2); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("broken") }

// FuzzFraming compares what is written of a text with the rule, line by line.
func FuzzFraming(f *testing.F) {
	for _, s := range []string{"a\nb\n", ".\r\n..\r\n", "a\rb\r\r\n\n\r", "", "no end", ".\r.\r", strings.Repeat("x", framingBlock-1) + "\r\n.", strings.Repeat("From ", framingBlock)} {
		f.Add(s, uint8(7))
	}
	f.Fuzz(func(t *testing.T, text string, how uint8) {
		framing := Framing{how&1 != 0, how&2 != 0, how&4 != 0}
		end := "\n"
		plain := text
		if framing.CRLF {
			end, plain = "\r\n", strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
		}
		want := ""
		for line := range strings.Lines(plain) {
			switch {
			case framing.Dots && line[0] == '.':
				want += "."
			case framing.From && strings.HasPrefix(line, "From "):
				want += ">"
			}
			want += strings.TrimSuffix(line, "\n") + end
		}
		if got := framed(t, framing, text); got != want {
			t.Errorf("%+v, %.200q: %.200q, want %.200q", framing, text, got, want)
		}
	})
}
