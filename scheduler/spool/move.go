package spool

// Moves to another node: REROUTE to channel xfer, for many messages at once.

import (
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
)

// maxMoves bounds the messages of a batch. The more there are, the fewer waits for the
// disk there are for each, and the longer other work on control files waits.
const maxMoves = 500

// move is one Resubmission to channel xfer.
type move struct {
	resubmission *Resubmission
	staged       []stagedCopy // one or none
	queued       ctlfile.Queued
	old          controlFile // open while the batch is committed
	answer       Resubmitted
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
	for _, m := range batch {
		if m.staged, m.err = s.stage(m.resubmission); m.err == nil && len(m.staged) > 0 {
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
		results = append(results, s.resubmission(m.resubmission, m.answer, m.err))
	}
	s.queue.add(results, 0)
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
	var checked, tagged sync.WaitGroup
	published := make(chan struct{})
	checked.Add(len(parts))
	tagged.Add(len(parts))
	s.batches.mu.Lock()
	for _, m := range batch {
		delete(s.batches.open, m.resubmission.Path) // later outcomes are written after this work
	}
	for n, part := range parts {
		s.edits[n].push(func() {
			defer tagged.Done()
			for _, m := range part {
				m.err = s.checkMove(m)
			}
			checked.Done()
			<-published
			for _, m := range part {
				s.finishMove(m)
			}
		})
	}
	s.batches.mu.Unlock()
	defer func() { close(published); open = s.wait(&tagged) }()
	if !s.wait(&checked) {
		return false // nothing is published
	}
	var list []*ctlfile.Queued
	for _, m := range batch {
		if m.err == nil {
			m.queued = ctlfile.Queued{Contents: m.staged[0].draft, File: m.staged[0].file}
			list = append(list, &m.queued)
		}
	}
	ctlfile.EnqueueAll(s.options.Postoffice, s.options.HashLevels, list, s.syncQueue)
	return true
}

// wait waits for workers. It returns false if the spool was closed meanwhile, which ends
// them.
func (s *Spool) wait(workers *sync.WaitGroup) bool {
	done := make(chan struct{})
	go func() {
		workers.Wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-s.done:
		return false
	}
}

// checkMove opens the old control file and checks that the staged copy still fits.
func (s *Spool) checkMove(m *move) error {
	var buf []byte
	var err error
	if m.old, err = readControl(s.control, s.pair(m.resubmission.From).transport, m.resubmission.Path, unix.O_RDWR, &buf); err != nil {
		return err
	}
	locks := locks{writtenAt: time.Unix(m.old.st.Mtim.Unix()), known: true}
	// A torn line stays: an agent may be writing it for another recipient.
	if err := m.old.settle(locks.held); err != nil {
		return err
	}
	return m.staged[0].fits(&m.old)
}

// finishMove tags the old recipients of a message whose copy is in the queue.
func (s *Spool) finishMove(m *move) {
	defer m.old.close()
	if m.old.file == nil {
		return
	}
	switch p := &m.staged[0]; {
	case m.err != nil:
	case m.queued.Path == "":
		m.err = m.queued.Err
		if m.err == nil {
			m.err = errClosed
		}
	default:
		p.file = ""
		_, base := split(m.queued.Path)
		id, _ := ctlfile.Number(base)
		m.answer.Name = Name{m.queued.Path, id}
		m.answer.Offsets = slices.Clone(p.offsets)
		if m.err = m.queued.Err; m.err == nil {
			// After an error the copy may not survive a crash, and the old recipients
			// stay open.
			m.err = m.old.mark(p.marks())
		}
	}
	m.answer.Owes, m.answer.Recipients = s.owes(m.old.file, false), states(m.old.file)
}

// syncQueue makes everything in transport/ and queue/ durable.
func (s *Spool) syncQueue() error {
	return errors.Join(postoffice.SyncAll(s.pair(Queue).transport), postoffice.SyncAll(s.pair(Queue).queue))
}
