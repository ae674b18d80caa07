package process

// Daemons that leave a pid file: whether they run, without disturbing their lock.

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Daemon reports whether the daemon that locks a pid file is running, and whether one
// ever ran. The file is locked (flock(2)) while the daemon runs; the lock is looked up
// in /proc/locks, so that it need not be taken. ZMailer's daemons do not lock the file:
// without a lock, the pid in it counts if that process is named name.
func Daemon(pidFile, name string) (running, ever bool) {
	info, err := os.Stat(pidFile)
	if err != nil {
		return false, false
	}
	locks, _ := os.ReadFile("/proc/locks")
	if sys, ok := info.Sys().(*syscall.Stat_t); ok && isLocked(string(locks), sys.Ino, devicesOf(pidFile, sys)) {
		return true, true
	}
	text, err := os.ReadFile(pidFile)
	if err != nil {
		return false, true
	}
	pid := string(bytes.TrimSpace(text))
	if n, err := strconv.Atoi(pid); err != nil || n <= 0 {
		return false, true
	}
	command, _ := os.ReadFile("/proc/" + pid + "/comm")
	return strings.HasPrefix(string(command), name), true
}

// isLocked reports whether a process has locked a file, by the text of /proc/locks. devices
// are the numbers that the file's file system may have there; none: any will do.
func isLocked(locks string, inode uint64, devices []device) bool {
	for line := range strings.Lines(locks) {
		// "1: FLOCK  ADVISORY  WRITE 411 08:01:1835014 0 EOF", the device in hexadecimal
		f := strings.Fields(line)
		if len(f) < 6 || f[1] != "FLOCK" {
			continue
		}
		var at device
		var number uint64
		if n, _ := fmt.Sscanf(f[5], "%x:%x:%d", &at.major, &at.minor, &number); n < 3 || number != inode {
			continue
		}
		if len(devices) == 0 || slices.Contains(devices, at) {
			return true
		}
	}
	return false
}

// device is the number of the device of a file system.
type device struct{ major, minor uint32 }

// devicesOf returns the numbers that the device of a file may have in /proc/locks: that of
// stat(2), and that of its mount, which differs on file systems with subvolumes. It returns
// none if the second is not known.
func devicesOf(path string, st *syscall.Stat_t) []device {
	var stx unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_MNT_ID, &stx) != nil || stx.Mask&unix.STATX_MNT_ID == 0 {
		return nil
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(mounts)) {
		// "36 35 98:0 /mnt1 /mnt2 rw,noatime …", the device in decimal
		var id, parent uint64
		var its device
		if n, _ := fmt.Sscanf(line, "%d %d %d:%d", &id, &parent, &its.major, &its.minor); n == 4 && id == stx.Mnt_id {
			return []device{its, {unix.Major(st.Dev), unix.Minor(st.Dev)}}
		}
	}
	return nil
}
