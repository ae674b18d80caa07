package daemon

// The loop: one select, one batch of events, the actions of the core, the results of the
// spool, the timer.

import (
	"path"
	"time"

	"github.com/rs/zerolog"

	"zsched/ctlfile"
	"zsched/scheduler"
	"zsched/scheduler/spool"
	"zsched/scheduler/state"
	"zsched/scheduler/view"
)

// Loop is everything that belongs to the goroutine of Run: the core, the time of
// the current turn, and what is known about agents and files. Functions given to
// Ask receive it and must not keep it.
type Loop struct {
	core      *scheduler.Scheduler
	now       time.Time     // of this turn
	elapsed   time.Duration // the same by the clock that nobody can set
	startedAt time.Time
	events    []scheduler.Event // to be passed to the core
	steps     uint64            // of the core so far
	perform   func(scheduler.Action)
	observers []Observer
	log       zerolog.Logger
	verbose   bool

	answer     view.Outcome // to the last order
	lastReload Reload

	agents agents
	intake intake
	files  files

	saved  *state.Table // what an earlier process knew; nil: nothing more is needed of it
	loaded bool         // everything that was there at the start is loaded
}

// turn waits until one of the channels has something, and handles it.
func (d *Daemon) turn() {
	l := &d.loop
	asked := false
	select {
	case names := <-d.found():
		d.begin()
		l.intake.take(names)
	case results := <-d.results():
		d.begin()
		d.spoolAnswered(results)
	case said := <-d.heard():
		d.begin()
		l.agents.said(said)
	case start := <-d.started:
		d.begin()
		l.agents.started(start)
	case sig := <-d.options.Signals:
		d.begin()
		d.signal(sig)
	case r := <-d.reload.done:
		d.begin()
		d.reloaded(r)
	case <-d.timer.C:
		d.begin()
		d.armedAt = time.Time{}
		l.Step(scheduler.Tick{})
	case <-d.options.Cluster.Woken():
		d.begin()
	case q := <-d.asking():
		d.begin()
		asked = true
		q.run(l)
		close(q.answered)
	}
	if took := time.Since(d.readAt); asked {
		d.owed = took
	} else {
		d.owed -= took
	}
}

// clockStep is how far a clock must have moved against another one to be noticed.
// Smaller steps do no harm.
const clockStep = 10 * time.Second

// readClocks sets the time of the turn. If the wall clock was set since the last turn, or
// the machine has slept, so that the timer is late, the core gets a Tick.
func (d *Daemon) readClocks() {
	l := &d.loop
	read, now := time.Now(), d.clocks()
	passed := now.Elapsed - l.elapsed
	slept, set := passed-read.Sub(d.readAt), now.Wall.Sub(l.now)-passed
	l.now, l.elapsed, d.readAt = now.Wall, now.Elapsed, read
	if set.Abs() >= clockStep {
		l.log.Warn().Stringer("by", set.Round(time.Second)).Msg("the clock was set; waits keep their length, and expiry follows the clock")
	}
	if max(slept, set.Abs()) >= clockStep {
		l.Step(scheduler.Tick{})
	}
}

// clocks reads the clocks. The wall clock is read without its monotonic part.
func (d *Daemon) clocks() scheduler.Now {
	now := scheduler.Now{Wall: time.Now(), Elapsed: time.Since(d.madeAt) + time.Second}
	if d.options.Clocks != nil {
		now = d.options.Clocks()
	}
	now.Wall = now.Wall.Round(0)
	return now
}

// found returns the channel of names of control files. It is nil while enough
// files are being read, and during a stop.
func (d *Daemon) found() <-chan []spool.Name {
	l := &d.loop
	if len(l.intake.taking) >= maxTaking || d.stop.begun {
		return nil
	}
	return d.options.Spool.Found()
}

// results returns the channel of results: first those that the last turn left.
func (d *Daemon) results() <-chan []spool.Result {
	if len(d.backlog) > 0 {
		return d.backlog
	}
	return d.options.Spool.Results()
}

// asking returns the channel of questions. After a question it is nil until other turns have taken
// as long as that, while results or agents' lines can be handled: questions, however many, take
// half of the loop's time at most.
func (d *Daemon) asking() <-chan question {
	if d.owed > 0 && len(d.heard())+len(d.results()) > 0 {
		return nil
	}
	return d.questions
}

