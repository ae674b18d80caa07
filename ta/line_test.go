package ta

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// chunks gives what one Read shall bring, then io.EOF.
type chunks []string

func (c *chunks) Read(b []byte) (int, error) {
	if len(*c) == 0 {
		return 0, io.EOF
	}
	n := copy(b, (*c)[0])
	if (*c)[0] = (*c)[0][n:]; (*c)[0] == "" {
		*c = (*c)[1:]
	}
	return n, nil
}

// allLines reads everything; what is no line is marked.
func allLines(l *LineReader) (got []string, err error) {
	for {
		line, err := l.Next()
		switch {
		case err == nil:
			got = append(got, string(line))
		case err == ErrLong:
			got = append(got, fmt.Sprintf("long %d", len(line)))
		case err == ErrTail:
			got = append(got, "tail "+string(line))
		default:
			return got, err
		}
	}
}

func TestLinesAreCutHoweverTheyArrive(t *testing.T) {
	const stream = "one\n\ntwo\x00\r\nthree\nta"
	want := []string{"one", "", "two\x00\r", "three", "tail ta"}
	for name, r := range map[string]io.Reader{
		"whole":        strings.NewReader(stream),
		"byte by byte": iotest.OneByteReader(strings.NewReader(stream)),
		"halves":       iotest.HalfReader(strings.NewReader(stream)),
		"with EOF":     iotest.DataErrReader(strings.NewReader(stream)),
	} {
		if got, err := allLines(NewLineReader(r, MaxLine)); !slices.Equal(got, want) || err != io.EOF {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// A pause after 2048, 3072 or 4096 bytes made the old scheduler drop its agent.
func TestTailsOfAnyLengthAtAPause(t *testing.T) {
	for _, n := range []int{1, 1023, 1024, 1025, 2047, 2048, 2049, 3072, 4095, 4096, 4097, 8192, MaxLine - 1, MaxLine} {
		tail := strings.Repeat("x", n)
		l := NewLineReader(&chunks{"#hungry\n", tail, "\n#hungry\n"}, MaxLine)
		if got, err := allLines(l); !slices.Equal(got, []string{"#hungry", tail, "#hungry"}) || err != io.EOF {
			t.Errorf("tail of %d: %.60q, %v", n, got, err)
		}
	}
}

func TestOverlongLineIsDroppedUpToItsEnd(t *testing.T) {
	for _, n := range []int{11, 12, 21, 22, 1000} {
		l := NewLineReader(strings.NewReader("0123456789\n"+strings.Repeat("x", n)+"\nnext\n"), 10)
		if got, _ := allLines(l); !slices.Equal(got, []string{"0123456789", "long 10", "next"}) {
			t.Errorf("line of %d: %q", n, got)
		}
	}
	l := NewLineReader(strings.NewReader("12345678901234"), 10)
	if got, _ := allLines(l); !slices.Equal(got, []string{"long 10"}) {
		t.Errorf("overlong tail: %q", got)
	}
	l = NewLineReader(strings.NewReader(strings.Repeat("x", 10<<20)), MaxLine)
	if _, err := l.Next(); err != ErrLong || cap(l.long) > 2*MaxLine {
		t.Errorf("10 MB without an end: %v, %d bytes kept", err, cap(l.long))
	}
}

func TestBufferedTellsWhetherNextWouldRead(t *testing.T) {
	reads := 0
	c := chunks{"a\nb\nc", "d\n", "0123456789ab", "c\ne\n"}
	l := NewLineReader(readerFunc(func(b []byte) (int, error) { reads++; return c.Read(b) }), 10)
	for {
		buffered, before := l.Buffered(), reads
		line, err := l.Next()
		if read := reads > before; buffered == read && err != io.EOF {
			t.Errorf("before %q, %v: buffered %v, read %v", line, err, buffered, read)
		}
		if err == io.EOF {
			break
		}
	}
	if !l.Buffered() {
		t.Error("the end is not buffered")
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

func TestErrorsOfTheStream(t *testing.T) {
	broken := errors.New("broken")
	l := NewLineReader(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)), MaxLine)
	if got, err := allLines(l); !slices.Equal(got, []string{"a", "tail b"}) || err != broken {
		t.Errorf("%q, %v", got, err)
	}
	idle := NewLineReader(readerFunc(func([]byte) (int, error) { return 0, nil }), MaxLine)
	if _, err := idle.Next(); err != io.ErrNoProgress {
		t.Errorf("a reader that does nothing: %v", err)
	}
}

// The reader against a split of the whole stream.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nbb\n\nccc"), 3, 2)
	f.Add([]byte("0123456789\n01234567890\nx\n"), 10, 7)
	f.Fuzz(func(t *testing.T, stream []byte, most, chunk int) {
		most, chunk = 1+int(uint(most)%100), 1+int(uint(chunk)%200)
		var want []string
		for line := range bytes.Lines(stream) {
			body, whole := bytes.CutSuffix(line, []byte("\n"))
			switch {
			case len(body) > most:
				want = append(want, fmt.Sprintf("long %d", most))
			case whole:
				want = append(want, string(body))
			default:
				want = append(want, "tail "+string(body))
			}
		}
		var c chunks
		for b := range slices.Chunk(stream, chunk) {
			c = append(c, string(b))
		}
		if got, err := allLines(NewLineReader(&c, most)); !slices.Equal(got, want) || err != io.EOF {
			t.Fatalf("%q by %d, at most %d: %q, want %q (%v)", stream, chunk, most, got, want, err)
		}
	})
}
