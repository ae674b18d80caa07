package daemon

// The loop: one select, one batch of events, the actions, the timer.

import (
	"time"

	"github.com/rs/zerolog"

	"zsched/scheduler"
	"zsched/scheduler/spool"
)

// Loop is everything that belongs to the goroutine of Run: the core, the time of
// the current turn, and what is known about agents and files. Functions given to
// Ask receive it and must not keep it.
type Loop struct {
	core      *scheduler.Scheduler
	now       time.Time // of this turn
	startedAt time.Time
	events    []scheduler.Event // to be passed to the core
	perform   func(scheduler.Action)
	cluster   Cluster  // nil: none
	observer  Observer // nil: none
	log       zerolog.Logger
	verbose   bool

	lastOrder  uint64
	answer     scheduler.Answer   // to the last order
	undone     []scheduler.Undone // the last maxUndone orders that were not carried out
	undoneEver int                // the number of all such orders so far
	lastReload Reload

	agents agents
	intake intake
	files  files
	held   heldThreads

	restore restore
	loaded  bool // everything that was there at the start is loaded
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
	case table := <-l.restore.tables:
		d.begin()
		l.restore.read(table)
	case <-l.restore.next:
		d.begin()
		l.restore.step()
		d.finishStartup()
	case said := <-d.agentSaid:
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
	case <-d.woken():
		d.begin()
	case q := <-d.asking():
		d.begin()
		asked = true
		q.run(l)
		close(q.answered)
	}
	d.asked = asked
}

// clockStep is how far the wall clock must be ahead of the monotonic clock, or behind
// it, for the core to be told. Smaller steps do no harm.
const clockStep = 10 * time.Second

// readClock sets the time of the turn. If the wall clock was set since the last turn,
// it tells the core. A machine that slept looks as if its clock had been set forward.
func (d *Daemon) readClock() {
	l := &d.loop
	read, now := time.Now(), d.wallClock()
	by := now.Round(0).Sub(l.now.Round(0)) - read.Sub(d.readAt)
	l.now, d.readAt = now, read
	if by.Abs() >= clockStep {
		l.log.Warn().Stringer("by", by.Round(time.Second)).Msg("the clock was set; waits keep their length, and expiry follows the clock")
		l.Step(scheduler.ClockSet{By: by})
		if c := d.options.Cluster; c != nil {
			c.ClockSet()
		}
	}
}

func (d *Daemon) wallClock() time.Time {
	if d.options.WallClock != nil {
		return d.options.WallClock()
	}
	return time.Now()
}

// found returns the channel of names of control files. It is nil while enough
// files are being read, during a stop, and if the command line names the files.
func (d *Daemon) found() <-chan []spool.Name {
	l := &d.loop
	if len(l.intake.taking)-len(l.restore.parked) >= maxTaking || d.stop.begun || len(d.options.Files) > 0 {
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

// asking returns the channel of questions. It is nil in the turn after a
// question while results or agents' lines wait, so that questions, however many,
// do not delay mail.
func (d *Daemon) asking() <-chan question {
	if d.asked && len(d.agentSaid)+len(d.results()) > 0 {
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
		if l.observer != nil {
			l.observer.Event(l.now, event)
		}
		if l.verbose {
			logVerbose(&l.log, "event", event)
		}
		for _, a := range l.core.Step(l.now, event) {
			if l.observer != nil {
				l.observer.Action(l.now, a)
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
		d.timer.Reset(next.Sub(d.wallClock()))
		d.armedAt = next
	}
}
