package daemon

// Work on control files: mark, read again, finish, hold, release, requeue and
// reroute, each from the request to the spool's answer.

import (
	"cmp"
	"errors"
	"fmt"
	"syscall"

	"zsched/ctlfile"
	"zsched/scheduler"
	"zsched/scheduler/spool"
)

// files keeps track of the changes to files that the spool was asked to make.
type files struct {
	loop    *Loop
	spool   Spool
	pending int                                            // actions that the spool has not answered
	syslog  func(severity scheduler.Severity, line string) // nil: none
	faults  map[scheduler.MessageID]fault                  // of messages whose files have given EIO
}

// fault says whether EIO is the fault of the whole spool or of one file. One bad block must not stop
// the mail of all others.
type fault uint8

const (
	ofTheSpool fault = iota + 1 // nothing else is known
	inDoubt                     // a probe has succeeded since
	ofTheFile                   // and the file has given EIO again
)

func newFiles(l *Loop, o Options) files {
	return files{loop: l, spool: o.Spool, syslog: o.Syslog, faults: map[scheduler.MessageID]fault{}}
}

func (f *files) do(a scheduler.Action) {
	f.pending++
	f.spool.Do(a)
}

func (f *files) finish(a *scheduler.Finish) {
	f.loop.intake.finishing[a.Op] = a.Message
	f.do(a)
}

// answered tells the core how an action on files ended.
func (f *files) answered(r spool.Answered) {
	f.pending--
	f.logNotice(r.Message, r.Notice)
	switch a := r.Action.(type) {
	case *scheduler.Finish:
		f.finished(a, r)
		return
	case scheduler.Resubmit:
		f.takeNew(r)
		if allSent(a.Offsets, r) {
			r.Err = nil
		} else {
			r.Err = cmp.Or(r.Err, errNotAll)
		}
	}
	f.done(r)
}

// done tells the core whether an action is carried out.
func (f *files) done(r spool.Answered) {
	switch {
	case r.Missing:
		delete(f.faults, r.Message)
		f.loop.Step(scheduler.Failed{Op: r.Op, Missing: true})
	case r.Err != nil:
		down := spool.IsDown(r.Err)
		if errors.Is(r.Err, syscall.EIO) {
			down = f.blame(r.Message) != ofTheFile
		}
		f.loop.Step(scheduler.Failed{Op: r.Op, Reason: r.Err.Error(), SpoolDown: down, NoRoom: spool.IsFull(r.Err), Unmarked: r.Unmarked})
	default:
		if f.faults[r.Message] != ofTheFile {
			delete(f.faults, r.Message)
		}
		f.loop.Step(scheduler.Done{Op: r.Op, Owes: r.Owes, Recipients: r.Recipients, Unmarked: r.Unmarked})
	}
}

// blame notes that a file of a message has given EIO, and returns whose fault that is.
func (f *files) blame(id scheduler.MessageID) fault {
	switch f.faults[id] {
	case 0:
		f.faults[id] = ofTheSpool
	case inDoubt:
		f.faults[id] = ofTheFile
	}
	return f.faults[id]
}

// spoolBack tells the core that the spool can be written.
func (f *files) spoolBack() {
	for id, fault := range f.faults {
		f.faults[id] = max(fault, inDoubt)
	}
	f.loop.Step(scheduler.SpoolBack{})
}

func (f *files) finished(a *scheduler.Finish, r spool.Answered) {
	if r.Err == nil && !r.Missing {
		delete(f.faults, r.Message)
		f.complete(a)
	}
	f.done(r)
	f.loop.intake.finished(r.Op)
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

// errNotAll says that a recipient stayed because a live process has locked it.
var errNotAll = errors.New("a recipient is locked")

// allSent reports whether all these recipients were sent elsewhere or are done
// according to the file. If only some were, their tags in the file say so to the next agent. It
// takes linear time: there may be a million of them.
func allSent(offsets []int64, r spool.Answered) bool {
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
func (f *files) takeNew(r spool.Answered) {
	if r.Name.ID != 0 {
		f.loop.intake.take([]spool.Name{r.Name})
	}
}
