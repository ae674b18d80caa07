package spool

// Moves to another node and back: REROUTE to channel xfer, for many messages at once.

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/holdrecord"
	"zsched/internal/postoffice"
	"zsched/queue"
)

// maxMoves bounds the messages of a batch. The more there are, the fewer waits for the
// disk there are for each, and the longer other work on control files waits.
const maxMoves = 500

// move is one Resubmission to channel xfer.
type move struct {
	resubmission *Resubmission
	staged       []stagedCopy // one or none
	queued       queue.Item
	old          controlFile // open while the batch is committed
	answer       Resubmitted
	unparked     []Result // Unparked, if the message was parked and has gone
	err          error
}

// moveAll is the goroutine that carries out moves, in batches. A batch has the steps of a
// REROUTE, but waits for the disk three times in all.
func (s *Spool) moveAll() {
	for {
		first, ok := s.moves.pop()
		if !ok || !s.owned() {
			return
		}
		batch := []*move{first}
		for len(batch) < maxMoves {
			next, ok := s.moves.poll()
			if !ok {
				break
			}
			batch = append(batch, next)
		}
		s.moveBatch(batch)
	}
}

func (s *Spool) moveBatch(batch []*move) {
	results := make([]Result, 0, len(batch))
	var staged []*move
	var holds *HoldsInForce
	nodes := s.newElsewhere()
	for _, m := range batch {
		r := m.resubmission
		if r.Held || r.From == Hold {
			if holds == nil {
				holds = s.holdsInForce()
			}
			r.holds = holds
		}
		r.elsewhere = nodes
		m.staged, m.err = s.stage(r)
	}
	nodes.askAll()
	for _, m := range batch {
		if errors.Is(m.err, errUnasked) {
			m.staged, m.err = s.stage(m.resubmission)
		}
		if m.err == nil && len(m.staged) > 0 {
			staged = append(staged, m)
		}
	}
	if len(staged) > 0 && !s.commitMoves(staged) {
		return // the spool was closed
	}
	for _, m := range batch {
		for i := range m.staged {
			m.staged[i].remove()
		}
		if m.resubmission.From == Postman && m.err == nil {
			m.err = s.unpark(m)
		}
		results = append(append(results, m.unparked...), s.resubmission(m.resubmission, m.answer, m.err))
	}
	s.queue.add(results, 0)
}

// holdsInForce are the holds of all messages and threads. A move does not fail because
// a record cannot be read: the mail stays held without it.
func (s *Spool) holdsInForce() *HoldsInForce {
	records, err := s.HoldRecords()
	if err != nil {
		s.warn(fmt.Sprintf("mail is moved without some records of holds: %v", err))
	}
	in := InForce(records)
	return &in
}

// unpark removes a parked message that owes nothing any more.
func (s *Spool) unpark(m *move) error {
	done, err := s.removeParked(m.resubmission.Path, nil)
	if err == nil && done.Name.ID != 0 {
		m.unparked = append(m.unparked, done)
	}
	return err
}

// commitMoves publishes the staged copies and tags the old recipients. Meanwhile no other
// work on control files is done: every worker that has some of these files waits. It
// returns false if the spool was closed meanwhile.
func (s *Spool) commitMoves(batch []*move) (open bool) {
	parts := make(map[uint64][]*move) // by worker
	for _, m := range batch {
		n := s.editor(m.resubmission.Path)
		parts[n] = append(parts[n], m)
	}
	// A worker that the end of the spool stops sends nothing, and no worker waits to send.
	checked, tagged := make(chan struct{}, len(parts)), make(chan struct{}, len(parts))
	published := make(chan struct{})
	s.batches.mu.Lock()
	for _, m := range batch {
		delete(s.batches.open, m.resubmission.Path) // later outcomes are written after this work
	}
	for n, part := range parts {
		s.edits[n].push(func() {
			defer func() { tagged <- struct{}{} }()
			for _, m := range part {
				m.err = s.checkMove(m)
			}
			checked <- struct{}{}
			<-published
			s.recordMoves(part)
			for _, m := range part {
				s.finishMove(m)
			}
		})
	}
	s.batches.mu.Unlock()
	defer func() { close(published); open = s.wait(tagged, len(parts)) }()
	if !s.wait(checked, len(parts)) {
		return false // nothing is published
	}
	s.recordHeldAgain(batch)
	var list []*queue.Item
	for _, m := range batch {
		if p := &m.staged[0]; m.err == nil {
			m.queued = queue.Item{Contents: p.draft, Message: p.file, Held: p.held}
			list = append(list, &m.queued)
		}
	}
	s.copies.Commit(list)
	return true
}

