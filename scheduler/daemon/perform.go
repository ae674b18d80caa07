package daemon

import (
	"errors"
	"path"
	"syscall"

	"zsched/ctlfile"
	"zsched/scheduler"
	"zsched/scheduler/spool"
)

// perform does what the core said. Nothing here waits.
func (d *Daemon) perform(a scheduler.Action) {
	switch a := a.(type) {
	case scheduler.Start:
		d.start(a)
	case scheduler.Feed:
		d.feed(a)
	case scheduler.Idle:
		d.send(a.Agent, "#idle\n")
	case scheduler.Close:
		d.closeAgent(a)
	case scheduler.Kill:
		d.kill(a)

	case scheduler.Mark:
		d.filing++
		d.Spool.Mark(uint64(a.Op), a.Path, marks(a.Marks))
	case scheduler.Read:
		d.filing++
		d.Spool.Reread(uint64(a.Op), a.Path, a.PID)
	case scheduler.Finish:
		d.finish(a)
	case scheduler.Hold:
		d.filing++
		d.Spool.Hold(uint64(a.Op), a.Path)
	case scheduler.Resubmit:
		d.resubmit(a)
	case scheduler.Answer:
		d.replied = a
	case scheduler.Probe:
		d.Spool.Probe()

	case scheduler.Account:
		d.account(a)
	case scheduler.Complete:
		d.complete(a)
	case scheduler.Note:
		d.note(a)
	case scheduler.Stopped:
		d.over = true
	default:
		panic("daemon: unknown action")
	}
}

func marks(from []scheduler.RecipientMark) []spool.Mark {
	to := make([]spool.Mark, len(from))
	for i, m := range from {
		to[i] = spool.Mark{
			Offset: m.Offset, Tag: m.Tag, LeaveTag: m.LeaveTag,
			Diagnose: m.Diagnose, Notary: string(m.Notary), Text: m.Text,
		}
	}
	return to
}

func (d *Daemon) feed(a scheduler.Feed) {
	id, ok := messageOf(a.Job.Path)
	d.tally.fed(id, d.now)
	if v, wanted := d.verbose[id]; ok && wanted {
		d.Spool.Verbose(v.path, v.owner, "scheduler: given to an agent for "+a.Job.Host)
	}
	d.feedAgent(a)
}

func (d *Daemon) finish(a scheduler.Finish) {
	if d.Keep {
		d.intake.kept[a.Message] = struct{}{}
		d.then(scheduler.Done{Op: a.Op})
		return
	}
	if v, ok := d.verbose[a.Message]; ok {
		d.Spool.Verbose(v.path, v.owner, "scheduler: every recipient is done")
		delete(d.verbose, a.Message)
	}
	d.filing++
	d.intake.finishing[a.Op] = a.Message
	d.Spool.Finish(uint64(a.Op), a.Path, a.Owes)
}

// messageOf returns the number of the control file that a path names.
func messageOf(file string) (scheduler.MessageID, bool) {
	n, ok := ctlfile.Number(path.Base(file))
	return scheduler.MessageID(n), ok
}

// result tells the core what the spool has to say.
func (d *Daemon) result(r spool.Result) {
	switch r := r.(type) {
	case spool.Taken:
		d.taken(r)
	case spool.Refused:
		d.refused(r)
	case spool.Triggered:
		delete(d.intake.taking, r.Name.ID)
		d.Log.Info().Str("host", r.Host).Str("request", r.Text).Msg("mail asked for")
		d.step(scheduler.Triggered{Host: r.Host})

	case spool.Marked:
		d.changed("mark", r.Op, r.Missing, r.Err)
	case spool.Reread:
		d.reread(r)
	case spool.Finished:
		d.finishAnswered(r)
	case spool.Moved:
		d.changed("hold", r.Op, r.Missing, r.Err)
	case spool.Released:
		d.tally.fault("release", r.Err)
		d.errandEnded(r.Op, r)
	case spool.Recorded:
		d.tally.fault("hold", r.Err)
		d.errandEnded(r.Op, r)
	case spool.Resubmitted:
		d.tally.fault("resubmit", r.Err)
		if !d.errandEnded(r.Op, r) {
			d.resubmitAnswered(r)
		}
	case spool.Probed:
		if r.Err == nil {
			d.tally.spoolErr = ""
			d.step(scheduler.SpoolBack{})
		} else {
			d.Log.Debug().Err(r.Err).Msg("spool cannot be written yet")
		}

	case spool.Swept:
		d.startup.swept = true
		d.tally.sweptAt = d.now
		d.forgetLost()
	case spool.Trouble:
		d.tally.faults["other"]++
		d.Log.Error().Msg(r.Text)
	}
}

