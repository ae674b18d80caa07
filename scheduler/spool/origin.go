package spool

// Origins: what recipients were before they were moved to another node. A recipient takes
// its origin along, with its d lines that are still to be reported, and can come back by it.

import (
	"cmp"
	"slices"

	"zsched/ctlfile"
)

// mover is the message from which recipients are moved.
type mover struct{ node, spoolID string }

// stageMove returns the copy, without its message file, in which recipients go to another
// node: the chosen ones, which are open, and those with d lines in unreported, which has the
// indices of d lines by the index of their recipient.
func (r *Resubmission) stageMove(from *mover, f *ctlfile.File, chosen []int, unreported map[int][]int) (p stagedCopy) {
	all := slices.Clone(chosen)
	for i, lines := range unreported {
		if _, found := slices.BinarySearch(chosen, i); !found {
			all = append(all, i)
		}
		for _, line := range lines {
			p.unreported = append(p.unreported, f.Diagnostics[line].Offset)
		}
	}
	slices.Sort(all)
	p.draft = f.Extract(all)
	next := 0
	for to := range p.draft.All() {
		i := all[next]
		next++
		old := &f.Recipients[i]
		var lines []ctlfile.Diagnostic
		for _, line := range unreported[i] {
			lines = append(lines, f.Diagnostics[line])
		}
		origin := r.origin(from, old)
		if _, open := slices.BinarySearch(chosen, i); open {
			p.offsets = append(p.offsets, old.Offset)
		} else {
			to.Unreported, origin.Held = "", false
			origin.Done = doneTag(f, i)
		}
		to.Hold = ""
		if origin.Held {
			to.Hold = old.Hold
			if to.Hold == "" && r.holds != nil {
				to.Hold = r.holds.line(r.heldAs(from.spoolID), old)
			}
		}
		to.Unreported += ctlfile.Unreported(lines...)
		to.Origin, to.Channel, to.Host, to.Class = origin.String(), r.Channel, r.Host, 0
	}
	return p
}

// stageBack returns the copy in which recipients that were on their way to another node
// have the channel, the host and the class that they had before, without its message file.
// It is held if one of them was held, or is held now, unless all of them are done: then
// it only has something to report, which a hold would keep back. Their origins stay, but no
// longer say what they were before: a node that has taken one of them, but whose answer was
// lost, does not take it again if it is moved there again.
func (r *Resubmission) stageBack(spoolID string, f *ctlfile.File, chosen []int) (p stagedCopy) {
	p.draft = f.Extract(chosen)
	p.draft.HostLists = true
	p.held = r.Held || r.From == Hold
	next, open := 0, false
	for to := range p.draft.All() {
		old := &f.Recipients[chosen[next]]
		next++
		p.offsets = append(p.offsets, old.Offset)
		from, _ := ctlfile.ParseOrigin(to.Origin) // wasMoved has read it
		to.Channel, to.Host, to.Class = from.Channel, from.Host, from.Class
		to.Done, to.Diagnostics = from.Done, ctlfile.ParseUnreported(to.Unreported)
		p.held, p.hold = p.held || from.Held, cmp.Or(p.hold, to.Hold)
		if p.hold == "" && r.holds != nil {
			p.hold = r.holds.line(r.heldAs(spoolID), old)
		}
		from.Channel = ""
		to.Origin, to.Hold, to.Unreported = from.String(), "", ""
		open = open || to.Done == 0
	}
	if !open {
		p.held, p.hold = false, ""
	}
	return p
}

// heldAs returns the spoolid of a message if the message itself is held; "": only its
// threads are.
func (r *Resubmission) heldAs(spoolID string) string {
	if r.From != Hold {
		return ""
	}
	return spoolID
}

// wasMoved reports whether a recipient is on its way to another node, and it is known
// where it was before.
func wasMoved(to *ctlfile.Recipient) bool {
	from, err := ctlfile.ParseOrigin(to.Origin)
	return err == nil && from.Channel != "" && to.RouteChannel() == ctlfile.TransferChannel
}

// origin returns the origin of a recipient that is moved to another node. That of a
// recipient that was moved already, and is sent to yet another node before it has
// arrived, stays. One that came back from its way keeps the part that identifies it.
func (r *Resubmission) origin(from *mover, to *ctlfile.Recipient) ctlfile.Origin {
	before, err := ctlfile.ParseOrigin(to.Origin)
	if wasMoved(to) {
		return before
	}
	o := ctlfile.Origin{
		Node: from.node, SpoolID: from.spoolID, Offset: to.Offset,
		Class: to.Class, Held: r.Held || r.From == Hold, Channel: to.Channel, Host: to.Host,
	}
	if err == nil && before.Node == from.node {
		o.SpoolID, o.Offset = before.SpoolID, before.Offset
	}
	if i, asked := slices.BinarySearch(r.Offsets, to.Offset); asked && i < len(r.Attempts) {
		o.Attempts = r.Attempts[i]
	}
	return o
}

// unreportedLines returns the d lines that are still to be reported and go along when the
// chosen recipients are moved, by the index of their recipient: those of recipients that
// are chosen or done. If no open recipient stays, all that is owed goes.
func (s *Spool) unreportedLines(f *ctlfile.File, chosen []int) map[int][]int {
	stays := false
	for i := range f.Recipients {
		_, goes := slices.BinarySearch(chosen, i)
		stays = stays || !goes && !f.Done(i)
	}
	var unreported map[int][]int
	for _, line := range s.owed(f, !stays) {
		i := f.Find(f.Diagnostics[line].Recipient)
		if i < 0 {
			continue // it names nobody who could be moved
		}
		if _, goes := slices.BinarySearch(chosen, i); goes || f.Done(i) {
			if unreported == nil {
				unreported = make(map[int][]int)
			}
			unreported[i] = append(unreported[i], line)
		}
	}
	return unreported
}

// doneTag is the outcome of a recipient that is done.
func doneTag(f *ctlfile.File, i int) ctlfile.Tag {
	r := &f.Recipients[i]
	if r.Tag == ctlfile.Failed || r.Tag == ctlfile.Delivered {
		return r.Tag
	}
	if tag, ok := outcomes(f)[r.Offset]; ok {
		return tag
	}
	return ctlfile.Delivered // an alternative of a recipient that was delivered
}

// isDoneElsewhere reports whether a recipient is on its way to another node although it
// is done, because its sender is to be told so.
func isDoneElsewhere(r *ctlfile.Recipient) bool {
	_, done := doneBefore(r)
	return done
}

// doneBefore returns the outcome that a recipient had before it was moved; false: it was
// open.
func doneBefore(r *ctlfile.Recipient) (ctlfile.Tag, bool) {
	if r.Unreported == "" || r.RouteChannel() != ctlfile.TransferChannel {
		return 0, false
	}
	from, err := ctlfile.ParseOrigin(r.Origin)
	return from.Done, err == nil && from.Done != 0
}

// findLine returns the index of the d line at an offset, or -1.
func findLine(f *ctlfile.File, offset int64) int {
	return slices.IndexFunc(f.Diagnostics, func(d ctlfile.Diagnostic) bool { return d.Offset == offset })
}
