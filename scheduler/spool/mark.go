package spool

// Marking writes outcomes into control files, with few writes to each file.

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/scheduler"
)

// maxChangeTries bounds how often a file is read if another process changes it while
// we work on it. An agent, for example, reports a recipient and then tags it.
const maxChangeTries = 5

// mark writes outcomes into a control file: d lines first, durably, then tags.
// It may be repeated after a failure or a crash. A recipient that is done in the
// file stays as it is. If one recipient of an exclusive set is delivered, the
// open ones of the set are tagged '+' too, and the d lines of those that failed
// count as reported.
func (s *Spool) mark(a scheduler.Mark) {
	s.batches.mu.Lock()
	defer s.batches.mu.Unlock()
	if b := s.batches.open[a.Path]; b != nil && len(b.marks) < maxBatchMarks {
		b.of, b.marks = append(b.of, a), append(b.marks, a.Marks...)
		return
	}
	b := &markBatch{[]scheduler.Mark{a}, slices.Clip(a.Marks)}
	s.batches.open[a.Path] = b
	s.pushEdit(a.Path, func() { s.writeBatch(a.Path, b) })
}

// writeBatch writes a batch and adds a result for each of its actions.
func (s *Spool) writeBatch(path string, b *markBatch) {
	s.batches.mu.Lock()
	if s.batches.open[path] == b {
		delete(s.batches.open, path)
	}
	s.batches.mu.Unlock()
	var results []Result
	var missing bool
	write := func() (err error) {
		results, missing, err = s.change(path, func(d *controlFile) error { return d.mark(b.marks) })
		return err
	}
	err := s.reserve.spend(write)
	for _, a := range b.of {
		results = append(results, Answered{Action: a, Op: a.Op, Message: a.Message, Err: err, Missing: missing})
	}
	s.queue.add(results...)
}

// markBatches are the outcomes that are still to be written, by the path of
// their file. A message with a hundred thousand recipients may have as many
// outcomes, and each write first reads the whole file. Outcomes that come while a
// write to their file is queued are therefore written together.
type markBatches struct {
	mu   sync.Mutex
	open map[string]*markBatch
}

// markBatch holds outcomes that are written together.
type markBatch struct {
	of    []scheduler.Mark
	marks []ctlfile.Mark
}

// maxBatchMarks bounds the outcomes of a batch, and so the lines that are in
// memory for one write.
const maxBatchMarks = 4096

// edit queues work on one file after all other work on that file.
func (s *Spool) edit(path string, run func()) {
	s.batches.mu.Lock()
	defer s.batches.mu.Unlock()
	delete(s.batches.open, path) // later outcomes are written after this work
	s.pushEdit(path, run)
}

func (s *Spool) pushEdit(path string, run func()) {
	worker := s.editor(path)
	s.mover.open[worker] = nil
	s.edits[worker].push(run)
}

// editor is the worker of a file.
func (s *Spool) editor(path string) uint64 {
	return maphash.String(s.seed, path) % uint64(len(s.edits))
}

// reread reads the control file again. It first clears the locks of dead processes,
// including the agent that has died, and the locks that live agents have left over. Then it
// settles recipients by their d lines.
//
// A lock with ctlfile.MaxPID belongs to one of our agents with such a large pid. If that of the
// dead agent is so large, only the locks at its Offsets are its own; the others belong to agents
// that may still be working.
func (s *Spool) reread(a scheduler.Read) {
	path := a.Path
	s.edit(path, func() {
		answer := Answered{Action: a, Op: a.Op, Message: a.Message}
		extra, missing, err := s.change(path, func(d *controlFile) error {
			locks := locks{&s.lockHolders, &a}
			if err := d.settle(locks.held); err != nil {
				return err
			}
			if err := d.recordLost(); err != nil {
				return err
			}
			var st unix.Stat_t
			if place, name := placeOf(path); postoffice.Stat(s.places.pairs[place].queue, name, &st) == nil && place == Queue {
				s.places.control.ShareMessage(s.places.pairs[place].queue, name, &st)
			}
			answer.Owes = s.notices.owes(d.file, false)
			answer.Recipients = states(d.file)
			return nil
		})
		if err == nil && !missing {
			// An agent that finds no message file because of this asks for it.
			err = s.standing.isDown()
		}
		answer.Missing, answer.Err = missing, err
		s.queue.add(append(extra, answer)...)
	})
}

func states(f *ctlfile.File) []ctlfile.State {
	list := make([]ctlfile.State, len(f.Recipients))
	for i := range f.Recipients {
		list[i] = ctlfile.State{Offset: f.Recipients[i].Offset, Tag: f.Recipients[i].Tag}
	}
	return list
}

// change reads a control file in the queue or under hold/ and lets work change it. A malformed
// file goes to corrupt/: missing is then set, and results has its Refused.
func (s *Spool) change(path string, work func(*controlFile) error) (results []Result, missing bool, err error) {
	err = s.places.change(path, work)
	var bad *malformed
	switch {
	case err == nil:
		return nil, false, nil
	case errors.Is(err, errGone):
		return nil, true, nil
	case errors.As(err, &bad):
		refused := s.discard(nameOf(path), bad.reason)
		if refused.Why == Quarantined {
			return []Result{refused}, true, nil
		}
	}
	return nil, false, fmt.Errorf("control file %q: %w", path, err)
}

// change is like Spool.change, but moves nothing. It reads the
// file again and repeats the work if another process has changed it meanwhile.
func (at *places) change(path string, work func(*controlFile) error) (err error) {
	var buf []byte
	for range maxChangeTries {
		var d controlFile
		if d, err = at.openControl(path, &buf); err != nil {
			return err
		}
		err = work(&d)
		d.close()
		if !errors.Is(err, errChanged) {
			return err
		}
	}
	return err
}

