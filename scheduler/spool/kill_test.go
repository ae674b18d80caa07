//go:build linux && amd64

package spool

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
	"zsched/scheduler"
)

// Here a process does one thing and is killed at the first, the second, the
// third system call that would change a file, until it gets to its end alive.
// So there is no state between two system calls that is not tried.

// killLimit is more calls than any of these things makes.
const killLimit = 60

// helpKilled opens the spool and does what it was told to.
func helpKilled(dir string) {
	s, err := Open(Options{Postoffice: dir, By: "scheduler@mx.example", Reporter: reporter(dir)})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	_, _ = unix.Getpgid(0) // the sign that it begins
	switch os.Getenv("SPOOL_TEST_TASK") {
	case "router":
		s.Resubmit(1, scheduler.Resubmit{Path: "A/H/7"})
	case "reroute":
		s.Resubmit(1, scheduler.Resubmit{Path: "A/H/7", Channel: "uucp", Host: "relay"})
	case "hold":
		s.Hold(1, "A/H/7")
	case "release":
		s.Release(1, "A/H/7")
	case "interim notice":
		s.Report(1, "A/H/7", time.Time{})
	case "notice":
		s.Finish(scheduler.Finish{Op: 1, Path: "A/H/7", Owes: true})
	case "lists":
		_, _ = s.holds.LoadHolds()
		os.Exit(0)
	}
	for results := range s.Results() {
		for _, r := range results {
			if _, ok := r.(Answered); ok {
				os.Exit(0)
			}
		}
	}
}

// killedAt runs the helper and kills it at its nth changing call. It is false
// if the helper has exited before.
func killedAt(t *testing.T, dir, task string, n int) bool {
	t.Helper()
	// Only the thread that starts a process may trace it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SPOOL_TEST_HELPER=killed", "SPOOL_TEST_PATH="+dir, "SPOOL_TEST_TASK="+task)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		t.Skipf("no process can be traced: %v", err)
	}
	pid := cmd.Process.Pid
	defer func() { _ = cmd.Process.Release() }()
	var status unix.WaitStatus
	_, err := unix.Wait4(pid, &status, unix.WALL, nil)
	check(t, err)
	check(t, unix.PtraceSetOptions(pid, unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_EXITKILL))
	check(t, unix.PtraceSyscall(pid, 0))

	inside := map[int]bool{} // threads that are in a system call
	counting, count := false, 0
	for {
		thread, err := unix.Wait4(-1, &status, unix.WALL|unix.WNOTHREAD, nil)
		check(t, err)
		if !status.Stopped() {
			if thread != pid {
				continue
			}
			if status.Exited() && status.ExitStatus() != 0 {
				t.Fatalf("%s: the helper failed", task)
			}
			return status.Signaled()
		}
		signal := status.StopSignal()
		switch signal {
		case unix.SIGTRAP | 0x80:
			inside[thread] = !inside[thread]
			var regs unix.PtraceRegs
			if inside[thread] && unix.PtraceGetRegs(thread, &regs) == nil {
				counting = counting || regs.Orig_rax == unix.SYS_GETPGID
				if counting && changing(&regs) {
					if count++; count == n {
						check(t, unix.Kill(pid, unix.SIGKILL))
					}
				}
			}
			signal = 0
		case unix.SIGTRAP, unix.SIGSTOP: // a thread is made, or begins
			signal = 0
		}
		_ = unix.PtraceSyscall(thread, int(signal))
	}
}

// changing reports whether a system call may change what is in the spool.
func changing(regs *unix.PtraceRegs) bool {
	switch regs.Orig_rax {
	case unix.SYS_OPENAT:
		return regs.Rdx&unix.O_CREAT != 0
	case unix.SYS_WRITE:
		return regs.Rdx > 8 // less is how the runtime wakes itself
	case unix.SYS_PWRITE64, unix.SYS_FTRUNCATE, unix.SYS_COPY_FILE_RANGE,
		unix.SYS_FSYNC, unix.SYS_FDATASYNC,
		unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_LINKAT, unix.SYS_UNLINKAT, unix.SYS_MKDIRAT,
		unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT:
		return true
	}
	return false
}

