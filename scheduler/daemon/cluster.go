package daemon

// The cluster: what the loop passes on between the core and the other nodes.

import (
	"time"

	"zsched/scheduler"
)

// Cluster is what the loop needs of the other nodes; *cluster.Node is one. Its
// methods do not wait. All but Woken are called in the loop.
type Cluster interface {
	// Perform takes the actions Want and Destination.
	Perform(a scheduler.Action)
	// Woken says that the store has answered.
	Woken() <-chan struct{}
	// Turn is called when a turn begins, before anything else is given to the core,
	// so that nothing is started with an allowance that has expired. Flush is called at
	// the end of a turn. Both return events for the core.
	Turn(now time.Time) []scheduler.Event
	Flush() []scheduler.Event
	// Next is the time of the next turn, if nothing else happens first; zero: there is none.
	Next() time.Time
}

// alone is the Cluster of a scheduler without other nodes.
type alone struct{}

func (alone) Perform(scheduler.Action)         {}
func (alone) Woken() <-chan struct{}           { return nil }
func (alone) Turn(time.Time) []scheduler.Event { return nil }
func (alone) Flush() []scheduler.Event         { return nil }
func (alone) Next() time.Time                  { return time.Time{} }

// begin begins a turn, when something has happened.
func (d *Daemon) begin() {
	d.readClocks()
	d.loop.stepAll(d.options.Cluster.Turn(d.loop.now))
}

func (l *Loop) stepAll(events []scheduler.Event) {
	for _, e := range events {
		l.Step(e)
	}
}

// flushCluster sends the store what the turn has changed. The events that come back
// apply before anything else happens.
func (d *Daemon) flushCluster() {
	for events := d.options.Cluster.Flush(); len(events) > 0; events = d.options.Cluster.Flush() {
		d.loop.stepAll(events)
	}
}

// nextTurn is when the core or the cluster wants a turn.
func (d *Daemon) nextTurn() (time.Time, bool) {
	next, ok := d.loop.core.Next()
	if at := d.options.Cluster.Next(); !at.IsZero() && (!ok || at.Before(next)) {
		return at, true
	}
	return next, ok
}
