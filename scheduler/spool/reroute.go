package spool

// REQUEUE and REROUTE: recipients are submitted to the router again, or sent to
// another channel and host.

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/queue"
)

// Resubmission says which recipients of a message are sent where.
type Resubmission struct {
	From Place // Queue or Hold; for a move to another node also Postman
	Path string
	// Offsets of the recipients; nil for all that are open. A recipient that is
	// not open, or is locked by a live process, stays as it is. Of an exclusive
	// set, only the first recipient is sent, and that settles the set.
	Offsets []int64
	// Attempts is how often each of these was tried, which are then ascending; nil:
	// not known. Only a move to another node uses it.
	Attempts []int
	// Held says that the recipients stay held when they are moved to another node,
	// as those From Hold do.
	Held bool
	// Channel and Host are where they are sent; both "" for the router. Channel xfer
	// and the name of this node send recipients that are on their way to another node
	// back to where they were.
	Channel, Host string

	holds     *HoldsInForce // of a batch of moves
	elsewhere *elsewhere    // of a batch
	kept      error         // another node has taken recipients, which stay
	back      bool          // to where they were
}

// moves reports whether the recipients are moved to another node, whose name Host is, or
// back from their way to it.
func (r *Resubmission) moves() bool { return r.Channel == ctlfile.TransferChannel }

// Resubmit sends recipients of a message elsewhere: to the router as a new
// message in router/, or to another channel and host with a control file of their
// own and a copy of the message. Then it tags the old recipients '+'. They need
// no notice, because the new ones keep what the sender asked for. The result is
// Resubmitted. The caller releases a held message that has no open recipient
// left, so that it can be finished. What a held message sends to another channel and
// host is held too, and the caller records who holds it; what the router gets is not.
//
// The router gets the sender, NOTIFY, ORCPT, BY, ENVID and RET, the headers and
// the body. Its envelope has no line for an error address other than the sender;
// the time of BY starts anew; T lines are not repeated, because they were carried
// out. An address that is not a ctlfile.PlainAddress is refused. For the router
// the message is as old as its resubmission; a rerouted message keeps the age of
// its message file and its x lines.
//
// If recipients are on their way to another node, that node is asked first which of them it
// has (Options.Taken). These stay as they are. If it cannot be asked, all of them stay.
func (s *Spool) Resubmit(op uint64, r Resubmission) {
	r.Offsets = slices.Clone(r.Offsets)
	if r.moves() {
		r.back = r.Host == strings.ToLower(s.options.Node)
		s.moves.push(&move{resubmission: &r, answer: Resubmitted{Op: op}})
		return
	}
	s.bulk.push(func() {
		r.elsewhere = s.newElsewhere()
		staged, err := s.stage(&r)
		if errors.Is(err, errUnasked) {
			r.elsewhere.askAll()
			staged, err = s.stage(&r)
		}
		if err != nil {
			s.resubmitted(&r, Resubmitted{Op: op}, err)
			return
		}
		s.edit(r.Path, func() {
			answer := Resubmitted{Op: op}
			err := s.commit(&r, staged, &answer)
			s.resubmitted(&r, answer, err)
		})
	})
}

// resubmitted queues the result.
func (s *Spool) resubmitted(r *Resubmission, answer Resubmitted, err error) {
	s.queue.add([]Result{s.resubmission(r, answer, err)}, 0)
}

// resubmission returns the result.
func (s *Spool) resubmission(r *Resubmission, answer Resubmitted, err error) Resubmitted {
	switch {
	case errors.Is(err, errGone):
		answer.Missing = true
	case err != nil:
		answer.Err = fmt.Errorf("resubmitting %q: %w", r.Path, s.classify(r.Path, err))
	case r.kept != nil:
		answer.Err = fmt.Errorf("resubmitting %q: %w", r.Path, r.kept)
	}
	return answer
}

