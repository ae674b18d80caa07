package spool

// Dead locks: the locks, and whatever else, that a dead process has left in a
// control file.

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/internal/process"
	"zsched/scheduler"
)

// locks decides about the locks of one control file. ours is what the receiver knows about the
// locks of our agents; nil: the message is not in its memory.
type locks struct {
	holders *lockHolders
	ours    *scheduler.Read
}

// held reports whether the process that locked a recipient may still work on it.
func (l *locks) held(r *ctlfile.Recipient) bool {
	pid := r.PID()
	switch {
	case pid < ctlfile.MaxPID:
		return pid > 0 && pid != l.holders.scheduler && (l.ours == nil || pid != l.ours.PID) && l.isHolder(pid)
	case l.ours == nil:
		return l.holders.anyLarge()
	}
	if _, its := slices.BinarySearch(l.ours.Offsets, r.Offset); its && l.ours.PID >= ctlfile.MaxPID {
		return false
	}
	atWork := l.ours.AtWork
	return atWork == nil || len(atWork) > 0 && atWork[len(atWork)-1] >= ctlfile.MaxPID || l.holders.anyLarge()
}

// isHolder reports whether a process may have the locks with its pid. An agent of ours that does
// not work on the message could not remove them.
func (l *locks) isHolder(pid int) bool {
	p, known := process.Find(pid)
	switch {
	case !known:
		return process.Exists(pid) // /proc does not say
	case p.PID == 0:
		return false
	case p.Parent == l.holders.scheduler && l.ours != nil && l.ours.AtWork != nil:
		return slices.Contains(l.ours.AtWork, pid)
	}
	return l.holders.inTransport(pid)
}

// any returns the pid of a process that holds a lock in the file, or 0.
func (l *locks) any(f *ctlfile.File) int {
	for i := range f.Recipients {
		if r := &f.Recipients[i]; r.Tag == ctlfile.Locked && l.held(r) {
			return r.PID()
		}
	}
	return 0
}

// lockHolders finds the processes that may hold locks: agents, ours and those of an earlier
// scheduler, have transport/ as their working directory. Any other process has the pid of a dead
// agent by chance. If another agent has it by chance, the recipient waits until that one exits.
//
// The lock of a pid that is too large for a lock says only ctlfile.MaxPID. It is held
// while any agent of an earlier scheduler with a large pid runs.
type lockHolders struct {
	transport int // descriptor of transport/
	scheduler int // our pid
	large     int // the least pid that is too large
}

// anyLarge reports whether an agent of an earlier scheduler with a large pid runs. If /proc
// does not tell, the answer is yes.
func (h *lockHolders) anyLarge() bool {
	running, err := process.From(h.large)
	return err != nil || slices.ContainsFunc(running, func(p process.Process) bool {
		return p.PID != h.scheduler && p.Parent != h.scheduler && h.inTransport(p.PID)
	})
}

// inTransport reports whether the working directory of a process is transport/. Without
// CAP_SYS_PTRACE we may not ask that of other users' processes. Then every process of our
// control group counts, because agents are in it.
func (h *lockHolders) inTransport(pid int) bool {
	dir := "/proc/" + strconv.Itoa(pid)
	var its, transport unix.Stat_t
	switch err := unix.Stat(dir+"/cwd", &its); err {
	case nil:
		err = postoffice.Fstat(h.transport, &transport)
		return err != nil || its.Dev == transport.Dev && its.Ino == transport.Ino
	case unix.EACCES, unix.EPERM:
	default:
		return false
	}
	group, err := os.ReadFile(dir + "/cgroup")
	if err != nil {
		return !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.ENOENT)
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	return err != nil || bytes.Equal(group, own)
}

// settle completes what dead processes have left undone: locks that are not held
// are cleared, a recipient whose d line says that it is done is tagged so, and the
// exclusive sets are settled.
func (d *controlFile) settle(held func(*ctlfile.Recipient) bool) error {
	recorded := outcomes(d.file)
	for i := range d.file.Recipients {
		r := &d.file.Recipients[i]
		if r.Tag != ctlfile.Open && (r.Tag != ctlfile.Locked || held(r)) {
			continue
		}
		to, ok := recorded[r.Offset]
		if !ok {
			to = ctlfile.Open
		}
		if err := d.tag(i, to); err != nil {
			return err
		}
	}
	return d.settleSets()
}

// settleSets ends each exclusive set that has a delivered recipient: its open
// recipients are tagged '+', and its failures need not be reported.
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
			if err := d.tagLine(i, ctlfile.Delivered); err != nil {
				return err
			}
		}
	}
	return nil
}

// truncateTorn removes a last line that a crash has cut short, so that the next
// line is not appended to it. A line that has grown since it was read is still
// being written.
func (d *controlFile) truncateTorn() error {
	if d.file.Torn < 0 {
		return nil
	}
	var st unix.Stat_t
	if err := postoffice.Fstat(d.fd, &st); err != nil {
		return fmt.Errorf("stat: %w", err)
	}
	if st.Size != d.st.Size {
		return errChanged
	}
	if err := postoffice.Truncate(d.fd, d.file.Torn); err != nil {
		return fmt.Errorf("truncate: %w", err)
	}
	return nil
}

// deliveredSets returns the classes of the X lines that have a delivered
// recipient.
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

// outcomes returns the tags that recipients should have according to their d
// lines, by offset. Of several lines, the last counts.
func outcomes(f *ctlfile.File) map[int64]ctlfile.Tag {
	var recorded map[int64]ctlfile.Tag
	for i := range f.Diagnostics {
		line := &f.Diagnostics[i]
		tag, ok := outcome(line.Notary)
		if !ok {
			continue
		}
		if recorded == nil {
			recorded = make(map[int64]ctlfile.Tag, len(f.Diagnostics))
		}
		recorded[line.Recipient] = tag
	}
	return recorded
}

// outcome returns the tag that a notary stands for. A delay, or a word that is
// not in RFC 3464, stands for none.
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

// action returns the second field of a notary, cut to the word of RFC 3464 that
// it begins with, because agents have appended other text. It returns "" if there
// is no such word.
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
