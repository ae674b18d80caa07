package spool

// Dead locks, and what else a process that died left in a control file.

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

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

// settle brings the file to where it would be had nobody died: locks that are
// not held are cleared, a recipient that a d line says is done is done, and
// where one of an exclusive set is delivered nothing of it is left to do.
func (d *controlFile) settle(held func(*ctlfile.Recipient) bool) error {
	said := outcomes(d.file)
	for i := range d.file.Recipients {
		r := &d.file.Recipients[i]
		if r.Tag != ctlfile.Open && (r.Tag != ctlfile.Locked || held(r)) {
			continue
		}
		to, ok := said[r.Offset]
		if !ok {
			to = ctlfile.Open
		}
		if err := d.tag(i, to); err != nil {
			return err
		}
	}
	return d.settleSets()
}

// settleSets ends the exclusive sets of which one recipient is delivered: the
// open ones are tagged with it, and of those that failed nobody need hear.
func (d *controlFile) settleSets() error {
	delivered := deliveredSets(d.file)
	if len(delivered) == 0 {
		return nil
	}
	for i := range d.file.Recipients {
		r := &d.file.Recipients[i]
		if r.Tag == ctlfile.Open && delivered[r.Class] {
			if err := d.tag(i, ctlfile.Delivered); err != nil {
				return err
			}
		}
	}
	for i := range d.file.Diagnostics {
		line := &d.file.Diagnostics[i]
		if n := d.file.Find(line.Recipient); line.Tag == ctlfile.Open && n >= 0 &&
			d.file.Recipients[n].Tag == ctlfile.Failed && delivered[d.file.Recipients[n].Class] {
			if err := d.markReported(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// truncateTorn removes a last line that a crash cut short, lest the next one be
// appended to it. One that has grown since it was read is no crash's.
func (d *controlFile) truncateTorn() error {
	if d.file.Torn < 0 {
		return nil
	}
	fd, err := d.writable()
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("stat: %w", err)
	}
	if st.Size != d.st.Size {
		return errChanged
	}
	if err := unix.Ftruncate(fd, d.file.Torn); err != nil {
		return fmt.Errorf("truncate: %w", err)
	}
	return nil
}

// deliveredSets are the classes of X lines of which one is delivered.
func deliveredSets(f *ctlfile.File) map[int]bool {
	var sets map[int]bool
	for i := range f.Recipients {
		if r := &f.Recipients[i]; r.Class > 0 && r.Tag == ctlfile.Delivered {
			if sets == nil {
				sets = map[int]bool{}
			}
			sets[r.Class] = true
		}
	}
	return sets
}

// outcomes are the tags that d lines say recipients have, by offset. The last
// line counts.
func outcomes(f *ctlfile.File) map[int64]ctlfile.Tag {
	var said map[int64]ctlfile.Tag
	for i := range f.Diagnostics {
		line := &f.Diagnostics[i]
		tag, ok := outcome(line.Notary)
		if !ok {
			continue
		}
		if said == nil {
			said = make(map[int64]ctlfile.Tag, len(f.Diagnostics))
		}
		said[line.Recipient] = tag
	}
	return said
}

// outcome is the tag of a recipient of which this was said. A delay, or a
// word that is none of RFC 3464's, settles nothing.
func outcome(notary string) (ctlfile.Tag, bool) {
	switch action(notary) {
	case failed:
		return ctlfile.Failed, true
	case delivered, relayed, expanded:
		return ctlfile.Delivered, true
	}
	return 0, false
}

// The delivery status actions (RFC 3464 section 2.3.3).
const (
	failed    = "failed"
	delayed   = "delayed"
	delivered = "delivered"
	relayed   = "relayed"
	expanded  = "expanded"
)

// action is the second field of a notary, cut to the word of RFC 3464 that it
// starts with; agents have put more behind it. "" is none of them.
func action(notary string) string {
	_, rest, _ := strings.Cut(notary, "\x01")
	field, _, _ := strings.Cut(rest, "\x01")
	for _, word := range [...]string{failed, delayed, delivered, relayed, expanded} {
		if len(field) >= len(word) && strings.EqualFold(field[:len(word)], word) {
			return word
		}
	}
	return ""
}