// killEverywhere kills a task at each of its calls, each time in a test spool made
// anew, and looks at what is left.
func killEverywhere(t *testing.T, task string, least int, begin func(*testSpool), look func(o *testSpool, at string)) {
	for n := 1; ; n++ {
		o := newRoutedSpool(t)
		begin(o)
		killed := killedAt(t, o.dir, task, n)
		at := fmt.Sprintf("%s, killed at call %d", task, n)
		o.open(Options{})
		o.s.janitor.removeStale()
		for _, path := range o.files() { // as the receiver does with what the sweep finds
			if held, ok := strings.CutPrefix(path, "hold/transport/"); ok {
				o.load("hold/" + held)
			}
		}
		look(o, at)
		o.close()
		switch {
		case !killed && n <= least:
			t.Fatalf("%s made only %d calls that change a file", task, n-1)
		case !killed:
			return
		case n == killLimit:
			t.Fatalf("%s is not at its end after %d calls", task, n)
		}
	}
}

func TestKilled(t *testing.T) {
	t.Parallel()
	text := control("7", toThree)
	put := func(place string) func(*testSpool) {
		return func(o *testSpool) {
			o.write(place+"transport/A/H/7", text)
			o.write(place+"queue/A/H/7", "message of some length")
		}
	}
	for task, c := range map[string]struct {
		least int
		begin func(*testSpool)
		look  func(o *testSpool, at string)
	}{
		"router":  {10, put(""), everyoneLives},
		"reroute": {12, put(""), everyoneLives},
		"hold":    {2, put(""), inOnePlace},
		"release": {2, put("hold/"), inOnePlace},
		"notice": {8, func(o *testSpool) {
			o.write("transport/A/H/7", failed7())
			o.write("queue/A/H/7", "message of some length")
		}, oneOrTwoNotices},
		"interim notice": {6, func(o *testSpool) {
			o.write("transport/A/H/7", failed7())
			o.write("queue/A/H/7", "message of some length")
		}, oneOrTwoNotices},
		"lists": {8, func(o *testSpool) {
			o.write("hold/threads", oldList)
			o.write("hold/orders/1", oldThread)
		}, allHeld},
	} {
		t.Run(task, func(t *testing.T) {
			t.Parallel()
			killEverywhere(t, task, c.least, c.begin, c.look)
		})
	}
}

// everyoneLives: nobody is lost, and nobody goes more than twice.
func everyoneLives(o *testSpool, at string) {
	copies := o.copies()
	for _, user := range []string{"bob@b.example", "carol", "eve@e.example"} {
		if n := copies[user]; n < 1 || n > 2 {
			o.t.Errorf("%s: %d copies of %s in %q", at, n, user, o.files())
		}
	}
	for _, path := range o.files() {
		if strings.HasPrefix(path, "public/") {
			o.t.Errorf("%s: %s is left", at, path)
		}
	}
}

func inOnePlace(o *testSpool, at string) {
	// What a sweep does: it sends the control file after its message.
	for _, path := range []string{"A/H/7", "hold/A/H/7"} {
		if p, inPlace := placeOf(path); postoffice.Exists(o.s.places.pairs[p].transport, inPlace) {
			o.load(path)
		}
	}
	files := o.files()
	if !slices.Equal(files, []string{"queue/A/H/7", "transport/A/H/7"}) &&
		!slices.Equal(files, []string{"hold/queue/A/H/7", "hold/transport/A/H/7"}) {
		o.t.Errorf("%s: files %q", at, files)
	}
}

// allHeld: the lists of version 0.9, or the records made from them, hold everything.
func allHeld(o *testSpool, at string) {
	records, _ := o.s.holds.LoadHolds()
	names := slices.Compact(kept(records))
	if !slices.Equal(names, []string{"a.example they asked", "b.example", "c.example they are moving", "gone.example they asked"}) {
		o.t.Errorf("%s: %q", at, names)
	}
}
