package spool

// REQUEUE and REROUTE: recipients are submitted to the router again, or sent to
// another channel and host. A REROUTE to channel xfer moves them to another node.

import (
	"errors"
	"fmt"
	"slices"

	"zsched/ctlfile"
	"zsched/scheduler"
)

// moves reports whether the recipients are moved to another node, whose name Host is.
func moves(a *scheduler.Resubmit) bool { return a.Channel == ctlfile.TransferChannel }

// resubmit sends recipients of a message elsewhere: to the router as a new
// message in router/, or to another channel and host with a control file of their
// own and a copy of the message. Then it tags the old recipients '+'. They need
// no notice, because the new ones keep what the sender asked for. A new message that is
// held has its record first.
//
// A recipient that is not open, or is locked by a live process, stays as it is. Of an exclusive
// set, only the first recipient is sent, and that settles the set; a move to another node
// takes the whole set.
//
// The router gets the sender, the words of the N line, ENVID and RET, the headers and
// the body. Its envelope has no line for an error address other than the sender;
// the time of BY starts anew; T lines are not repeated, because they were carried
// out. An address that is not a queue.PlainAddress is refused. For the router
// the message is as old as its resubmission; a rerouted message keeps the age of
// its message file and its x lines.
func (s *Spool) resubmit(a scheduler.Resubmit) {
	s.slow.push(func() {
		m := &resubmission{Resubmit: &a, answer: Answered{Action: a, Op: a.Op, Message: a.Message}}
		if m.staged, m.err = s.mover.stage(&a); m.err != nil {
			s.queue.add(s.mover.resubmitted(m))
			return
		}
		s.mover.commitLater(m)
	})
}

// resubmission is one Resubmit under way.
type resubmission struct {
	*scheduler.Resubmit
	staged []*stagedCopy
	old    controlFile // open while the batch is committed
	answer Answered
	err    error
}

// resubmitted returns the result.
func (mv *mover) resubmitted(m *resubmission) Answered {
	switch {
	case errors.Is(m.err, errGone):
		m.answer.Missing = true
	case m.err != nil:
		m.answer.Err = fmt.Errorf("resubmitting %q: %w", m.Path, m.err)
	}
	return m.answer
}

// choose returns the recipients of a file that are sent: those that were asked
// for and are open.
func choose(r *scheduler.Resubmit, f *ctlfile.File, held func(*ctlfile.Recipient) bool) (chosen []int) {
	settled := outcomes(f)
	open := func(to *ctlfile.Recipient) bool {
		_, done := settled[to.Offset]
		return !done && (to.Tag == ctlfile.Open || to.Tag == ctlfile.Locked && !held(to))
	}
	// Sets with a recipient that is done, is being delivered or was chosen.
	taken := map[int]bool{}
	for i := range f.Recipients {
		if to := &f.Recipients[i]; to.Class > 0 && !open(to) {
			tag := to.Tag
			if outcome, ok := settled[to.Offset]; ok && tag != ctlfile.Delivered {
				tag = outcome
			}
			taken[to.Class] = taken[to.Class] || tag != ctlfile.Failed
		}
	}
	for i := range f.Recipients {
		to := &f.Recipients[i]
		if _, ok := slices.BinarySearch(r.Offsets, to.Offset); !ok && r.Offsets != nil {
			continue
		}
		if !open(to) || taken[to.Class] {
			continue
		}
		taken[to.Class] = to.Class > 0 && !moves(r)
		chosen = append(chosen, i)
	}
	return chosen
}

// origin returns the origin of a recipient that is moved from the message with a spoolid. That
// of a recipient that is on its way to another node already stays.
func origin(r *scheduler.Resubmit, node, spoolID string, to *ctlfile.Recipient) ctlfile.Origin {
	before, err := ctlfile.ParseOrigin(to.Origin)
	if err == nil && before.Channel != "" && to.RouteChannel() == ctlfile.TransferChannel {
		return before
	}
	o := ctlfile.Origin{
		Node: node, SpoolID: spoolID, Offset: to.Offset,
		Class: to.Class, Channel: to.Channel, Host: to.Host,
	}
	if i, asked := slices.BinarySearch(r.Offsets, to.Offset); asked && i < len(r.Attempts) {
		o.Attempts = r.Attempts[i]
	}
	return o
}
