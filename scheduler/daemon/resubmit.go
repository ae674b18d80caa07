package daemon

import (
	"cmp"
	"errors"
	"slices"

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
		d.filing--
		d.step(scheduler.Failed{Op: op, Missing: true})
		return
	}
	done := func(offset int64) bool {
		return slices.Contains(r.Offsets, offset) || slices.ContainsFunc(r.Recipients, func(s spool.State) bool {
			return s.Offset == offset && (s.Tag == ctlfile.Delivered || s.Tag == ctlfile.Failed)
		})
	}
	err := r.Err
	for _, offset := range asked {
		if !done(offset) {
			d.filed(op, cmp.Or(err, errNotAll))
			return
		}
	}
	if err != nil {
		d.Log.Error().Err(err).Msg("sent elsewhere, but not all of it is written down")
	}
	d.filed(op, nil)
}

// errNotAll says that a recipient stayed, locked by a live process.
var errNotAll = errors.New("a recipient is locked")

// resubmitted has a control file taken that a reroute has made.
func (d *Daemon) resubmitted(r spool.Resubmitted) {
	if r.Name.ID != 0 {
		d.take([]spool.Name{r.Name})
	}
}
