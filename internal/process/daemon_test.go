package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestADaemonWithALockRuns(t *testing.T) {
	office := t.TempDir()
	if running, ever := Daemon(office, "router"); running || ever {
		t.Errorf("without a pid file: %v, %v", running, ever)
	}
	lock, err := Lock(filepath.Join(office, ".pid.router"), "router")
	if err != nil {
		t.Fatal(err)
	}
	if running, ever := Daemon(office, "router"); !running || !ever {
		t.Errorf("with a lock: %v, %v", running, ever)
	}
	lock.Close()
	if running, ever := Daemon(office, "router"); running || !ever {
		t.Errorf("without a lock: %v, %v", running, ever)
	}
}

// Two postoffices on two file systems may have pid files with the same inode number.
func TestALockOnAnotherFileSystemDoesNotCount(t *testing.T) {
	const locks = "1: POSIX  ADVISORY  WRITE 410 00:2a:9 0 EOF\n2: FLOCK  ADVISORY  WRITE 411 00:2b:9 0 EOF\n"
	for _, c := range []struct {
		inode   uint64
		devices []device
		want    bool
	}{
		{9, []device{{0, 0x2b}}, true}, {9, []device{{8, 1}, {0, 0x2b}}, true}, {9, nil, true},
		{9, []device{{0, 0x2a}}, false}, {9, []device{{0x2b, 0}}, false}, {8, []device{{0, 0x2b}}, false},
	} {
		if got := isLocked(locks, c.inode, c.devices); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	info, err := os.Stat(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if devicesOf(filepath.Join(t.TempDir(), "missing"), info.Sys().(*syscall.Stat_t)) != nil {
		t.Error("a file that is missing has a device")
	}
}

func newClaim(t *testing.T) (*Claim, string) {
	t.Helper()
	office := t.TempDir()
	for _, dir := range []string{"router", "transport"} {
		if err := os.Mkdir(filepath.Join(office, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c, err := NewClaim(office, "router", RouterDir, "router", "transport")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, office
}

// A daemon keeps its postoffice after its pid file and its staging directory were removed.
func TestASecondDaemonIsRefusedWithoutThePidFile(t *testing.T) {
	c, office := newClaim(t)
	pidFile, staging := filepath.Join(office, ".pid.router"), filepath.Join(office, RouterDir)
	for range 2 {
		if err := os.Remove(pidFile); err != nil {
			t.Fatal(err)
		}
		if running, ever := Daemon(office, "router"); !running || !ever {
			t.Errorf("a daemon without a pid file: running %v, ever %v", running, ever)
		}
		if _, err := NewClaim(office, "router", RouterDir, "router", "transport"); !errors.Is(err, unix.EWOULDBLOCK) {
			t.Errorf("a second claim: %v", err)
		}
		if _, err := os.Stat(pidFile); err == nil {
			t.Error("the second daemon has left its pid file")
		}
		if err := os.Remove(staging); err != nil {
			t.Fatal(err)
		}
		if err := c.Check(); err != nil {
			t.Error(err)
		}
		if text, err := os.ReadFile(pidFile); err != nil || string(text) != fmt.Sprintln(os.Getpid()) {
			t.Errorf("the pid file is %q, %v", text, err)
		}
		if _, err := Lock(pidFile, "router"); !errors.Is(err, unix.EWOULDBLOCK) {
			t.Errorf("the new pid file is not locked: %v", err)
		}
	}
	// Somebody removes everything, and another daemon begins at once.
	if err := errors.Join(os.Remove(pidFile), os.Remove(staging)); err != nil {
		t.Fatal(err)
	}
	second, err := NewClaim(office, "router", RouterDir, "router", "transport")
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if err := c.Check(); !errors.Is(err, ErrReplaced) {
		t.Errorf("beside another daemon: %v", err)
	}
}

func TestADaemonMayNotWorkInAnotherDirectory(t *testing.T) {
	for _, again := range []bool{false, true} {
		c, office := newClaim(t)
		dir := filepath.Join(office, "router")
		if err := os.Rename(dir, dir+".old"); err != nil {
			t.Fatal(err)
		}
		if again {
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Check(); !errors.Is(err, ErrReplaced) {
			t.Errorf("made again %v: %v", again, err)
		}
	}
}
