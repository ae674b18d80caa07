package process

// Daemons that leave a pid file: whether they run, without disturbing their lock.

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
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
	if sys, ok := info.Sys().(*syscall.Stat_t); ok && isLocked(sys.Ino) {
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

// isLocked reports whether a process has locked the file with this inode number.
func isLocked(inode uint64) bool {
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(locks)) {
		// "1: FLOCK  ADVISORY  WRITE 411 08:01:1835014 0 EOF"
		f := strings.Fields(line)
		if len(f) < 6 || f[1] != "FLOCK" {
			continue
		}
		file := f[5]
		if file[strings.LastIndexByte(file, ':')+1:] == strconv.FormatUint(inode, 10) {
			return true
		}
	}
	return false
}
