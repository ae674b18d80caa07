package spool

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/scheduler"
)

// newSmallSpool has a file system of four megabytes of its own.
func newSmallSpool(t *testing.T) *testSpool {
	o := newRoutedSpool(t)
	if err := unix.Mount("tmpfs", o.dir, "tmpfs", 0, "size=4m,nr_inodes=200"); err != nil {
		t.Skipf("only root may mount a small file system: %v", err)
	}
	t.Cleanup(func() { check(t, unix.Unmount(o.dir, 0)) })
	for _, dir := range []string{"transport", "queue", "router"} {
		o.mkdir(dir)
	}
	return o
}

// fillDisk leaves no byte.
func (o *testSpool) fillDisk() {
	o.t.Helper()
	err := os.WriteFile(filepath.Join(o.dir, "filler"), make([]byte, 8<<20), 0o600)
	if !errors.Is(err, unix.ENOSPC) {
		o.t.Fatal(err)
	}
}

// emptyDisk removes what fillDisk has written.
func (o *testSpool) emptyDisk() { check(o.t, os.Remove(filepath.Join(o.dir, "filler"))) }

// A notice on a full disk takes room from the reserve, and the reserve is made again.
func TestNoticeOnAFullDiskSpendsTheReserve(t *testing.T) {
	o := newSmallSpool(t)
	o.put("7", failed7())
	o.open(Options{Reporter: reporter(o.dir)})
	o.fillDisk()
	o.s.Finish(scheduler.Finish{Op: 1, Path: "7", Owes: true})
	if r := answer[Reserve](o); !IsFull(r.Err) {
		t.Errorf("%+v", r)
	}
	if r := answered[*scheduler.Finish](o); r.Err != nil || len(o.notices()) != 1 {
		t.Errorf("%+v", r)
	}
	o.s.reserve.fill()
	o.emptyDisk()
	o.s.reserve.fill()
	if r := answer[Reserve](o); r.Err != nil {
		t.Errorf("%+v", r)
	}
}

// A notice needs more room than it takes: the router, which comes after it, needs some too. The
// message waits, and what frees nothing does not take the reserve.
func TestNoticeLeavesRoomForItsControlFile(t *testing.T) {
	o := newSmallSpool(t)
	o.put("7", failed7())
	o.open(Options{Reporter: reporter(o.dir)})
	o.fillDisk()
	o.s.Report(3, "7", time.Time{})
	if r := answered[scheduler.Report](o); !IsFull(r.Err) || !o.s.reserve.made {
		t.Errorf("%+v", r)
	}
	check(t, os.RemoveAll(filepath.Join(o.dir, reserveDir)))
	o.fillDisk()
	if r := o.finished("7", true); !IsFull(r.Err) || len(o.notices()) > 0 {
		t.Errorf("%+v", r)
	}
}

// A delivery of which the sender is to be told is recorded although there is no room for its
// d line, and the d line is written later.
func TestDeliveryIsRecordedOnAFullDisk(t *testing.T) {
	o := newSmallSpool(t)
	text := control("7", strings.Replace(toBob, "\n", "\nN NOTIFY=SUCCESS\n", 1))
	o.put("7", text)
	o.open(Options{})
	check(t, os.RemoveAll(filepath.Join(o.dir, reserveDir)))
	o.fillDisk()
	success := ctlfile.Mark{
		Offset: offset(t, text, "bob@b"), Tag: ctlfile.Delivered, Diagnose: true, Notary: strings.Repeat("x", 5000) + "\x01delivered\x01",
	}
	o.s.Mark(1, "7", []ctlfile.Mark{success})
	if r := answered[scheduler.Mark](o); !IsFull(r.Err) || o.tags("transport/7") != "+" || len(o.lines("transport/7")) > 0 {
		t.Errorf("%+v, tags %q", r, o.tags("transport/7"))
	}
	o.emptyDisk()
	if r := o.marked("7", success); r.Err != nil || len(o.lines("transport/7")) != 1 {
		t.Errorf("%+v, lines %q", r, o.lines("transport/7"))
	}
}

// A reserve of an earlier start counts, however little room there is.
func TestReserveOutlivesARestart(t *testing.T) {
	o := newSmallSpool(t)
	o.open(Options{})
	o.fillDisk()
	o.open(Options{})
	if err := (postoffice.Room{Bytes: 1}).Check(o.dir); err == nil || !o.s.reserve.made {
		t.Error("the reserve is gone")
	}
}
