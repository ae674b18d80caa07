package daemon

// Dispatch of the core's actions and of the spool's results.

import (
	"path"

	"zsched/ctlfile"
	"zsched/scheduler"
	"zsched/scheduler/spool"
)

// perform carries out an action. Nothing here waits.
func (d *Daemon) perform(a scheduler.Action) {
	l := &d.loop
	switch a := a.(type) {
	case scheduler.Start:
		l.agents.start(a)
	case scheduler.Feed:
		l.agents.feed(a)
	case scheduler.Idle:
		l.agents.send(a.Agent, "#idle\n")
	case scheduler.Close:
		l.agents.close(a)
	case scheduler.Kill:
		l.agents.kill(a)

	case scheduler.Mark:
		l.files.mark(a)
	case scheduler.Read:
		l.files.read(a)
	case scheduler.Load:
		l.intake.load(a)
	case scheduler.Report:
		l.files.report(a)
	case scheduler.Finish:
		l.files.finish(a)
	case scheduler.Hold:
		l.files.hold(a)
	case scheduler.Resubmit:
		l.files.resubmit(a)
	case scheduler.Answer:
		l.answer = a
	case scheduler.Probe:
		d.options.Spool.Probe()

	case scheduler.Account:
		d.account(a)
	case scheduler.Complete:
		d.complete(a)
	case scheduler.Undone:
		l.noteUndone(a)
	case scheduler.Note:
		d.note(a)
	case scheduler.Want, scheduler.Draw, scheduler.Destination:
		if c := d.options.Cluster; c != nil {
			c.Perform(a)
		}
	case scheduler.Attempt, scheduler.Touched, scheduler.Condition: // for observers
	case scheduler.Stopped:
		d.done = true
	default:
		panic("daemon: unknown action")
	}
}

// messageOf returns the number of the control file that a path names.
func messageOf(file string) (scheduler.MessageID, bool) {
	n, ok := ctlfile.Number(path.Base(file))
	return scheduler.MessageID(n), ok
}

// result handles one result of the spool.
func (d *Daemon) result(r spool.Result) {
	l := &d.loop
	for _, o := range l.observers {
		o.Result(l.now, r)
	}
	switch r := r.(type) {
	case spool.Loaded:
		l.intake.taken(r)
	case spool.Refused:
		l.intake.refused(r)
	case spool.Triggered:
		if l.intake.isAgain(r.Name) {
			break // it was carried out when the file was first read
		}
		delete(l.intake.taking, r.Name.ID)
		l.log.Info().Str("host", r.Host).Str("request", r.Text).Msg("mail requested")
		l.Step(scheduler.Triggered{Host: r.Host})

	case spool.Marked:
		l.files.changed(r.Op, r.Missing, r.Quarantined, r.Err)
	case spool.Reread:
		l.files.reread(r)
	case spool.Finished:
		l.files.finished(r)
	case spool.Reported:
		l.files.logNotice(scheduler.MessageID(r.Name.ID), r.Notice)
		l.files.changed(r.Op, r.Missing, r.Quarantined, r.Err)
	case spool.Unparked:
		l.files.logNotice(scheduler.MessageID(r.Name.ID), r.Notice)
	case spool.Moved:
		l.files.changed(r.Op, r.Missing, false, r.Err)
	case spool.Released:
		l.files.answered(r.Op, r)
	case spool.Recorded:
		l.files.answered(r.Op, r)
	case spool.Resubmitted:
		if !l.files.answered(r.Op, r) {
			l.files.resubmitted(r)
		}
	case spool.Probed:
		if r.Err == nil {
			l.Step(scheduler.SpoolBack{})
		} else {
			l.log.Debug().Err(r.Err).Msg("spool cannot be written yet")
		}

	case spool.Swept:
		d.startup.swept = true
		if l.held.inDoubt {
			l.held.rewrite()
		}
	case spool.HoldReplaced:
		l.held.rewrite()
	case spool.Down:
		l.Step(scheduler.Failed{Reason: r.Err.Error(), SpoolDown: true})
	case spool.Disowned:
		d.disown(r.Err)
	case spool.Warning:
		l.log.Error().Msg(r.Text)
	}
}
