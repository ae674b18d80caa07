package spool

import (
	"os"
	"time"

	"zsched/ctlfile"
	"zsched/internal/process"
)

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
	return process.RunningSince(pid, writtenAt)
}
