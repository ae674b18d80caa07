package spool

// REQUEUE and REROUTE: recipients are submitted to the router again, or sent to
// another channel and host. A REROUTE to channel xfer moves them to another node.

import (
	"errors"
	"fmt"
	"slices"

	"zsched/ctlfile"
	"zsched/scheduler/view"
)

// Resubmission says which recipients of a message are sent where.
type Resubmission struct {
	Path string // under hold/ it begins with "hold/"
	// Offsets of the recipients; nil for all that are open. A recipient that is
	// not open, or is locked by a live process, stays as it is. Of an exclusive
	// set, only the first recipient is sent, and that settles the set; a move to
	// another node takes the whole set.
	Offsets []int64
	// Attempts is how often each of these was tried, which are then ascending; nil:
	// not known. Only a move to another node uses it.
	Attempts []int
	// Channel and Host are where they are sent; both "" for the router.
	Channel, Host string
	// Hold is the order that holds the new message; nil: it is not held.
	Hold *view.Hold
}

// moves reports whether the recipients are moved to another node, whose name Host is.
func (r *Resubmission) moves() bool { return r.Channel == ctlfile.TransferChannel }

// Resubmit sends recipients of a message elsewhere: to the router as a new
// message in router/, or to another channel and host with a control file of their
// own and a copy of the message. Then it tags the old recipients '+'. They need
// no notice, because the new ones keep what the sender asked for. The result is
// Resubmitted. A new message that is held has its record first.
//
// The router gets the sender, NOTIFY, ORCPT, BY, ENVID and RET, the headers and
// the body. Its envelope has no line for an error address other than the sender;
// the time of BY starts anew; T lines are not repeated, because they were carried
// out. An address that is not a queue.PlainAddress is refused. For the router
// the message is as old as its resubmission; a rerouted message keeps the age of
// its message file and its x lines.
func (s *Spool) Resubmit(op uint64, r Resubmission) {
	r.Offsets = slices.Clone(r.Offsets)
	s.slow.push(func() {
		m := &resubmission{Resubmission: &r, answer: Resubmitted{Op: op}}
		if m.staged, m.err = s.mover.stage(&r); m.err != nil {
			s.queue.add(s.mover.resubmitted(m))
			return
		}
		s.mover.commitLater(m)
	})
}

// resubmission is one Resubmit under way.
type resubmission struct {
	*Resubmission
	staged []*stagedCopy
	old    controlFile // open while the batch is committed
	answer Resubmitted
	err    error
}

// resubmitted returns the result.
func (mv *mover) resubmitted(m *resubmission) Resubmitted {
	switch {
	case errors.Is(m.err, errGone):
		m.answer.Missing = true
	case m.err != nil:
		m.answer.Err = fmt.Errorf("resubmitting %q: %w", m.Path, classify(m.err))
	}
	return m.answer
}

// choose returns the recipients of a file that are sent: those that were asked
// for and are open.
func (r *Resubmission) choose(f *ctlfile.File, held func(*ctlfile.Recipient) bool) (chosen []int) {
	asked := slices.Sorted(slices.Values(r.Offsets))
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
		if _, ok := slices.BinarySearch(asked, to.Offset); !ok && r.Offsets != nil {
			continue
		}
		if !open(to) || taken[to.Class] {
			continue
		}
		taken[to.Class] = to.Class > 0 && !r.moves()
		chosen = append(chosen, i)
	}
	return chosen
}

// origin returns the origin of a recipient that is moved from the message with a spoolid. That
// of a recipient that is on its way to another node already stays.
func (r *Resubmission) origin(node, spoolID string, to *ctlfile.Recipient) ctlfile.Origin {
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
