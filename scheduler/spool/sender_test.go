package spool

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
	"zsched/scheduler"
)

// Control files that a router left to the senders of their messages.

// nobody is a user who has no rights.
const nobody = 65534

// putAs is put of a message that a router left to its sender.
func (o *testSpool) putAs(uid int, mode os.FileMode, path, control string) {
	o.t.Helper()
	if os.Geteuid() != 0 {
		o.t.Skip("needs root, to take files over")
	}
	o.put(path, control)
	for _, file := range []string{"queue/" + path, "transport/" + path} {
		check(o.t, os.Chown(filepath.Join(o.dir, file), uid, -1))
		check(o.t, os.Chmod(filepath.Join(o.dir, file), mode))
	}
}

func TestSenderCannotWriteTheControlFileOfATakenMessage(t *testing.T) {
	for _, mode := range []os.FileMode{0o460, 0o600} {
		o := newTestSpool(t).open(Options{})
		o.putAs(nobody, mode, "7", control("7", toBob))
		if m := o.loaded("7"); m.Owner != nobody || len(m.Recipients) != 1 {
			t.Errorf("owner %d, recipients %v", m.Owner, m.Recipients)
		}
		var st unix.Stat_t
		check(t, unix.Stat(filepath.Join(o.dir, "transport/7"), &st))
		if st.Uid != 0 || st.Mode&0o7777 != 0o660 {
			t.Errorf("the control file belongs to %d and has mode %#o", st.Uid, st.Mode)
		}
	}
}

// The files were written before transport/ got its group.
func TestFilesOfAWaitingMessageGetTheGroupOfTheAgents(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to change groups")
	}
	o := newTestSpool(t)
	o.put("7", control("7", toBob))
	check(t, os.Chown(filepath.Join(o.dir, "transport"), -1, nobody))
	o.open(Options{})
	shared := func() {
		t.Helper()
		for _, c := range []struct {
			path string
			mode uint32
		}{{"transport/7", 0o660}, {"queue/7", 0o440}} {
			var st unix.Stat_t
			check(t, unix.Stat(filepath.Join(o.dir, c.path), &st))
			if st.Uid != 0 || st.Gid != nobody || st.Mode&c.mode != c.mode {
				t.Errorf("%s: owner %d, group %d, mode %#o", c.path, st.Uid, st.Gid, st.Mode&0o7777)
			}
			check(t, os.Chown(filepath.Join(o.dir, c.path), 0, 0))
		}
	}
	o.loaded("7")
	shared()
	o.s.Reread(5, "7", scheduler.Read{})
	answered[scheduler.Read](o)
	shared()
}

func TestControlFileWaitsWhileItsSenderHasItOpen(t *testing.T) {
	o := newTestSpool(t).open(Options{})
	o.putAs(nobody, 0o600, "7", control("7", toBob))
	sender, err := os.OpenFile(filepath.Join(o.dir, "transport/7"), os.O_RDWR, 0)
	check(t, err)
	defer sender.Close()
	if r := o.refused("7", Busy); !strings.Contains(r.Reason, "open for writing") {
		t.Errorf("reason %q", r.Reason)
	}
	o.refused("7", Busy)
	check(t, sender.Close())
	o.loaded("7")
}

func TestRerouteCopiesWhereNobodyElseCanReach(t *testing.T) {
	o := newTestSpool(t).open(Options{})
	o.putAs(nobody, 0o600, "7", control("7", toBob))
	o.mkdir("public")
	o.loaded("7")
	message, err := postoffice.OpenFile(filepath.Join(o.dir, "queue/7"), os.O_RDONLY)
	check(t, err)
	defer message.Close()
	path, err := o.s.mover.copyMessage(message)
	check(t, err)
	var file, dir unix.Stat_t
	check(t, unix.Lstat(path, &file))
	check(t, unix.Lstat(filepath.Dir(path), &dir))
	if file.Uid != nobody || dir.Uid != 0 || dir.Mode&0o777 != 0o700 {
		t.Errorf("%s belongs to %d, in a directory of %d with mode %#o", path, file.Uid, dir.Uid, dir.Mode)
	}
	// The next scheduler removes what this one leaves.
	o.open(Options{})
	o.s.janitor.removeStale()
	o.holds("queue/7", "transport/7")
}

// A user could write into hold/ and corrupt/ while others could. No order makes the
// scheduler deliver what he wrote there.
func TestControlFileOfAUserIsNotUsedOutsideTheQueue(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make files of others")
	}
	for _, mode := range []os.FileMode{0o600, 0o666} {
		o := newTestSpool(t).open(Options{})
		for _, place := range []string{"hold", "corrupt"} {
			o.write(place+"/queue/7", "Subject: x\n\nbody\n")
			o.write(place+"/transport/7", control("7", toBob))
			check(t, os.Chmod(filepath.Join(o.dir, place, "transport/7"), mode))
			if mode == 0o600 {
				check(t, os.Chown(filepath.Join(o.dir, place, "transport/7"), nobody, -1))
			}
		}
		refused := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, postoffice.ErrForeign) {
				t.Errorf("%s: error %v", what, err)
			}
			o.holds("corrupt/queue/7", "corrupt/transport/7", "hold/queue/7", "hold/transport/7")
		}
		if r := o.refused("hold/7", Unreadable); r.Reason != "open: "+postoffice.ErrForeign.Error() {
			t.Errorf("%+v", r)
		}
		o.s.Resubmit(7, scheduler.Resubmit{Path: "hold/7", Channel: "smtp", Host: "x.example"})
		refused("reroute", answered[scheduler.Resubmit](o).Err)
		var st unix.Stat_t
		check(t, unix.Stat(filepath.Join(o.dir, "hold/transport/7"), &st))
		if os.FileMode(st.Mode&0o777) != mode {
			t.Errorf("it was taken over: owner %d, mode %#o", st.Uid, st.Mode&0o7777)
		}
	}
}
