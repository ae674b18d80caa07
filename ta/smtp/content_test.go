package smtp

import (
	"errors"
	"io"
	"strings"
	"testing"

	"zsched/ta/mime"
)

// changing is a message file that is another one from some reading on.
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
		file := &changing{strings.NewReader("one\ntwo\n"), then, 3}
		c, err := measure("A: b\n", file, mime.Conversion{})
		if err != nil || c.size != int64(len("A: b\r\n\r\none\r\ntwo\r\n")) {
			t.Fatal(c, err)
		}
		if file.left != 1 {
			t.Fatalf("measured in %d readings, not in 2", 3-file.left)
		}
		var local *localError
		if err := c.sendTo(io.Discard); !errors.As(err, &local) {
			t.Errorf("%q: %v", then, err)
		}
	}
}
