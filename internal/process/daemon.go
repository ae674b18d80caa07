package process

// Daemons that leave a pid file: whether they run, without disturbing their lock.

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The directories of a postoffice that its daemons lock besides their pid files.
const (
	SchedulerDir = "transport"
	RouterDir    = "transport/.router"
	XferdDir     = "transport/.xfer"
)

// Daemon reports whether the daemon of a postoffice that is named name is running, and
// whether one ever ran. Its pid file and its directory are locked (flock(2)) while it runs;
// the locks are looked up in /proc/locks, so that they need not be taken. ZMailer's daemons
// do not lock the file: without a lock, the pid in it counts if that process is named name.
func Daemon(office, name string) (running, ever bool) {
	pidFile := filepath.Join(office, ".pid."+name)
	dir := filepath.Join(office, map[string]string{"scheduler": SchedulerDir, "router": RouterDir, "xferd": XferdDir}[name])
	locks, _ := os.ReadFile("/proc/locks")
	if hasLock(string(locks), pidFile) || hasLock(string(locks), dir) {
		return true, true
	}
	if _, err := os.Stat(pidFile); err != nil {
		return false, false
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

// hasLock reports whether a process has locked the file at a path, by the text of
// /proc/locks.
func hasLock(locks, path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	sys, ok := info.Sys().(*syscall.Stat_t)
	return ok && isLocked(locks, sys.Ino, devicesOf(path, sys))
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

// devicesOf returns the numbers that the device of a file may have in /proc/locks: the number
// that its mount has, and the one that stat(2) gives, which differs on file systems with
// subvolumes. It returns none if that of the mount is not known.
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
		var mounted device
		if n, _ := fmt.Sscanf(line, "%d %d %d:%d", &id, &parent, &mounted.major, &mounted.minor); n == 4 && id == stx.Mnt_id {
			return []device{mounted, {unix.Major(st.Dev), unix.Minor(st.Dev)}}
		}
	}
	return nil
}
