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
		Process
		known bool
	}{
		"17 (smtp) S 1 2 3":                      {},
		"17 smtp S":                              {},
		"17 (smtp) S 1 17" + rest + "1234 5 6\n": {Process{17, 1, 12340 * time.Millisecond}, true},
		"17 (a) b) Z 4 17" + rest + "7 5 6\n":    {Process{}, true},
		"17 (smtp) S 1 17" + rest + "x 5 6\n":    {},
	} {
		if got, known := parseStat(17, []byte(text)); got != want.Process || known != want.known {
			t.Errorf("%q: %+v %v", text, got, known)
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
