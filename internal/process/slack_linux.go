package process

import (
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// The timer slack of a process (prctl(2), PR_SET_TIMERSLACK), in nanoseconds.
const (
	kernelsSlack = 50_000
	coarseSlack  = 1_000_000
)

// CoarsenTimers lets the timers of this program and of those that it starts be a millisecond
// late, unless somebody has chosen another slack for it. Go's monitor sleeps for 20 microseconds at
// a time while a program works and waits in turn, and these sleeps take a quarter of the processor
// time of a scheduler or an agent. Its thread is older than the program's own code, so the program
// starts itself again. It goes on as it is if it cannot.
func CoarsenTimers() {
	runtime.LockOSThread() // the slack is a thread's, and its children and a new program inherit it
	defer runtime.UnlockOSThread()
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil || slack != kernelsSlack || unix.Prctl(unix.PR_SET_TIMERSLACK, coarseSlack, 0, 0, 0) != nil {
		return
	}
	if self, err := os.Executable(); err == nil {
		_ = syscall.Exec(self, os.Args, os.Environ())
	}
}
