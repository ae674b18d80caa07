package process

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestParseStat(t *testing.T) {
	const rest = " 17 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 "
	for text, want := range map[string]struct {
		stat
		ok bool
	}{
		"17 (smtp) S 1 2 3":                      {},
		"17 smtp S":                              {},
		"17 (smtp) S 1 17" + rest + "1234 5 6\n": {stat{'S', 1, 17, 12340 * time.Millisecond}, true},
		"17 (a) b) Z 4 17" + rest + "7 5 6\n":    {stat{'Z', 4, 17, 70 * time.Millisecond}, true},
		"17 (smtp) S 1 17" + rest + "x 5 6\n":    {},
	} {
		if got, ok := parseStat([]byte(text)); got != want.stat || ok != want.ok {
			t.Errorf("%q: %+v %v", text, got, ok)
		}
	}
}

// start runs a process that does nothing until it is killed.
func start(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd
}

func TestARunningProcessRunsSinceItsStart(t *testing.T) {
	pid := start(t).Process.Pid
	now := time.Now()
	if !Exists(pid) || !RunningSince(pid, now) {
		t.Error("a process does not run")
	}
	if RunningSince(pid, now.Add(-time.Hour)) {
		t.Error("a process ran before it was started")
	}
	// Init belongs to root and is as old as the machine.
	if !Exists(1) || !RunningSince(1, now) {
		t.Error("init does not run")
	}
	for _, pid := range []int{0, -1} {
		if Exists(pid) || RunningSince(pid, now) {
			t.Errorf("there is a process %d", pid)
		}
	}
}

// When the clock is set forward by an hour, a process seems to have started an hour
// later than it has.
func TestProcessRunsSinceItsStartAlthoughTheClockIsSet(t *testing.T) {
	pid := start(t).Process.Pid
	written := time.Now().Add(-time.Hour) // by the clock as it was
	var c Clock
	if c.RunningSince(pid, written) {
		t.Error("a process ran before it was started")
	}
	c.See(c.Read().Add(-time.Hour))
	if !c.RunningSince(pid, written) {
		t.Error("a process counts as younger than a file that it has written")
	}
	if c.RunningSince(pid, written.Add(-time.Hour)) {
		t.Error("a process ran before it was started")
	}
	// When the clock is set back, the earliest time of the boot is the new one.
	var other Clock
	other.See(time.Now().Add(time.Hour))
	if got := other.Read(); !got.Before(time.Now()) {
		t.Errorf("the machine was booted at %v", got)
	}
}

// A zombie still has its pid, but does nothing.
func TestAZombieDoesNotRun(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if !Exists(pid) || RunningSince(pid, time.Now()) {
		t.Error("a process that nobody has waited for runs")
	}
	cmd.Wait()
	if Exists(pid) {
		t.Error("a process exists after Wait")
	}
}
