// Package receiver takes mail that other nodes push (package xfer) and puts it into the
// queue of this node, the common way (package queue): the messages that are complete at the
// same time are one commit, in which their recipients are claimed by a line in the file of
// the recipients that were taken (taken.go).
//
//	step                                            a crash after it leaves
//	1 write  the message, in queue/.tmp,             files that are removed
//	         and its control file, staged
//	2 sync   both, move the message into queue/      the same
//	3 record the ids, and sync                       mail that the next start puts into the
//	                                                 queue
//	4 move   the control file into transport/        mail that is in the queue
//	5 answer 250                                     nothing to do
//
// From step 3 on, a push of the same recipients is answered with 250. When a step from 3 on
// fails, the batch is answered with 451, and before the next batch everything is read from
// the disk again, as at a start.
package receiver

import (
	"errors"
	"fmt"
	"path/filepath"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/queue"
	"zsched/xfer"
)

// arrival is a message that a node pushes, complete.
type arrival struct {
	taken   chan struct{} // closed when the reply is known
	control *ctlfile.File
	message *postoffice.File
	reply   xfer.Reply // its number is set, the rest after take

	ids  []string // of the recipients that are taken now
	item queue.Item
}

// Store is the part of a postoffice in which mail arrives from other nodes. Only one
// goroutine takes mail.
type Store struct {
	office    string
	committer *queue.Committer
	notify    string       // the scheduler's socket; "": none
	taken     *taken       // nil: it is to be read, and what was interrupted is to be finished
	left      []queue.Left // what Finish could not finish
}

// OpenStore puts into the queue what a crash has left of the mail that was taken. Levels are
// those of the hash directories, and notify is the scheduler's socket; "": none. While check
// returns an error, nothing is taken; nil: nothing is checked.
func OpenStore(office string, levels int, notify string, check func() error) (*Store, error) {
	s := &Store{office: office, notify: notify}
	var err error
	if s.committer, err = queue.OpenArrivals(office, levels); err != nil {
		return nil, err
	}
	s.committer.Check = check
	if err := s.ready(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close closes the files. No message may be being taken.
func (s *Store) Close() { s.committer.Close() }

// ready reads the taken recipients, if that is to be done, and finishes what was interrupted. What cannot
// be finished now, for want of room or because a message is out of sight, is tried again each time and
// each second.
func (s *Store) ready() error {
	if err := s.committer.MakeStaging(); err != nil {
		return err
	}
	if s.taken != nil && !s.taken.old() {
		s.finishLeft()
		return nil
	}
	taken, messages, err := openTaken(filepath.Join(s.committer.StagingDir(), takenName))
	if err == nil {
		s.left, err = s.committer.Finish(func(spoolID, _ string) (bool, error) { return messages[spoolID], nil })
	}
	if err == nil {
		s.taken = taken
	}
	return err
}

// finishLeft tries again to finish what could not be finished.
func (s *Store) finishLeft() {
	s.left = s.committer.FinishAll(s.left)
}

// take takes a batch and sets the reply of each message. The error is a fault of this node.
func (s *Store) take(batch []*arrival) error {
	err := s.ready()
	now := make(map[string]bool)
	byItem := make(map[*queue.Item]*arrival)
	var items []*queue.Item
	for _, a := range batch {
		if err != nil {
			a.answer(xfer.Later, err)
			continue
		}
		if s.prepare(a, now) {
			items, byItem[&a.item] = append(items, &a.item), a
		}
	}
	s.committer.Claim = func(claimed []*queue.Item) error {
		var list []*arrival
		for _, i := range claimed {
			list = append(list, byItem[i])
		}
		return s.taken.add(list)
	}
	if len(items) > 0 {
		s.committer.Commit(items)
	}
	for _, i := range items {
		a := byItem[i]
		if i.Err == nil {
			a.answer(xfer.Accepted, nil)
			if s.notify != "" {
				// An error does not matter: the scheduler watches transport/.
				_ = queue.Announce(s.notify, i.Path)
			}
			continue
		}
		a.answer(xfer.Later, i.Err)
		if errors.Is(i.Err, queue.ErrContents) {
			a.reply.Code = xfer.Refused
		}
		if i.Moved {
			s.taken = nil // perhaps it is claimed
		}
		err = i.Err
	}
	for _, a := range batch {
		removeMessage(a.message) // if it is not in the queue
	}
	return err
}

// answer sets the reply.
func (a *arrival) answer(code int, err error) {
	a.reply.Code, a.reply.Text = code, "ok"
	if err != nil {
		a.reply.Text = err.Error()
	}
}

// prepare makes the item of a message, of the recipients that were not taken before. It
// returns false if the message has its reply already. now has the ids of the batch.
func (s *Store) prepare(a *arrival, now map[string]bool) bool {
	var chosen []int
	var origins []ctlfile.Origin
	for i := range a.control.Recipients {
		from, err := ctlfile.ParseOrigin(a.control.Recipients[i].Origin)
		if err == nil && from.Channel == "" {
			err = errors.New("its origin names no channel")
		}
		switch {
		case err != nil:
			a.answer(xfer.Refused, fmt.Errorf("recipient at %d: %w", a.control.Recipients[i].Offset, err))
			return false
		case now[from.ID()]:
			a.answer(xfer.Later, errors.New("another push of the same recipients is being taken"))
			return false
		case s.taken.has(from.ID()):
			continue
		}
		chosen, origins, a.ids = append(chosen, i), append(origins, from), append(a.ids, from.ID())
	}
	if len(chosen) == 0 {
		a.answer(xfer.Accepted, nil)
		return false
	}
	for _, id := range a.ids {
		now[id] = true
	}
	a.item = queue.Item{Contents: contents(a.control, chosen, origins), Message: a.message.Name(), File: a.message}
	return true
}

// contents returns the new control file. The recipients have the channel, the host and the
// class that they had before the move. The x lines are left out: they have had their effect.
func contents(f *ctlfile.File, chosen []int, origins []ctlfile.Origin) *ctlfile.Contents {
	c := f.Extract(chosen)
	c.Obsoletes, c.HostLists = nil, true
	next := 0
	for r := range c.All() {
		from := origins[next]
		next++
		r.Channel, r.Host, r.Class = from.Channel, from.Host, from.Class
		from.Channel = ""
		r.Origin = from.String()
	}
	return c
}