// recordHeldAgain makes the directories and the hold records of messages that go back to
// hold/: a record for those that were held together.
func (s *Spool) recordHeldAgain(batch []*move) {
	records := make(map[string]*HoldRecord) // by H line
	held := func(yield func(*move, *stagedCopy) bool) {
		for _, m := range batch {
			if p := &m.staged[0]; m.err == nil && p.held && !yield(m, p) {
				return
			}
		}
	}
	for m, p := range held {
		if _, m.err = s.obtainPair(Hold); m.err != nil || p.hold == "" {
			continue
		}
		r := records[p.hold]
		if r == nil {
			line := holdrecord.ParseLine(p.hold)
			r = &HoldRecord{Since: line.Since, Until: line.Until, By: line.By, Why: line.Why}
			if r.Since.IsZero() {
				r.Since = time.Now()
			}
			records[p.hold] = r
		}
		r.Messages = append(r.Messages, p.spoolID)
	}
	for line, r := range records {
		if err := s.RecordHold(*r); err != nil {
			for m, p := range held {
				if p.hold == line {
					m.err = err
				}
			}
		}
	}
}

// wait waits until n workers have sent. It returns false if the spool was closed meanwhile,
// which ends them.
func (s *Spool) wait(sent <-chan struct{}, n int) bool {
	for range n {
		select {
		case <-sent:
		case <-s.done:
			return false
		}
	}
	return true
}

// checkMove opens the old control file and checks that the staged copy still fits.
func (s *Spool) checkMove(m *move) error {
	var buf []byte
	var err error
	if m.old, err = readControl(s.controlOf(m.resubmission.From), s.pair(m.resubmission.From).transport, m.resubmission.Path, unix.O_RDWR, &buf); err != nil {
		return err
	}
	locks := s.locksOf(&m.old, true)
	// A torn line stays: an agent may be writing it for another recipient.
	if err := m.old.settle(locks.held); err != nil {
		return err
	}
	return m.staged[0].fits(&m.old)
}

// recordMoves appends the d lines that say that nobody is to be told of the old
// recipients, and makes them durable together: they come before the tags.
func (s *Spool) recordMoves(part []*move) {
	var last *move
	for _, m := range part {
		if m.err != nil || m.queued.Path == "" || m.queued.Err != nil {
			continue
		}
		lines, owed := m.old.linesWithoutNotice(m.staged[0].marks())
		if len(lines) == 0 || !owed && m.old.file.Torn >= 0 {
			continue
		}
		err := ctlfile.AppendDiagnosticWith(func(int) error { return nil }, m.old.fd, lines...)
		if err == nil {
			m.old.file.Diagnostics = append(m.old.file.Diagnostics, lines...)
		}
		if owed {
			m.err, last = err, m
		}
	}
	if last == nil {
		return
	}
	err := postoffice.SyncAll(last.old.fd)
	for _, m := range part {
		if m.err == nil && err != nil {
			m.err = fmt.Errorf("recording a move: %w", err)
		}
	}
}

// linesWithoutNotice returns the d lines that mark would write for recipients that are sent
// elsewhere. owed says that a sender wants a notice, so that they must be durable.
func (d *controlFile) linesWithoutNotice(marks []ctlfile.Mark) (lines []ctlfile.Diagnostic, owed bool) {
	var recorded map[int64]bool
	for _, m := range marks {
		r := d.recipient(m)
		if r == nil {
			continue
		}
		if recorded == nil {
			recorded = recordedOutcomes(d.file)
		}
		if !recorded[r.Offset] {
			lines = append(lines, withoutNotice(r, m))
			owed = owed || d.wantsNotice(r, m.Tag)
		}
	}
	return lines, owed
}

// finishMove tags the old recipients of a message whose copy is in the queue.
func (s *Spool) finishMove(m *move) {
	defer m.old.close()
	if m.old.file == nil {
		return
	}
	switch p := &m.staged[0]; {
	case m.err != nil && m.queued.Path == "":
	case m.queued.Path == "":
		m.err = m.queued.Err
		if m.err == nil {
			m.err = errClosed
		}
	default:
		p.file = ""
		_, base := split(m.queued.Path)
		id, _ := ctlfile.Number(base)
		m.answer.Name, m.answer.Held, m.answer.SpoolID = Name{m.queued.Path, id}, p.held, p.spoolID
		m.answer.Offsets = slices.Clone(p.offsets)
		if m.err == nil {
			m.err = m.queued.Err
		}
		if m.err == nil {
			// After an error the copy may not survive a crash, and the old recipients
			// stay open.
			m.err = m.old.markMoved(p)
		}
	}
	m.answer.Owes, m.answer.Recipients = s.owes(m.old.file, false), states(m.old.file)
}

// markMoved tags the recipients that have a copy, and marks the d lines that went along.
func (d *controlFile) markMoved(p *stagedCopy) error {
	if err := d.mark(p.marks()); err != nil {
		return err
	}
	for _, offset := range p.unreported {
		if i := findLine(d.file, offset); i >= 0 {
			if err := d.markReported(i); err != nil {
				return err
			}
		}
	}
	return nil
}
