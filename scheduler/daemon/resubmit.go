package daemon

import (
	"cmp"
	"errors"

	"zsched/ctlfile"
	"zsched/scheduler"
	"zsched/scheduler/spool"
)

// resubmit sends recipients elsewhere.
func (d *Daemon) resubmit(a scheduler.Resubmit) {
	d.filing++
	d.resubmits[a.Op] = a.Offsets
	d.Spool.Resubmit(uint64(a.Op), spool.Resubmission{
		From: spool.Queue, Path: a.Path, Offsets: a.Offsets, Channel: a.Channel, Host: a.Host,
	})
}

// resubmitAnswered: to the core it is all or nothing. What went although the
// rest did not is tagged in the file, where the next agent sees it.
func (d *Daemon) resubmitAnswered(r spool.Resubmitted) {
	op := scheduler.Op(r.Op)
	asked := d.resubmits[op]
	delete(d.resubmits, op)
	d.resubmitted(r)
	if r.Missing {
		d.missed(op)
		return
	}
	if !allWent(asked, r) {
		d.filed(op, cmp.Or(r.Err, errNotAll))
		return
	}
	if r.Err != nil {
		d.Log.Error().Err(r.Err).Msg("sent elsewhere, but not all of it is written down")
	}
	d.filed(op, nil)
}

// allWent reports whether these recipients were sent elsewhere or are at their
// end by what the file says. It is quick: there may be a million of them.
func allWent(asked []int64, r spool.Resubmitted) bool {
	done := make(map[int64]struct{}, len(asked))
	for _, offset := range r.Offsets {
		done[offset] = struct{}{}
	}
	for _, s := range r.Recipients {
		if s.Tag == ctlfile.Delivered || s.Tag == ctlfile.Failed {
			done[s.Offset] = struct{}{}
		}
	}
	for _, offset := range asked {
		if _, ok := done[offset]; !ok {
			return false
		}
	}
	return true
}

// errNotAll says that a recipient stayed, locked by a live process.
var errNotAll = errors.New("a recipient is locked")

// resubmitted has a control file taken that a reroute has made.
func (d *Daemon) resubmitted(r spool.Resubmitted) {
	if r.Name.ID != 0 {
		d.take([]spool.Name{r.Name})
	}
}
