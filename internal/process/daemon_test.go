package process

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestADaemonWithALockRuns(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".pid.router")
	if running, ever := Daemon(path, "router"); running || ever {
		t.Errorf("without a pid file: %v, %v", running, ever)
	}
	lock, err := Lock(path, "router")
	if err != nil {
		t.Fatal(err)
	}
	if running, ever := Daemon(path, "router"); !running || !ever {
		t.Errorf("with a lock: %v, %v", running, ever)
	}
	lock.Close()
	if running, ever := Daemon(path, "router"); running || !ever {
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