func (d *Daemon) spoolAnswered(results []spool.Result) {
	if len(results) > maxBatch {
		d.backlog <- results[maxBatch:]
		results = results[:maxBatch]
	}
	for _, r := range results {
		d.result(r)
	}
	d.finishStartup()
}

// Step passes an event to the core and performs the actions, then does the same
// with the events that these actions queued.
func (l *Loop) Step(e scheduler.Event) {
	l.events = append(l.events, e)
	for i := 0; i < len(l.events); i++ {
		event := l.events[i]
		for _, o := range l.observers {
			o.Event(l.now, event)
		}
		if l.verbose {
			logVerbose(&l.log, "event", event)
		}
		l.steps++
		for _, a := range l.core.Step(scheduler.Now{Elapsed: l.elapsed, Wall: l.now}, event) {
			for _, o := range l.observers {
				o.Action(l.now, a)
			}
			if l.verbose {
				logVerbose(&l.log, "action", a)
			}
			l.perform(a)
		}
	}
	clear(l.events)
	l.events = l.events[:0]
}

// queue queues an event that results from the action being performed.
func (l *Loop) queue(e scheduler.Event) { l.events = append(l.events, e) }

// arm sets the timer to the time at which the core wants a Tick.
func (d *Daemon) arm() {
	next, ok := d.nextTurn()
	switch {
	case !ok:
		if !d.armedAt.IsZero() {
			d.timer.Stop()
			d.armedAt = time.Time{}
		}
	case !next.Equal(d.armedAt):
		d.timer.Reset(next.Sub(d.clocks().Wall))
		d.armedAt = next
	}
}

// perform carries out an action. Nothing here waits.
func (d *Daemon) perform(a scheduler.Action) {
	l := &d.loop
	switch a := a.(type) {
	case scheduler.Start:
		l.agents.start(a)
	case *scheduler.Feed:
		l.agents.feed(a)
	case scheduler.Idle:
		l.agents.send(a.Agent, "#idle\n")
	case scheduler.Close:
		l.agents.close(a)
	case scheduler.Kill:
		l.agents.kill(a)

	case *scheduler.Finish:
		l.files.finish(a)
	case scheduler.Mark, scheduler.Read, scheduler.Report, scheduler.Hold, scheduler.Release, scheduler.Resubmit:
		l.files.do(a)
	case scheduler.Answer:
		l.answer = a.Outcome
	case scheduler.Probe:
		d.options.Spool.Probe()

	case *scheduler.Outcome:
		d.account(a)
	case scheduler.Note:
		d.note(a)
	case scheduler.Want, scheduler.Destination:
		d.options.Cluster.Perform(a)
	case scheduler.Condition: // for observers
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

// maxFinishing is how many messages may be waiting for their removal. What was delivered and is
// not removed would be delivered again after a crash, so a slow disk holds the agents back.
const maxFinishing = 1024

// heard returns the channel of what agents say, or nil while too much waits to be removed.
func (d *Daemon) heard() <-chan agentEvents {
	if len(d.loop.intake.finishing) >= maxFinishing {
		return nil
	}
	return d.agentSaid
}

// result handles one result of the spool.
func (d *Daemon) result(r spool.Result) {
	l := &d.loop
	for _, o := range l.observers {
		o.Result(l.now, r)
	}
	switch r := r.(type) {
	case spool.Loaded:
		l.intake.arrived(r)
	case spool.Refused:
		l.intake.refused(r)
	case spool.Triggered:
		delete(l.intake.taking, r.Name.ID)
		l.log.Info().Str("host", r.Host).Str("request", r.Text).Msg("mail requested")
		l.Step(scheduler.Triggered{Host: r.Host})

	case spool.Answered:
		l.files.answered(r)
	case spool.Probed:
		if r.Err == nil {
			l.files.spoolBack()
		} else {
			l.log.Debug().Err(r.Err).Msg("spool cannot be written yet")
		}

	case spool.Swept:
		d.startup.swept = true
	case spool.Down:
		l.Step(scheduler.Failed{Reason: r.Err.Error(), SpoolDown: true})
	case spool.Disowned:
		d.disown(r.Err)
	case spool.Reserve:
		if r.Err != nil {
			l.log.Error().Err(r.Err).Msg("the disk is nearly full: the reserve is gone")
		} else {
			l.log.Info().Msg("there is room on the disk again: the reserve is made")
		}
	case spool.Warning:
		l.log.Error().Msg(r.Text)
	}
}