// choose returns the recipients of a file that are sent: those that were asked
// for and are open.
func (r *Resubmission) choose(f *ctlfile.File, held func(*ctlfile.Recipient) bool) (chosen []int) {
	asked := slices.Sorted(slices.Values(r.Offsets))
	settled := outcomes(f)
	open := func(to *ctlfile.Recipient) bool {
		if !r.moves() && isDoneElsewhere(to) {
			return false // it must not be delivered
		}
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
		if !open(to) || taken[to.Class] || r.back && !wasMoved(to) {
			continue
		}
		taken[to.Class] = to.Class > 0 && !r.moves()
		chosen = append(chosen, i)
	}
	return chosen
}

// commit publishes the staged copies and tags the recipients of each. It runs in
// edit, so no other work on the file is done meanwhile. It removes copies that
// were not published.
func (s *Spool) commit(r *Resubmission, staged []stagedCopy, answer *Resubmitted) error {
	defer func() {
		for _, p := range staged {
			p.remove()
		}
	}()
	var buf []byte
	d, err := readControl(s.controlOf(r.From), s.pair(r.From).transport, r.Path, unix.O_RDWR, &buf)
	if err != nil {
		return err
	}
	defer d.close()
	locks := s.locksOf(&d, true)
	// A torn line stays: an agent may be writing it for another recipient.
	if err := d.settle(locks.held); err != nil {
		return err
	}
	for i := range staged {
		if err = s.commitOne(&staged[i], &d, answer); err != nil {
			break
		}
	}
	answer.Owes, answer.Recipients = s.owes(d.file, false), states(d.file)
	return err
}

func (s *Spool) commitOne(p *stagedCopy, d *controlFile, answer *Resubmitted) error {
	if err := p.fits(d); err != nil {
		return err
	}
	name, err := s.publish(p, answer)
	if name == "" {
		return err
	}
	p.file = ""
	if p.draft == nil {
		p.sentTo += " as router/" + name
	}
	if err != nil && postoffice.SyncAll(s.office) != nil {
		// The copy may not survive a crash. The old recipients stay open, in the
		// file and for the receiver, which would otherwise remove the message: delivery
		// twice is better than none.
		return err
	}
	answer.Offsets = append(answer.Offsets, p.offsets...)
	return d.mark(p.marks())
}

// fits returns errChanged if the control file is another one than when the copy was
// staged, or if its recipients are not open any more.
func (p *stagedCopy) fits(d *controlFile) error {
	if d.st.Ino != p.control.Ino || d.st.Dev != p.control.Dev {
		return errChanged
	}
	for _, offset := range p.offsets {
		if i := d.file.Find(offset); i < 0 || d.file.Recipients[i].Tag != ctlfile.Open {
			return errChanged
		}
	}
	for _, offset := range p.unreported {
		if i := findLine(d.file, offset); i < 0 || d.file.Diagnostics[i].Tag != ctlfile.Open {
			return errChanged
		}
	}
	return nil
}

// marks are the outcomes of the old recipients.
func (p *stagedCopy) marks() []ctlfile.Mark {
	marks := make([]ctlfile.Mark, len(p.offsets))
	for i, offset := range p.offsets {
		marks[i] = ctlfile.Mark{Offset: offset, Tag: ctlfile.Delivered, Fate: p.fate, Text: p.sentTo}
		if p.spoolID != "" {
			marks[i].Text += " in message " + p.spoolID
		}
	}
	return marks
}

// publish gives a staged copy its final name and returns that name. An error
// together with a name says that the copy may not survive a crash.
func (s *Spool) publish(p *stagedCopy, answer *Resubmitted) (name string, err error) {
	if p.draft != nil {
		item := queue.Item{Contents: p.draft, Message: p.file, Held: p.held}
		s.copies.Commit([]*queue.Item{&item})
		if item.Path != "" {
			_, base := split(item.Path)
			id, _ := ctlfile.Number(base)
			answer.Name, answer.SpoolID, answer.Held = Name{item.Path, id}, p.spoolID, p.held
		}
		return item.Path, item.Err
	}
	router := queue.Router{Postoffice: s.options.Postoffice, Levels: s.options.RouterLevels, Notify: s.options.RouterNotify}
	name, err = router.Give(p.file)
	if name != "" {
		answer.Router = append(answer.Router, name)
	}
	return name, err
}
