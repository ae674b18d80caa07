package process

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

const slackVariable = "ZSCHED_TEST_SLACK"

// The test program prints its slack, when it is asked to.
func init() {
	if os.Getenv(slackVariable) != "" {
		CoarsenTimers()
		slack, err := os.ReadFile("/proc/self/timerslack_ns")
		fmt.Print(string(slack))
		if err != nil {
			fmt.Print(err)
		}
		os.Exit(0)
	}
}

// A program starts itself again with the coarse slack, unless somebody has chosen another.
func TestCoarsenTimers(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	was, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(was), 0, 0, 0) }()
	for slack, want := range map[uintptr]string{kernelsSlack: "1000000\n", 70_000: "70000\n"} {
		if err := unix.Prctl(unix.PR_SET_TIMERSLACK, slack, 0, 0, 0); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), slackVariable+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != want {
			t.Errorf("slack %d: %q, %v; want %q", slack, out, err, want)
		}
	}
}
