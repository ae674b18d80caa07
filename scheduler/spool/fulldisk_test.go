package spool

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/scheduler"
)

func TestProbe(t *testing.T) {
	o := newTestSpool(t).open(Options{})
	o.s.Probe()
	if p := answer[Probed](o); p.Err != nil {
		t.Fatal(p.Err)
	}
	o.holds()
	check(t, os.Remove(filepath.Join(o.dir, "transport")))
	o.s.Probe()
	if p := answer[Probed](o); p.Err == nil {
		t.Fatal("a directory that is gone can be written")
	}
}

// ordinary makes this process that of a user whom permissions bind.
func ordinary() error {
	if os.Geteuid() != 0 {
		return nil
	}
	if err := syscall.Setgroups(nil); err != nil {
		return err
	}
	return syscall.Setresuid(someUser, someUser, someUser)
}

const someUser = 65534

// helpUnwritable finishes and marks what it may not, and says what came of it.
func helpUnwritable(dir string) {
	if err := ordinary(); err != nil {
		fmt.Println(err)
		return
	}
	s, err := Open(Options{Postoffice: dir, Reporter: noReporter{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	o := &testSpool{dir: dir, s: s}
	mode := func(path string, mode os.FileMode) {
		if err := os.Chmod(filepath.Join(dir, path), mode); err != nil {
			fmt.Println(err)
		}
	}
	try := func(what string) {
		s.Finish(scheduler.Finish{Op: 1, Path: what, Owes: what == "A/5"})
		err := answered[*scheduler.Finish](o).Err
		s.Probe()
		fmt.Println(what, err != nil, IsDown(err), answer[Probed](o).Err == nil)
	}
	for _, c := range []struct{ closed, path string }{
		{"transport", "1"}, {"queue", "2"}, {"transport/A/H", "A/H/3"}, {"queue/A", "A/4"}, {"transport/A", "A/5"},
	} {
		mode(c.closed, 0o555)
		try(c.path)
		mode(c.closed, 0o755)
		try(c.path)
	}
	mark := func(path string) {
		s.Mark(2, path, []ctlfile.Mark{{Offset: 0, Tag: ctlfile.Failed}})
		err := answered[scheduler.Mark](o).Err
		s.Probe()
		fmt.Println("mark", err != nil, IsDown(err), answer[Probed](o).Err == nil)
	}
	finishUntagged := func(path string) {
		name := filepath.Join(dir, "transport", path)
		text, _ := os.ReadFile(name)
		at := bytes.Index(text, []byte("\nr ")) + 1
		s.Finish(scheduler.Finish{Op: 3, Path: path, Untagged: int64(at), Tag: ctlfile.Delivered})
		err := answered[*scheduler.Finish](o).Err
		text, _ = os.ReadFile(name)
		fmt.Println("untagged", err != nil, len(text) > 0 && text[at+1] == byte(ctlfile.Delivered))
	}
	mode("transport", 0o555)
	finishUntagged("8")
	mode("transport", 0o755)
	finishUntagged("8")
	mode("transport/6", 0)
	mark("6")
	mode("transport", 0)
	mark("6")
	mode("transport", 0o755)
	mark("6")
}

// A file in a directory in which nothing can be removed stays, and is removed when the
// directory is open again; no other mail waits for it. If the last recipient of the file is
// not tagged, it is tagged then. That one file may not be opened says nothing of any other.
func TestFileInAShutDirectoryStays(t *testing.T) {
	o := newTestSpool(t)
	for _, path := range []string{"1", "2", "A/H/3", "A/4", "6", "8"} {
		o.put(path, control("7", toBob))
	}
	text := control("7", strings.Replace(toBob, "r ", "r-", 1))
	o.put("A/5", text+diagnose(offset(t, text, "bob@b"), "bob@b.example", "failed"))
	if os.Geteuid() == 0 {
		check(t, os.Chmod(filepath.Dir(o.dir), 0o755))
		check(t, filepath.WalkDir(o.dir, func(path string, _ os.DirEntry, _ error) error {
			return os.Chown(path, someUser, -1)
		}))
	}
	_, lines, _ := startHelper(t, "unwritable", o.dir)
	var got []string
	for lines.Scan() {
		got = append(got, lines.Text())
	}
	// Did it fail; does the whole spool; does a probe succeed?
	want := []string{
		"1 true false false", "1 false false true",
		"2 true false true", "2 false false true",
		"A/H/3 true false true", "A/H/3 false false true",
		"A/4 true false true", "A/4 false false true",
		"A/5 true false true", "A/5 false false true",
		"untagged true true", "untagged false false", // did it fail; is the tag in the file
		"mark true false true", "mark true false false", "mark true false true",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
	o.holds("corrupt/queue/A/5", "corrupt/transport/A/5", "corrupt/transport/A/5.reason", "queue/6", "transport/6")
}

// A file that cannot be removed although others can is a fault of its own:
// mail is not held up for it.
func TestFileThatCannotBeRemovedIsAFaultOfItsOwn(t *testing.T) {
	o := newTestSpool(t)
	o.put("7", control("7", toBob))
	o.open(Options{})
	path := filepath.Join(o.dir, "transport/7")
	if err := immutable(path, true); err != nil {
		t.Skipf("no file can be made immutable here: %v", err)
	}
	r := o.finished("7", false)
	check(t, immutable(path, false))
	if !errors.Is(r.Err, unix.EPERM) || IsDown(r.Err) {
		t.Errorf("%+v", r)
	}
}

// immutable is chattr(1) +i and -i.
func immutable(path string, on bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil {
		return err
	}
	const immutableFlag = 0x10
	flags &^= immutableFlag
	if on {
		flags |= immutableFlag
	}
	return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(flags))
}
