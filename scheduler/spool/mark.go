package spool

// Marking: outcomes are written into control files, those of one file in few
// writes.

import (
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
)

// editTries bounds how often a file is read again that others change while we
// work on it: an agent tags after it has reported.
const editTries = 5

// Mark writes the outcomes into the control file: diagnostics first, durably,
// then tags. It may be repeated after a failure or a crash. A recipient that
// is done in the file stays as it is. Where one of an exclusive set is
// delivered the others are tagged '+' with it, and what was to be said of
// those that had failed counts as said. Answered by Marked.
func (s *Spool) Mark(op uint64, path string, marks []ctlfile.Mark) {
	s.editMarks(op, path, marks)
}

// markAll writes a group and answers for all of it.
func (s *Spool) markAll(path string, g *group) {
	answers, missing, err := s.rework(path, unix.O_RDWR, func(d *controlFile) error { return d.mark(g.marks) })
	for _, op := range g.ops {
		answers = append(answers, Marked{op, err, missing})
	}
	s.queue.add(answers, 0)
}

// Reread reads the control file again, having cleared locks that dead
// processes left, dead's among them (0: none died), and settled what a d line
// says. Of locks with no exact pid, which are our agents', it clears all when
// dead is one of those. Answered by Reread.
func (s *Spool) Reread(op uint64, path string, dead int) {
	s.edit(path, func() {
		answer := Reread{Op: op}
		extra, missing, err := s.rework(path, unix.O_RDONLY, func(d *controlFile) error {
			locks := locks{writtenAt: time.Unix(d.st.Mtim.Unix()), known: true, dead: dead}
			if err := d.settle(locks.held); err != nil {
				return err
			}
			if err := d.recordLost(); err != nil {
				return err
			}
			answer.Owes = s.owes(d.file, false)
			answer.Recipients = states(d.file)
			return nil
		})
		answer.Missing, answer.Err = missing, err
		s.queue.add(append(extra, answer), 0)
	})
}

func states(f *ctlfile.File) []ctlfile.State {
	list := make([]ctlfile.State, len(f.Recipients))
	for i := range f.Recipients {
		list[i] = ctlfile.State{Offset: f.Recipients[i].Offset, Tag: f.Recipients[i].Tag}
	}
	return list
}

// rework reads a control file and lets work change it, once more whenever
// somebody else changed it meanwhile. A file that is beyond understanding goes
// to corrupt/, is missing from then on, and extra tells of it.
func (s *Spool) rework(path string, flags int, work func(*controlFile) error) (extra []Result, missing bool, err error) {
	err = s.workOn(Queue, path, flags, work)
	var bad *malformed
	switch {
	case err == nil:
		return nil, false, nil
	case errors.Is(err, errGone):
		return nil, true, nil
	case errors.As(err, &bad):
		_, base := split(path)
		id, _ := ctlfile.Number(base)
		gone := s.discard(Name{path, id}, bad.reason)
		if gone.Why == Quarantined {
			return []Result{gone}, true, nil
		}
	}
	return nil, false, fmt.Errorf("control file %q: %w", path, s.classify(path, err))
}

// workOn is rework of a control file wherever it lies, which stays there.
func (s *Spool) workOn(place Place, path string, flags int, work func(*controlFile) error) (err error) {
	for range editTries {
		if err = s.workOnce(place, path, flags, work); !errors.Is(err, errChanged) {
			break
		}
	}
	return err
}

func (s *Spool) workOnce(place Place, path string, flags int, work func(*controlFile) error) error {
	var buf []byte
	d, err := readControl(s.control, s.pairs[place].transport, path, flags, &buf)
	if err != nil {
		return err
	}
	defer d.close()
	return work(&d)
}