// mark writes outcomes into a file that was just read.
func (d *controlFile) mark(marks []ctlfile.Mark) error {
	var lines []ctlfile.Diagnostic
	var recorded map[int64]bool
	settled := outcomes(d.file)
	sets, notices, owed := false, false, false
	for _, m := range marks {
		r := d.recipient(m)
		if r == nil {
			continue
		}
		sets = sets || r.Class > 0
		switch {
		case m.Diagnose && !d.diagnosed(settled, m):
			lines = append(lines, diagnostic(r, m))
			notices = true
		case m.Diagnose, m.LeaveTag, !d.wantsNotice(r, m.Tag) && fate(m) == "":
		default:
			if recorded == nil {
				recorded = recordedOutcomes(d.file)
			}
			if !recorded[r.Offset] {
				lines = append(lines, withoutNotice(r, m))
				owed = owed || d.wantsNotice(r, m.Tag)
			}
		}
	}
	if err := d.append(lines, owed || notices); err != nil {
		if IsFull(err) {
			err = cmp.Or(d.tagDelivered(marks), err)
		}
		return err
	}
	for _, m := range marks {
		r := d.recipient(m)
		if r == nil {
			continue
		}
		if !m.LeaveTag {
			if err := d.tag(d.file.Find(r.Offset), m.Tag); err != nil {
				return err
			}
		}
		if m.Delays > 0 {
			if err := d.setDelays(r, m.Delays); err != nil {
				return err
			}
		}
	}
	switch {
	case !sets:
		return nil
	case notices:
		// The new lines may include some that need not be reported.
		return errChanged
	}
	return d.settleSets()
}

// tagDelivered tags those that were delivered although there is no room for their d lines: a
// restart must not deliver them again. If it comes before the d lines, their senders are told
// without details (recordLost).
func (d *controlFile) tagDelivered(marks []ctlfile.Mark) error {
	for _, m := range marks {
		r := d.recipient(m)
		if r == nil || m.Tag != ctlfile.Delivered || m.LeaveTag || fate(m) != "" {
			continue
		}
		if err := d.tag(d.file.Find(r.Offset), m.Tag); err != nil {
			return err
		}
	}
	return nil
}

// append appends d lines. Without durable, they only say what happened: they may be lost
// in a crash, a full disk does not prevent the outcome, and a torn line, which an agent may
// be writing, stays the last.
func (d *controlFile) append(lines []ctlfile.Diagnostic, durable bool) error {
	if len(lines) == 0 || !durable && d.file.Torn >= 0 {
		return nil
	}
	if durable {
		return d.file.AppendDiagnostic(d.fd, lines...)
	}
	_ = d.file.AppendDiagnosticWith(func(int) error { return nil }, d.fd, lines...)
	return nil
}

// wantsNotice reports whether the sender of a recipient is to be told of an outcome.
func (d *controlFile) wantsNotice(r *ctlfile.Recipient, tag ctlfile.Tag) bool {
	_, null := d.file.NoticesTo(d.file.Find(r.Offset))
	return !null && r.Notify.Wants(kindOf(tag))
}

// fate returns the fate of a recipient that is tagged as delivered and was not; "" for
// another.
func fate(m ctlfile.Mark) ctlfile.Fate {
	switch {
	case m.Tag != ctlfile.Delivered:
		return ""
	case m.Killed:
		return ctlfile.Killed
	}
	return m.Fate
}

// recipient returns the recipient that an outcome is for. It is nil if there is
// none, or if the file says that it ended in another way.
func (d *controlFile) recipient(m ctlfile.Mark) *ctlfile.Recipient {
	i := d.file.Find(m.Offset)
	if i < 0 {
		return nil
	}
	r := &d.file.Recipients[i]
	if r.Tag != ctlfile.Open && r.Tag != ctlfile.Locked && r.Tag != m.Tag {
		return nil
	}
	return r
}

// diagnosed reports whether the file already has a d line for this outcome. For a
// delay, only a line that has not been reported yet counts.
func (d *controlFile) diagnosed(settled map[int64]ctlfile.Tag, m ctlfile.Mark) bool {
	if m.Tag != ctlfile.Open {
		return settled[m.Offset] == m.Tag
	}
	for i := range d.file.Diagnostics {
		line := &d.file.Diagnostics[i]
		if line.Recipient == m.Offset && line.Tag == ctlfile.Open && action(line.Notary) == action(m.Notary) {
			return true
		}
	}
	return false
}

// diagnostic returns the d line of an outcome.
func diagnostic(r *ctlfile.Recipient, m ctlfile.Mark) ctlfile.Diagnostic {
	return ctlfile.Diagnostic{
		Tag: ctlfile.Open, Recipient: r.Offset, Header: r.Header, N: r.N,
		At: m.TriedAt, Notary: notary(r, m), Text: m.Text,
	}
}

// notary returns the notary of an outcome with the recipient filled in and with
// an action that fits the tag. The agent may have given a wrong action, and a
// restart believes what the line says.
func notary(r *ctlfile.Recipient, m ctlfile.Mark) string {
	fields := strings.Split(m.Notary, "\x01")
	for len(fields) < 2 {
		fields = append(fields, "")
	}
	if fields[0] == "" || fields[0] == "\x03" {
		fields[0] = r.User
	}
	if tag, final := outcome(m.Notary); m.Tag != ctlfile.Open && (!final || tag != m.Tag) {
		fields[1] = failed
		if m.Tag == ctlfile.Delivered {
			fields[1] = delivered
		}
	}
	return strings.Join(fields, "\x01")
}
