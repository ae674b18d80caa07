package daemon

// Work on control files: mark, read again, finish, hold, release, requeue and
// reroute, each from the request to the spool's answer.

import (
	"cmp"
	"errors"
	"fmt"

	"zsched/ctlfile"
	"zsched/scheduler"
	"zsched/scheduler/spool"
)

// files keeps track of the changes to files that the spool was asked to make.
type files struct {
	loop      *Loop
	spool     Spool
	keep      bool                                           // option -p
	only      bool                                           // the command line names the files
	pending   int                                            // operations that the spool has not answered
	resubmits map[scheduler.Op][]int64                       // offsets of the recipients, for each Resubmit
	syslog    func(severity scheduler.Severity, line string) // nil: none
}

func newFiles(l *Loop, o Options) files {
	return files{
		loop: l, spool: o.Spool, keep: o.Keep, only: len(o.Files) > 0, syslog: o.Syslog,
		resubmits: make(map[scheduler.Op][]int64),
	}
}

func (f *files) mark(a scheduler.Mark) {
	f.pending++
	f.spool.Mark(uint64(a.Op), a.Path, a.Marks)
}

func (f *files) read(a scheduler.Read) {
	f.pending++
	f.spool.Reread(uint64(a.Op), a.Path, spool.OurLocks{DeadPID: a.PID, Offsets: a.Offsets, AtWork: a.AtWork})
}

func (f *files) reread(r spool.Reread) {
	if r.Err != nil {
		f.done(scheduler.Op(r.Op), r.Err)
		return
	}
	f.pending--
	f.loop.Step(scheduler.Reread{Op: scheduler.Op(r.Op), Missing: r.Missing, Moved: r.Quarantined, Owes: r.Owes, Recipients: r.Recipients})
}

func (f *files) finish(a *scheduler.Finish) {
	l := f.loop
	if f.keep { // option -p
		f.complete(a)
		l.intake.kept[a.Message] = struct{}{}
		if a.Untagged != 0 {
			f.mark(scheduler.Mark{Op: a.Op, Path: a.Path, Marks: []ctlfile.Mark{{Offset: a.Untagged, Tag: a.Tag}}})
			return
		}
		l.queue(scheduler.Done{Op: a.Op})
		return
	}
	f.pending++
	l.intake.finishing[a.Op] = *a
	f.spool.Finish(spool.Finish{Op: uint64(a.Op), Path: a.Path, Owes: a.Owes, Untagged: a.Untagged, Tag: a.Tag})
}

func (f *files) finished(r spool.Finished) {
	op, err := scheduler.Op(r.Op), r.Err
	a := f.loop.intake.finishing[op]
	f.logNotice(a.Message, r.Notice)
	if err == nil {
		f.complete(&a)
	}
	if errors.Is(err, spool.ErrOpen) {
		// The file has a recipient that the core does not know. The core drops
		// the message, and a sweep finds the file again.
		f.loop.log.Warn().Err(err).Msg("a message that seemed done has an open recipient; its file is read again")
		f.spool.Sweep()
		err = nil
	}
	f.done(op, err)
	f.loop.intake.finished(op)
}

// complete logs that all recipients of a message are done.
func (f *files) complete(a *scheduler.Finish) {
	debug := f.loop.log.Debug()
	if f.syslog == nil && !debug.Enabled() {
		return
	}
	id := ctlfile.SpoolID(uint64(a.Message), a.ModifiedAt)
	debug.Str("spoolid", id).Int("recipients", a.Recipients).Int("failed", a.Failed).Msg("complete")
	if f.syslog != nil {
		f.syslog(scheduler.Info, fmt.Sprintf("%s: complete (total %d recipients, %d failed)", id, a.Recipients, a.Failed))
	}
}

func (f *files) hold(a scheduler.Hold) {
	f.pending++
	f.spool.Hold(uint64(a.Op), a.Path)
}

func (f *files) release(a scheduler.Release) {
	f.pending++
	f.spool.Release(uint64(a.Op), a.Path)
}

// changed tells the core how a Mark, a Hold or a Release ended. moved says that the file is
// missing because the spool has quarantined it.
func (f *files) changed(op uint64, missing, moved bool, err error) {
	if missing {
		f.missing(scheduler.Op(op), moved)
		return
	}
	f.done(scheduler.Op(op), err)
}

// missing tells the core that the control file of an action does not exist.
func (f *files) missing(op scheduler.Op, moved bool) {
	f.pending--
	f.loop.Step(scheduler.Failed{Op: op, Missing: true, Moved: moved})
}

// done tells the core how an action on files ended.
func (f *files) done(op scheduler.Op, err error) {
	f.pending--
	if err != nil {
		f.loop.Step(scheduler.Failed{Op: op, Reason: err.Error(), SpoolDown: errors.Is(err, spool.ErrSpoolDown)})
		return
	}
	f.loop.Step(scheduler.Done{Op: op})
}

// resubmit sends recipients elsewhere: REQUEUE and REROUTE.
func (f *files) resubmit(a scheduler.Resubmit) {
	f.pending++
	f.resubmits[a.Op] = a.Offsets
	f.spool.Resubmit(uint64(a.Op), spool.Resubmission{
		Path: a.Path, Offsets: a.Offsets, Attempts: a.Attempts, Hold: a.Hold, Channel: a.Channel, Host: a.Host,
	})
}

// errNotAll says that a recipient stayed because a live process has locked it.
var errNotAll = errors.New("a recipient is locked")

// resubmitted tells the core how a Resubmit ended. The core treats it as a
// whole: if some recipients were sent although others were not, their tags in
// the file say so to the next agent.
func (f *files) resubmitted(r spool.Resubmitted) {
	op := scheduler.Op(r.Op)
	offsets := f.resubmits[op]
	delete(f.resubmits, op)
	f.takeNew(r)
	switch {
	case r.Missing:
		f.missing(op, false)
	case !allSent(offsets, r):
		f.done(op, cmp.Or(r.Err, errNotAll))
	default:
		if r.Err != nil {
			f.loop.log.Error().Err(r.Err).Msg("recipients were sent elsewhere, but not all of them are marked as done")
		}
		f.pending--
		f.loop.Step(scheduler.Done{Op: op, Owes: r.Owes})
	}
}

// allSent reports whether all these recipients were sent elsewhere or are done
// according to the file. It takes linear time: there may be a million of them.
func allSent(offsets []int64, r spool.Resubmitted) bool {
	done := make(map[int64]struct{}, len(offsets))
	for _, offset := range r.Offsets {
		done[offset] = struct{}{}
	}
	for _, s := range r.Recipients {
		if s.Tag == ctlfile.Delivered || s.Tag == ctlfile.Failed {
			done[s.Offset] = struct{}{}
		}
	}
	for _, offset := range offsets {
		if _, ok := done[offset]; !ok {
			return false
		}
	}
	return true
}

// takeNew takes the control file that a REROUTE has written.
func (f *files) takeNew(r spool.Resubmitted) {
	if r.Name.ID != 0 {
		f.loop.intake.take([]spool.Name{r.Name})
	}
}