// mark writes outcomes into a file that was just read.
func (d *controlFile) mark(marks []ctlfile.Mark) error {
	var lines []ctlfile.Diagnostic
	var recorded map[int64]bool
	said := outcomes(d.file)
	sets, notices := false, false
	for _, m := range marks {
		r := d.recipient(m)
		if r == nil {
			continue
		}
		sets = sets || r.Class > 0
		switch {
		case m.Diagnose && !d.diagnosed(said, m):
			lines = append(lines, diagnostic(r, m))
			notices = true
		case m.Diagnose, m.LeaveTag, d.file.NullSender, !r.Notify.Wants(kindOf(m.Tag)):
		default:
			if recorded == nil {
				recorded = recordedOutcomes(d.file)
			}
			if !recorded[r.Offset] {
				lines = append(lines, untold(r, m.Tag))
			}
		}
	}
	if len(lines) > 0 {
		fd, err := d.writable()
		if err != nil {
			return err
		}
		if err := ctlfile.AppendDiagnostic(fd, lines...); err != nil {
			return err
		}
	}
	for _, m := range marks {
		if r := d.recipient(m); r != nil && !m.LeaveTag {
			if err := d.tag(d.file.Find(r.Offset), m.Tag); err != nil {
				return err
			}
		}
	}
	switch {
	case !sets:
		return nil
	case notices:
		// Among the new lines may be some that nobody need hear of.
		return errChanged
	}
	return d.settleSets()
}

// recipient is the one that an outcome is for, unless there is none or the
// file has it that it came to another end.
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

// diagnosed reports whether the file says already what this outcome would
// have it say: that the recipient came to this end or, of a delay, anything
// that the sender is still to be told.
func (d *controlFile) diagnosed(said map[int64]ctlfile.Tag, m ctlfile.Mark) bool {
	if m.Tag != ctlfile.Open {
		return said[m.Offset] == m.Tag
	}
	for i := range d.file.Diagnostics {
		line := &d.file.Diagnostics[i]
		if line.Recipient == m.Offset && line.Tag == ctlfile.Open && action(line.Notary) == action(m.Notary) {
			return true
		}
	}
	return false
}

// diagnostic is the d line of one outcome.
func diagnostic(r *ctlfile.Recipient, m ctlfile.Mark) ctlfile.Diagnostic {
	return ctlfile.Diagnostic{
		Tag: ctlfile.Open, Recipient: r.Offset, Header: r.Header, N: r.N,
		At: time.Now(), Notary: notary(r, m), Text: m.Text,
	}
}

// notary is that of a mark with the recipient filled in and an action that
// fits the tag: an agent may have been wrong about it, and what the line says
// is what a restart believes.
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

// groups are the outcomes that wait to be written, by the path of their file.
// A message of a hundred thousand recipients may have as many outcomes, and
// each write begins with a look at all of the file: those that come while one
// is at it go together in the next.
type groups struct {
	mu   sync.Mutex
	open map[string]*group
}

// group is outcomes that are written at once, and the operations they are of.
type group struct {
	ops   []uint64
	marks []ctlfile.Mark
}

// groupLimit bounds the outcomes of a group, and so the lines that are in
// memory for one write.
const groupLimit = 4096

// edit queues work on one file behind all other work on that file.
func (s *Spool) edit(path string, run func()) {
	s.groups.mu.Lock()
	defer s.groups.mu.Unlock()
	delete(s.groups.open, path) // what comes after this work is not done before it
	s.pushEdit(path, run)
}

func (s *Spool) pushEdit(path string, run func()) {
	n := maphash.String(s.seed, path) % uint64(len(s.edits))
	s.edits[n].push(run)
}

// editMarks queues outcomes, with those that are last in the queue of the same
// file if there are some.
func (s *Spool) editMarks(op uint64, path string, marks []ctlfile.Mark) {
	s.groups.mu.Lock()
	defer s.groups.mu.Unlock()
	if g := s.groups.open[path]; g != nil && len(g.marks) < groupLimit {
		g.ops, g.marks = append(g.ops, op), append(g.marks, marks...)
		return
	}
	g := &group{[]uint64{op}, slices.Clip(marks)}
	s.groups.open[path] = g
	s.pushEdit(path, func() {
		s.groups.mu.Lock()
		if s.groups.open[path] == g {
			delete(s.groups.open, path)
		}
		s.groups.mu.Unlock()
		s.markAll(path, g)
	})
}
