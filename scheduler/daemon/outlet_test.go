package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
)

// gatedFile takes a write only when it is let.
type gatedFile struct {
	buffer
	gate   chan error
	writes int
}

func (f *gatedFile) Write(p []byte) (int, error) {
	if err := <-f.gate; err != nil {
		return 0, err
	}
	f.writes++
	return f.buffer.Write(p)
}

func (f *gatedFile) Close() error { return nil }

func newGated(t *testing.T) (*Outlet, *gatedFile) {
	f := &gatedFile{gate: make(chan error, 10)}
	o, err := NewOutlet(func() (io.WriteCloser, error) { return f, nil })
	if err != nil {
		t.Fatal(err)
	}
	return o, f
}

func TestOutletGathersWhileTheFileIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, f := newGated(t)
		var want bytes.Buffer
		for i := range 1000 {
			fmt.Fprintf(&want, "line %d\n", i)
			fmt.Fprintf(o, "line %d\n", i)
			if i == 0 {
				synctest.Wait() // it hangs in the first line
			}
		}
		f.gate <- nil
		f.gate <- nil
		o.Close()
		if f.String() != want.String() {
			t.Error("what was written is not what was given")
		}
		if f.writes != 2 {
			t.Errorf("%d writes", f.writes)
		}
	})
}

// A file that takes nothing costs lines, never memory without bound, and the
// loss is told once it takes lines again.
func TestOutletLosesWhatItCannotHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, f := newGated(t)
		told := 0
		o.Lost = func(lines int) { told += lines }
		line := []byte(strings.Repeat("x", 1023) + "\n")
		o.Write(line)
		synctest.Wait() // it hangs in that one
		const rest = outletLimit/1024 + 5
		for range rest {
			o.Write(line)
		}
		f.gate <- errors.New("disk full")
		f.gate <- errors.New("disk full")
		synctest.Wait()
		if told != 0 {
			t.Error("the loss is told before anything goes out")
		}
		f.gate <- nil
		o.Write([]byte("back\n"))
		synctest.Wait()
		f.gate <- nil
		o.Close()
		if f.String() != "back\n" || told != 1+rest {
			t.Errorf("%d lines told lost, %d bytes written", told, len(f.String()))
		}
	})
}

// The two buffers must not become one when there is nothing to write.
func TestOutletWakesForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, f := newGated(t)
		o.Write([]byte("first\n"))
		f.gate <- nil
		synctest.Wait()
		o.Reopen()
		synctest.Wait()
		o.Write([]byte("second\n"))
		synctest.Wait() // it hangs in that one
		o.Write([]byte("THIRD!\n"))
		f.gate <- nil
		f.gate <- nil
		o.Close()
		if got := f.String(); got != "first\nsecond\nTHIRD!\n" {
			t.Errorf("%q was written", got)
		}
	})
}

func TestOutletReopensByName(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	o, err := NewOutlet(func() (io.WriteCloser, error) {
		return os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	o.Write([]byte("before\n"))
	if err := os.Rename(name, name+".1"); err != nil {
		t.Fatal(err)
	}
	o.Reopen()
	o.Close()
	o2, err := NewOutlet(func() (io.WriteCloser, error) {
		return os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0o600)
	})
	if err != nil {
		t.Fatal("reopening made no new file: ", err)
	}
	o2.Write([]byte("after\n"))
	o2.Close()
	for file, want := range map[string]string{name + ".1": "before\n", name: "after\n"} {
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s holds %q, want %q (%v)", file, got, want, err)
		}
	}
}

// A name that cannot be opened any more leaves the old file in use.
func TestOutletKeepsItsFileWhenReopeningFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &gatedFile{gate: make(chan error, 10)}
		opens := 0
		o, _ := NewOutlet(func() (io.WriteCloser, error) {
			if opens++; opens > 1 {
				return nil, errors.New("no such directory")
			}
			return f, nil
		})
		o.Reopen()
		synctest.Wait()
		f.gate <- nil
		o.Write([]byte("still here\n"))
		o.Close()
		if f.String() != "still here\n" || opens != 2 {
			t.Errorf("%q after %d openings", f.String(), opens)
		}
	})
}

func TestOutletThatCannotBeOpenedIsAnError(t *testing.T) {
	_, err := NewOutlet(func() (io.WriteCloser, error) { return nil, os.ErrPermission })
	if !errors.Is(err, os.ErrPermission) {
		t.Errorf("error is %v", err)
	}
}