// changed tells the core how a change of a control file ended.
func (d *Daemon) changed(doing string, op uint64, missing bool, err error) {
	d.tally.fault(doing, err)
	if missing {
		d.missed(scheduler.Op(op))
		return
	}
	d.filed(scheduler.Op(op), err)
}

// missed tells the core that there was no control file for an action.
func (d *Daemon) missed(op scheduler.Op) {
	d.filing--
	d.step(scheduler.Failed{Op: op, Missing: true})
}

// filed tells the core how an action on files ended.
func (d *Daemon) filed(op scheduler.Op, err error) {
	d.filing--
	if err != nil {
		failed := scheduler.Failed{Op: op, Reason: err.Error(), SpoolDown: wide(err)}
		if failed.SpoolDown {
			d.tally.spoolErr = failed.Reason // until the probes that this begins succeed
		}
		d.step(failed)
		return
	}
	d.step(scheduler.Done{Op: op})
}

// wide tells a fault of the whole spool from one of a single file.
func wide(err error) bool {
	for _, e := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO, spool.ErrShut} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (d *Daemon) reread(r spool.Reread) {
	d.tally.fault("read", r.Err)
	if r.Err != nil {
		d.filed(scheduler.Op(r.Op), r.Err)
		return
	}
	d.filing--
	states := make([]scheduler.RecipientState, len(r.Recipients))
	for i, s := range r.Recipients {
		states[i] = scheduler.RecipientState{Offset: s.Offset, Tag: s.Tag}
	}
	d.step(scheduler.Reread{Op: scheduler.Op(r.Op), Missing: r.Missing, Owes: r.Owes, Recipients: states})
}

func (d *Daemon) finishAnswered(r spool.Finished) {
	d.tally.fault("finish", r.Err)
	op := scheduler.Op(r.Op)
	err := r.Err
	if errors.Is(err, spool.ErrOpen) {
		// The file knows of a recipient that the core does not. The core lets
		// go of the message, and a sweep brings back what the file says.
		d.Log.Warn().Err(err).Msg("a message that seemed done is looked at again")
		d.Spool.Sweep()
		err = nil
	}
	d.filed(op, err)
	d.finished(op)
}

func (d *Daemon) taken(r spool.Taken) {
	delete(d.intake.taking, r.Name.ID)
	m := scheduler.Message{
		ID: scheduler.MessageID(r.Name.ID), Path: r.Name.Path, LogID: r.LogID,
		Sender: r.Sender, ErrorTo: r.ErrorTo, NullSender: r.NullSender,
		Owner: r.Owner, ModifiedAt: r.ModifiedAt, ChangedAt: r.ChangedAt,
		Size: r.Size, Owes: r.Owes, Obsoletes: r.Obsoletes,
		Recipients: make([]scheduler.Recipient, len(r.Recipients)),
	}
	for i, to := range r.Recipients {
		m.Recipients[i] = scheduler.Recipient(to)
	}
	if r.Verbose != "" {
		d.verbose[m.ID] = verboseLog{r.Verbose, r.Owner}
		d.Spool.Verbose(r.Verbose, r.Owner, "scheduler: taken as "+ctlfile.SpoolID(r.Name.ID, r.ModifiedAt))
	}
	if _, ok := d.intake.released[m.ID]; ok {
		delete(d.intake.released, m.ID)
		m.Released = true
	}
	d.startup.messages++
	d.startup.recipients += len(m.Recipients)
	d.tally.arrived(&m, d.now)
	d.step(scheduler.Arrived{Message: m})
}

func (d *Daemon) refused(r spool.Refused) {
	delete(d.intake.taking, r.Name.ID)
	d.tally.refused[r.Why]++
	// What is looked at again and again is told of at doubling distances.
	if r.Why == spool.Vanished || r.Tries&(r.Tries-1) != 0 {
		return
	}
	line := d.Log.Warn()
	if r.Why == spool.Quarantined {
		line = d.Log.Error()
	}
	line.Str("file", r.Name.Path).Stringer("why", r.Why).Int("tries", r.Tries).Msg(r.Reason)
}

// verboseLog is where a sender wants to read what becomes of a message.
type verboseLog struct {
	path  string
	owner uint32
}

// forgetLost drops what is known of messages that left without being finished.
func (d *Daemon) forgetLost() {
	for id := range d.verbose {
		if d.core.Known(id) == scheduler.Absent {
			delete(d.verbose, id)
		}
	}
	for id := range d.tally.sample {
		if d.core.Known(id) == scheduler.Absent {
			delete(d.tally.sample, id)
		}
	}
}

// kill ends an agent's process.
func (d *Daemon) kill(a scheduler.Kill) {
	sig := syscall.SIGTERM
	if a.Hard {
		sig = syscall.SIGKILL
	}
	d.signalAgent(a.Agent, sig)
}
