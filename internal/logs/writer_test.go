package logs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
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

func newGated(t *testing.T) (*Writer, *gatedFile) {
	f := &gatedFile{gate: make(chan error, 10)}
	o, err := Open(func() (io.WriteCloser, error) { return f, nil })
	if err != nil {
		t.Fatal(err)
	}
	return o, f
}

func TestFileGathersWhileTheFileIsSlow(t *testing.T) {
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

// What a file did not take goes out when it takes lines again. What is too much
// for that costs lines, never memory without bound, and the loss is told then.
func TestFileKeepsWhatItCanHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, f := newGated(t)
		told := 0
		o.Lost = func(lines int) { told += lines }
		line := strings.Repeat("x", 1023) + "\n"
		io.WriteString(o, line)
		synctest.Wait() // it hangs in that one
		const held = maxHeld / 1024
		for range held + 4 {
			io.WriteString(o, line)
		}
		f.gate <- syscall.ENOSPC
		f.gate <- syscall.ENOSPC
		synctest.Wait()
		if told != 0 {
			t.Error("the loss is told before anything goes out")
		}
		io.WriteString(o, "one more, and there is room\n")
		f.gate <- nil
		f.gate <- nil
		o.Close()
		if got, want := f.String(), strings.Repeat(line, held); got != want || told != 6 {
			t.Errorf("%d lines told lost, %d bytes written of %d", told, len(got), len(want))
		}
	})
}

// fullFile has room for so many bytes.
type fullFile struct {
	buffer
	room int
}

func (f *fullFile) Write(p []byte) (int, error) {
	if len(p) <= f.room {
		f.room -= len(p)
		return f.buffer.Write(p)
	}
	n, _ := f.buffer.Write(p[:f.room])
	f.room = 0
	return n, syscall.ENOSPC
}

func (f *fullFile) Close() error { return nil }

// Programs read these lines: a disk that was full in the middle of one must not
// make one of two.
func TestFileGoesOnWithinALine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fullFile{room: 3}
		o, _ := Open(func() (io.WriteCloser, error) { return f, nil })
		io.WriteString(o, "first\n")
		synctest.Wait()
		f.room = 1000
		io.WriteString(o, "second\n")
		o.Close()
		if got := f.String(); got != "first\nsecond\n" {
			t.Errorf("%q was written", got)
		}
	})
}

// A terminal that is stopped, or a pipe that nobody reads, does not keep the
// scheduler from leaving.
func TestFileThatIsStuckIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, f := newGated(t)
		io.WriteString(o, "line\n")
		o.Close()
		f.gate <- nil
	})
}

// The two buffers must not become one when there is nothing to write.
func TestFileWakesForNothing(t *testing.T) {
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

func TestFileReopensByName(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	o, err := Open(func() (io.WriteCloser, error) {
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
	o2, err := Open(func() (io.WriteCloser, error) {
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
func TestFileKeepsItsFileWhenReopeningFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &gatedFile{gate: make(chan error, 10)}
		opens := 0
		o, _ := Open(func() (io.WriteCloser, error) {
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

func TestFileThatCannotBeOpenedIsAnError(t *testing.T) {
	_, err := Open(func() (io.WriteCloser, error) { return nil, os.ErrPermission })
	if !errors.Is(err, os.ErrPermission) {
		t.Errorf("error is %v", err)
	}
}

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// The old file says that the new one cannot be opened.
func TestFileThatCannotBeReopenedStays(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	o, err := Open(func() (io.WriteCloser, error) {
		return os.OpenFile(filepath.Join(dir, "log"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	told := make(chan struct{})
	o.Failed = func(err error) {
		io.WriteString(o, "cannot be opened\n")
		close(told)
	}
	o.Reopen()
	<-told
	o.Close()
	text, err := os.ReadFile(filepath.Join(dir+".old", "log"))
	if err != nil || string(text) != "cannot be opened\n" {
		t.Errorf("%q %v", text, err)
	}
}

// The directory of a log vanishes, and the log is reopened: one word is said about it, the
// old file stays in use, and the new one is made as soon as that is possible.
func TestFileWhoseDirectoryVanishesIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "logs")
		name := filepath.Join(dir, "events")
		check := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		check(os.Mkdir(dir, 0o700))
		o, err := Open(func() (io.WriteCloser, error) {
			return os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		})
		check(err)
		failed := 0
		o.Failed = func(error) { failed++ }
		io.WriteString(o, "before\n")
		synctest.Wait()
		old, err := os.Open(name)
		check(err)
		defer old.Close()
		check(os.RemoveAll(dir))
		o.Reopen()
		synctest.Wait()
		io.WriteString(o, "between\n")
		time.Sleep(10 * reopenInterval) // of the bubble
		if failed != 1 {
			t.Errorf("%d words about it", failed)
		}
		check(os.Mkdir(dir, 0o700))
		time.Sleep(2 * reopenInterval)
		io.WriteString(o, "after\n")
		synctest.Wait()
		o.Close()
		got, err := os.ReadFile(name)
		if string(got) != "after\n" || err != nil {
			t.Errorf("%.100q was written, %v", got, err)
		}
		if got, err := io.ReadAll(old); string(got) != "before\nbetween\n" || err != nil {
			t.Errorf("the old file has %q, %v", got, err)
		}
	})
}

// A program starts on a full disk: its log is created when there is room.
func TestFileOnAFullDiskIsCreatedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fullFile{room: 1000}
		var hasRoom atomic.Bool
		o, err := Open(func() (io.WriteCloser, error) {
			if !hasRoom.Load() {
				return nil, syscall.ENOSPC
			}
			return f, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(o, "first\n")
		synctest.Wait()
		hasRoom.Store(true)
		time.Sleep(2 * reopenInterval)
		synctest.Wait()
		if got := f.String(); got != "first\n" {
			t.Errorf("%q was written", got)
		}
		o.Close()
	})
}

// A reader that breaks its connection gets whole lines from the next one.
func TestPlaceThatBreaksIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken, next buffer
		opens, lost := 0, 0
		o, err := Open(func() (io.WriteCloser, error) {
			if opens++; opens == 1 {
				return breaking{&broken}, nil
			}
			return closer{&next}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		o.Lost = func(lines int) { lost += lines }
		io.WriteString(o, "first\nsecond\n")
		time.Sleep(2 * reopenInterval)
		io.WriteString(o, "third\n")
		o.Close()
		if broken.String() != "fir" || next.String() != "first\nsecond\nthird\n" || lost != 0 {
			t.Errorf("%q and %q, %d lines lost", broken.String(), next.String(), lost)
		}
	})
}

// closer is a buffer with Close.
type closer struct{ *buffer }

func (closer) Close() error { return nil }

// breaking takes three bytes and breaks.
type breaking struct{ *buffer }

func (b breaking) Write(p []byte) (int, error) {
	n, _ := b.buffer.Write(p[:3])
	return n, io.ErrClosedPipe
}

func (breaking) Close() error { return nil }
