package router

// Few descriptors: batches become smaller, and all mail is routed.

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// leave bounds the open files of this process: so many more may be opened, until the
// function that it returns is called.
func leave(t *testing.T, files int) (restore func()) {
	t.Helper()
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	open := map[string]bool{}
	for _, e := range entries {
		open[e.Name()] = true
	}
	// The limit is on the numbers of descriptors.
	few := unix.Rlimit{Max: before.Max}
	for free := 0; free < files; few.Cur++ {
		if !open[strconv.FormatUint(few.Cur, 10)] {
			free++
		}
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	restored := false
	restore = func() {
		if !restored {
			restored = true
			_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &before)
		}
	}
	t.Cleanup(restore)
	return restore
}

func TestFewDescriptorsMakeSmallerBatches(t *testing.T) {
	o := newOffice(t, 0)
	const submissions = 60
	for i := range submissions {
		o.write(fmt.Sprint("router/", i+1), "from <s@a.example>\nto <list@mx.example>\nenv-end\n\nbody\n")
	}
	r := o.router()
	restore := leave(t, 16)
	r.drain()
	restore()
	if len(r.failed) > 0 {
		t.Errorf("%d submissions wait for another try", len(r.failed))
	}
	if n := len(o.files("transport")); n != submissions {
		t.Errorf("%d messages are queued", n)
	}
}

func TestStagingDirectoryIsMadeAgain(t *testing.T) {
	o := newOffice(t, 0)
	r := o.router()
	for i := range 2 {
		if err := os.RemoveAll(filepath.Join(o.dir, "transport", ".router")); err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			r.recover() // the sweep of a running router
			if _, err := os.Stat(filepath.Join(o.dir, "transport", ".router")); err != nil {
				t.Error(err)
			}
			continue
		}
		o.write("router/1", "from <s@a.example>\nto <z@d.example>\nenv-end\n\nbody\n")
		r.sweep()
		r.batch()
		if n := len(o.files("transport")); n != 1 || len(r.failed) > 0 {
			t.Errorf("%d messages are queued, %v failed", n, r.failed)
		}
	}
}
