package spool

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
)

// Resubmission asks for recipients of a message to go another way.
type Resubmission struct {
	From Place // Queue or Hold
	Path string
	// Offsets of the recipients, nil for all that are open. What is not open,
	// or locked by a live process, stays as it is. Of an exclusive set the
	// first of those asked for goes, and the set is done with it.
	Offsets []int64
	// Channel and Host are where they go instead; both "" for the router.
	Channel, Host string
}

// Resubmit gives recipients of a message another life: to the router as a new
// message in router/, or rerouted, in a control file of their own with a copy
// of the message, to another channel and host. Then the old recipients are
// tagged '+': of them nobody need be told, because the new ones keep what the
// sender asked to hear of. Answered by Resubmitted. A held message of which no
// recipient is left open is to be released, so that it can be finished.
//
// The router is given the sender, NOTIFY, ORCPT, BY, ENVID and RET, the headers
// and the body. Its form of envelope has no place for an error address other
// than the sender; the time of BY counts anew; T lines are not repeated, for
// what they asked was done. An address that is no ctlfile.PlainAddress is
// refused. To the router the message is as old as its resubmission; a rerouted
// one keeps the age of its message file, and its x lines.
func (s *Spool) Resubmit(op uint64, r Resubmission) {
	r.Offsets = slices.Clone(r.Offsets)
	s.errands.push(func() {
		parcels, err := s.pack(&r)
		if err != nil {
			s.resubmitted(&r, Resubmitted{Op: op}, err)
			return
		}
		s.edit(r.Path, func() {
			answer := Resubmitted{Op: op}
			err := s.send(&r, parcels, &answer)
			s.resubmitted(&r, answer, err)
		})
	})
}

// resubmitted answers.
func (s *Spool) resubmitted(r *Resubmission, answer Resubmitted, err error) {
	switch {
	case errors.Is(err, errGone):
		answer.Missing = true
	case err != nil:
		answer.Err = fmt.Errorf("resubmitting %q: %w", r.Path, s.classify(r.Path, err))
	}
	s.queue.add([]Result{answer}, 0)
}

// choose returns which recipients of a file go: those asked for that are open.
func (r *Resubmission) choose(f *ctlfile.File, held func(*ctlfile.Recipient) bool) (chosen []int) {
	asked := slices.Sorted(slices.Values(r.Offsets))
	said := outcomes(f)
	open := func(to *ctlfile.Recipient) bool {
		_, done := said[to.Offset]
		return !done && (to.Tag == ctlfile.Open || to.Tag == ctlfile.Locked && !held(to))
	}
	// Sets of which one is at its end, under way or chosen.
	taken := map[int]bool{}
	for i := range f.Recipients {
		if to := &f.Recipients[i]; to.Class > 0 && !open(to) {
			tag := to.Tag
			if outcome, ok := said[to.Offset]; ok && tag != ctlfile.Delivered {
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
		taken[to.Class] = to.Class > 0
		chosen = append(chosen, i)
	}
	return chosen
}

// send gives the parcels away, each with its recipients' tags after it. It is
// the only one at work on the file meanwhile. What is not given away is
// removed.
func (s *Spool) send(r *Resubmission, parcels []parcel, answer *Resubmitted) error {
	defer func() {
		for _, p := range parcels {
			p.remove()
		}
	}()
	var buf []byte
	d, err := load(s.control, s.pairs[r.From].transport, r.Path, unix.O_RDWR, &buf)
	if err != nil {
		return err
	}
	defer d.close()
	locks := locks{writtenAt: time.Unix(d.st.Mtim.Unix()), known: true}
	// A torn line stays: an agent that is at another recipient may be at it.
	if err := d.settle(locks.held); err != nil {
		return err
	}
	for i := range parcels {
		if err = s.sendOne(&parcels[i], &d, answer); err != nil {
			break
		}
	}
	answer.Owes, answer.Recipients = owes(d.file, false), states(d.file)
	return err
}

func (s *Spool) sendOne(p *parcel, d *document, answer *Resubmitted) error {
	if d.st.Ino != p.control.Ino || d.st.Dev != p.control.Dev {
		return errChanged
	}
	for _, offset := range p.offsets {
		if i := d.file.Find(offset); i < 0 || d.file.Recipients[i].Tag != ctlfile.Open {
			return errChanged
		}
	}
	name, err := s.give(p, answer)
	if name == "" {
		return err
	}
	p.file = ""
	answer.Offsets = append(answer.Offsets, p.offsets...)
	if err != nil {
		// It may not outlive a crash: the old recipients stay, to go twice
		// rather than never.
		return err
	}
	marks := make([]ctlfile.Mark, len(p.offsets))
	for i, offset := range p.offsets {
		marks[i] = ctlfile.Mark{Offset: offset, Tag: ctlfile.Delivered}
	}
	return d.mark(marks)
}

// give makes a parcel somebody's and returns the name that it has there. An
// error together with a name says that it may not outlive a crash.
func (s *Spool) give(p *parcel, answer *Resubmitted) (name string, err error) {
	postoffice := s.options.Postoffice
	if p.draft != nil {
		name, err = ctlfile.Enqueue(postoffice, s.options.HashLevels, p.draft, p.file)
		if name != "" {
			_, base := split(name)
			id, _ := ctlfile.Number(base)
			answer.Name = Name{name, id}
		}
		return name, err
	}
	router := ctlfile.Router{Postoffice: postoffice, Levels: s.options.RouterLevels, Notify: s.options.RouterNotify}
	name, err = router.Give(p.file)
	if name != "" {
		answer.Router = append(answer.Router, name)
	}
	return name, err
}
