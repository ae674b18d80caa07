package daemon

import (
	"os"
	"time"

	"zsched/scheduler"
	"zsched/scheduler/spool"
)

// turn waits for one thing and deals with it.
func (d *Daemon) turn() {
	if d.asked {
		d.asked = false
		if d.others() {
			return
		}
	}
	select {
	case names := <-d.gate():
		d.foundNames(names)
	case results := <-d.results():
		d.spoolAnswered(results)
	case h := <-d.heard:
		d.agentSaid(h)
	case s := <-d.starts:
		d.startEnded(s)
	case sig := <-d.Signals:
		d.signalled(sig)
	case r := <-d.reload.done:
		d.reloadEnded(r)
	case <-d.timer.C:
		d.timeCame()
	case q := <-d.questions:
		d.now = time.Now()
		d.answer(q)
	}
}

// others deals with one thing that is ready and no question, if there is one.
func (d *Daemon) others() bool {
	select {
	case names := <-d.gate():
		d.foundNames(names)
	case results := <-d.results():
		d.spoolAnswered(results)
	case h := <-d.heard:
		d.agentSaid(h)
	case s := <-d.starts:
		d.startEnded(s)
	case sig := <-d.Signals:
		d.signalled(sig)
	case r := <-d.reload.done:
		d.reloadEnded(r)
	case <-d.timer.C:
		d.timeCame()
	default:
		return false
	}
	return true
}

func (d *Daemon) foundNames(names []spool.Name) {
	d.now = time.Now()
	d.take(names)
}

func (d *Daemon) spoolAnswered(results []spool.Result) {
	d.now = time.Now()
	if len(results) > turnLimit {
		d.more <- results[turnLimit:]
		results = results[:turnLimit]
	}
	d.tally.spokeAt = d.now
	for _, r := range results {
		d.result(r)
	}
	d.finishStartup()
}

func (d *Daemon) agentSaid(h heard) {
	d.now = time.Now()
	for _, e := range h.events {
		d.step(e)
	}
	if h.exited {
		delete(d.agents, h.agent)
	}
}

func (d *Daemon) startEnded(s started) {
	d.now = time.Now()
	d.agentStarted(s)
}

func (d *Daemon) signalled(sig os.Signal) {
	d.now = time.Now()
	d.signal(sig)
}

func (d *Daemon) reloadEnded(r reloaded) {
	d.now = time.Now()
	d.reloaded(r)
}

func (d *Daemon) timeCame() {
	d.now = time.Now()
	d.armedAt = time.Time{}
	d.step(scheduler.Tick{})
}

// results is where results come from: what was left of the last ones first.
func (d *Daemon) results() <-chan []spool.Result {
	if len(d.more) > 0 {
		return d.more
	}
	return d.Spool.Results()
}
