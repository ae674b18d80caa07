package router

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
	"zsched/internal/testing/memdisk"
	"zsched/internal/zenv"
	"zsched/router/table"
)

// A sweep takes long when a user has made very many entries in router/. It holds up no mail.

// slowDisk has a file router/5 whose examination waits until held is closed, and counts how
// often router/ is opened.
type slowDisk struct {
	*memdisk.Disk
	held  chan struct{}
	opens atomic.Int32
}

func (d *slowDisk) Fstatat(dir int, path string) (unix.Stat_t, error) {
	if strings.HasSuffix(path, "/router/5") {
		<-d.held
	}
	return d.Disk.Fstatat(dir, path)
}

func (d *slowDisk) Openat(dir int, path string, flags int, mode uint32) (int, error) {
	if strings.HasSuffix(path, "/router") {
		d.opens.Add(1)
	}
	return d.Disk.Openat(dir, path, flags, mode)
}

// withSlowDisk runs a router on a slowDisk while f runs, with a watcher that only f feeds. f
// closes held.
func withSlowDisk(t *testing.T, f func(d *slowDisk, w *fsnotify.Watcher)) {
	const office = "/slow-sweep"
	loader := tables(t)
	synctest.Test(t, func(t *testing.T) {
		d := &slowDisk{Disk: memdisk.New(office, os.Geteuid(), rand.New(rand.NewPCG(1, 1))), held: make(chan struct{})}
		defer postoffice.Mount(office, d)()
		r := routerIn(t, office, loader)
		defer r.queue.Close()
		leaveSubmission(t, office+"/router/5")
		d.opens.Store(0)
		signals, ended := make(chan os.Signal, 1), make(chan struct{})
		w := &fsnotify.Watcher{Events: make(chan fsnotify.Event), Errors: make(chan error)}
		go func() {
			defer close(ended)
			r.loop(signals, w)
		}()
		f(d, w)
		signals <- syscall.SIGTERM
		<-ended
	})
}

// routerIn returns a router in a postoffice, whose directories it makes.
func routerIn(t *testing.T, office string, loader *table.Loader) *Service {
	t.Helper()
	for _, name := range []string{"router", "queue", "transport"} {
		if err := postoffice.MakeDir(postoffice.WorkingDir, office+"/"+name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	env := zenv.Parse([]byte("POSTOFFICE=" + office + "\nORGDOMAIN=mx.example\nSYSLOGFLG=none\n"))
	r, err := New(Options{Env: env, Loader: loader, Host: "mx.example", MaxHops: 100, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func leaveSubmission(t *testing.T, path string) {
	t.Helper()
	text := "from <a@b.example>\nto <x@c.example>\nenv-end\n\nbody\n"
	if err := postoffice.WriteFile(postoffice.WorkingDir, path, []byte(text), false); err != nil {
		t.Fatal(err)
	}
}

func TestAnnouncedMailIsRoutedWhileASweepIsUnderWay(t *testing.T) {
	withSlowDisk(t, func(d *slowDisk, w *fsnotify.Watcher) {
		synctest.Wait() // the sweep waits
		leaveSubmission(t, "/slow-sweep/router/1")
		w.Events <- fsnotify.Event{Name: "/slow-sweep/router/1", Op: fsnotify.Create}
		synctest.Wait()
		if queued := d.Files("queue"); len(queued) != 1 {
			t.Errorf("queued during the sweep: %q", queued)
		}
		close(d.held)
		synctest.Wait()
		if queued := d.Files("queue"); len(queued) != 2 {
			t.Errorf("queued after the sweep: %q", queued)
		}
	})
}

// Whoever makes events faster than the router reads them makes it sweep at once, but not all
// the time.
func TestLostEventsLeadToFewSweeps(t *testing.T) {
	withSlowDisk(t, func(d *slowDisk, w *fsnotify.Watcher) {
		close(d.held)
		synctest.Wait()
		for range 100 {
			w.Errors <- fsnotify.ErrEventOverflow
			synctest.Wait()
		}
		if n := d.opens.Load(); n != 2 { // with that of the start
			t.Errorf("%d sweeps at once", n)
		}
		leaveSubmission(t, "/slow-sweep/router/1")
		time.Sleep(sweepInterval)
		synctest.Wait()
		if queued, n := d.Files("queue"), d.opens.Load(); len(queued) != 2 || n != 3 {
			t.Errorf("queued %q after %d sweeps", queued, n)
		}
	})
}

// slowQuarantine is a disk on which it takes a while to rename a file into corrupt/.
type slowQuarantine struct{ *memdisk.Disk }

func (d slowQuarantine) Renameat(fromDir int, from string, toDir int, to string, keep bool) error {
	if strings.Contains(to, "/corrupt/") {
		time.Sleep(batchTime / 10)
	}
	return d.Disk.Renameat(fromDir, from, toDir, to, keep)
}

// Who has many bad files delays the batch of others by a bounded time.
func TestBatchTakesBadFilesForABoundedTime(t *testing.T) {
	const office = "/slow-quarantine"
	loader := tables(t)
	synctest.Test(t, func(t *testing.T) {
		d := memdisk.New(office, os.Geteuid(), rand.New(rand.NewPCG(1, 1)))
		defer postoffice.Mount(office, slowQuarantine{d})()
		r := routerIn(t, office, loader)
		defer r.queue.Close()
		for i := range batchLimit {
			if err := postoffice.WriteFile(postoffice.WorkingDir, fmt.Sprintf("%s/router/%d", office, i+1), []byte("bad\n"), false); err != nil {
				t.Fatal(err)
			}
		}
		r.sweep()
		began := time.Now()
		r.batch()
		if took, moved := time.Since(began), len(d.Files("corrupt/router")); took > 2*batchTime || moved == 0 || moved >= batchLimit {
			t.Errorf("a batch takes %v, and has moved %d files", took, moved)
		}
	})
}

func TestManyStrangeEntriesAreLogged(t *testing.T) {
	o := newOffice(t, 0)
	for i := range 2 * strayStep {
		path := filepath.Join(o.dir, "router", fmt.Sprint(i))
		if err := os.Symlink("x", path); err != nil {
			t.Fatal(err)
		}
	}
	r := o.router()
	var log bytes.Buffer
	r.log = zerolog.New(&log)
	r.sweep()
	r.sweep()
	want := fmt.Sprintf(`"entries":%d,"uid":%d`, 2*strayStep, os.Geteuid())
	if strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), want) {
		t.Errorf("the log has %s", &log)
	}
}
