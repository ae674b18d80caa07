package spool

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
)

// ticks a second in which /proc counts, the same on every Linux machine.
const clockTicks = 100

// locks judges the locks of one control file. Many recipients tend to be
// locked by one process, which is asked after once.
type locks struct {
	writtenAt time.Time // the file's mtime: no lock is younger
	// known says that the message is in our memory, so that locks with no
	// exact pid are of agents of ours, and dead is the one that died (0: none).
	known bool
	dead  int

	asked int // the pid asked after last, and the answer
	alive bool
}

// held reports whether a locked recipient is being worked on.
func (l *locks) held(r *ctlfile.Recipient) bool {
	pid := r.PID()
	switch {
	case pid == l.dead:
		return false
	case pid >= ctlfile.MaxPID:
		return l.known && l.dead < ctlfile.MaxPID
	case pid != l.asked:
		l.asked, l.alive = pid, alive(pid, l.writtenAt)
	}
	return l.alive
}

// any returns the pid of a process that holds a recipient of the file, or 0.
func (l *locks) any(f *ctlfile.File) int {
	for i := range f.Recipients {
		if r := &f.Recipients[i]; r.Tag == ctlfile.Locked && l.held(r) {
			return r.PID()
		}
	}
	return 0
}

// alive reports whether a lock is held: its process exists and was there when
// the lock was written, which is no later than writtenAt, the control file's
// mtime. A blank, zero or unreadable pid (0) is nobody's; so is ctlfile.MaxPID,
// which stands for many and means only something to who wrote it; and our own,
// because we write no locks.
func alive(pid int, writtenAt time.Time) bool {
	if pid <= 0 || pid >= ctlfile.MaxPID || pid == os.Getpid() {
		return false
	}
	if unix.Kill(pid, 0) == unix.ESRCH {
		return false
	}
	// Where /proc does not tell, that it exists must do.
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true
	}
	state, age, ok := parseStat(stat)
	if !ok {
		return true
	}
	if state == 'Z' || state == 'X' {
		return false
	}
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return true
	}
	startedAt := time.Now().Add(age - time.Duration(now.Nano()))
	// Two seconds for coarse file times and ticks.
	return startedAt.Before(writtenAt.Add(2 * time.Second))
}

// parseStat reads a process's state and the time from boot to its start from
// /proc/<pid>/stat (proc(5)).
func parseStat(stat []byte) (state byte, start time.Duration, ok bool) {
	// The second field is the program's name in parentheses and may hold
	// anything, parentheses too.
	i := bytes.LastIndexByte(stat, ')')
	if i < 0 {
		return 0, 0, false
	}
	fields := bytes.Fields(stat[i+1:])
	const startField = 22 - 3 // of those after the name
	if len(fields) <= startField || len(fields[0]) != 1 {
		return 0, 0, false
	}
	n, err := strconv.ParseInt(string(fields[startField]), 10, 64)
	if err != nil {
		return 0, 0, false
	}
	return fields[0][0], time.Duration(n) * (time.Second / clockTicks), true
}
