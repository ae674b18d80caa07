package header

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestRead(t *testing.T) {
	long := "X-Long: " + strings.Repeat("x", 9000) + "\n"
	for _, c := range []struct{ name, message, header, body string }{
		{"ordinary", "From: a\nTo: b\n\nbody\n", "From: a\nTo: b\n", "body\n"},
		{"folded", "Subject: a\n b\n\tc\n\nbody", "Subject: a\n b\n\tc\n", "body"},
		{"network line ends", "From: a\r\nTo: b\r\n\r\nbody\r\n", "From: a\nTo: b\n", "body\r\n"},
		{"no body", "From: a\n\n", "From: a\n", ""},
		{"no empty line", "From: a\n", "From: a\n", ""},
		{"no line end", "From: a", "From: a\n", ""},
		{"body without empty line", "From: a\nhello world\n\nmore", "From: a\n", "hello world\n\nmore"},
		{"no header", "hello world\nFrom: a\n\n", "", "hello world\nFrom: a\n\n"},
		{"empty line first", "\nFrom: a\n", "", "From: a\n"},
		{"folded line first", " folded: x\n", "", " folded: x\n"},
		{"nothing", "", "", ""},
		{"blank before the colon", "From : a\n\nb", "From : a\n", "b"},
		{"mailbox line", "From a@b Mon\nTo: c\n", "", "From a@b Mon\nTo: c\n"},
		{"colon first", ": x\n", "", ": x\n"},
		{"no field name", "über: x\n", "", "über: x\n"},
		{"long line", long + "\nbody", long, "body"},
		{"long line without colon", strings.Repeat("x", MaxSize+5000), "", strings.Repeat("x", MaxSize+5000)},
	} {
		for _, in := range []io.Reader{strings.NewReader(c.message), iotest.OneByteReader(strings.NewReader(c.message))} {
			header, body, whole, err := Read(in)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			text, err := io.ReadAll(whole)
			if err != nil || string(text) != c.message {
				t.Errorf("%s: the message reads %.100q, %v", c.name, text, err)
			}
			if header != c.header || c.message[body:] != c.body {
				t.Errorf("%s: header %.100q, body %.100q", c.name, header, c.message[body:])
			}
		}
	}
}

func TestReadIsBounded(t *testing.T) {
	endless := strings.Repeat("X-Filler: of a header without end\n", MaxSize/20)
	for _, message := range []string{
		endless,
		"X: " + strings.Repeat("x", MaxSize+5000),
		"X: y\n " + strings.Repeat("x", MaxSize+5000),
		strings.Repeat("a:\n", MaxFields+1),
		"a:\n" + strings.Repeat(" b\n", MaxLines),
	} {
		if header, _, _, err := Read(strings.NewReader(message)); !errors.Is(err, ErrUnfit) {
			t.Errorf("read %d bytes of header, %v", len(header), err)
		}
	}
	most := strings.Repeat("a:\n b\n", MaxFields)
	if header, _, _, err := Read(strings.NewReader(most + "\n")); err != nil || header != most {
		t.Errorf("read %d bytes of header, %v", len(header), err)
	}
}

func TestReadReportsReadErrors(t *testing.T) {
	broken := errors.New("broken")
	in := io.MultiReader(strings.NewReader("From: a\nTo"), iotest.ErrReader(broken))
	if _, _, _, err := Read(in); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// FuzzRead: the header is whole lines of the message, and the whole message
// can still be read.
func FuzzRead(f *testing.F) {
	f.Add("From: a\r\nSubject: b\r\n c\r\n\r\nbody")
	f.Add("From: a\nnot a header\n")
	f.Add(" folded\n: x\n\x00: y\n")
	f.Fuzz(func(t *testing.T, text string) {
		header, body, complete, err := Read(strings.NewReader(text))
		if err != nil {
			return
		}
		all, err := io.ReadAll(complete)
		if err != nil || string(all) != text {
			t.Errorf("of %q %q is left, %v", text, all, err)
		}
		if body < 0 || body > int64(len(text)) || int64(len(header)) > body+1 {
			t.Errorf("the header of %q is %q, its body begins at %d", text, header, body)
		}
		if strings.ContainsRune(header, 0) || strings.Contains(header, "\n\n") || header != "" && !strings.HasSuffix(header, "\n") {
			t.Errorf("the header of %q is %q", text, header)
		}
	})
}
