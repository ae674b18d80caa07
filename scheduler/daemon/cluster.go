package daemon

import (
	"time"

	"zsched/scheduler"
)

// Cluster is what the loop needs of the other nodes; *cluster.Node is one. Its
// methods do not wait. All but Woken are called in the loop.
type Cluster interface {
	// Perform takes the actions Want, Draw and Destination.
	Perform(a scheduler.Action)
	// Woken says that the store has answered.
	Woken() <-chan struct{}
	// Turn is called when a turn begins, before anything else is given to the core,
	// so that nothing is started with an allowance that has expired. Flush is called at
	// the end of a turn. Both return events for the core.
	Turn(now time.Time) []scheduler.Event
	Flush() []scheduler.Event
	// Nodes returns the names of the other nodes, which the state file keeps. Remember
	// is called once at the start, with those that an earlier process has kept.
	Nodes() []string
	Remember(nodes []string)
	// Next is the time of the next turn, if nothing else happens first.
	Next() time.Time
}

// remember tells the cluster which nodes an earlier process knew.
func (l *Loop) remember(nodes []string) {
	if l.cluster != nil {
		l.cluster.Remember(nodes)
	}
}

// nodes returns the names of the other nodes of the cluster. The list may be empty; it
// is nil only if there is no cluster.
func (l *Loop) nodes() []string {
	if l.cluster == nil {
		return nil
	}
	return append([]string{}, l.cluster.Nodes()...)
}

// begin begins a turn, when something has happened.
func (d *Daemon) begin() {
	d.readClocks()
	d.beginCluster()
}

func (d *Daemon) beginCluster() {
	if c := d.options.Cluster; c != nil {
		d.loop.stepAll(c.Turn(d.loop.now))
	}
}

func (l *Loop) stepAll(events []scheduler.Event) {
	for _, e := range events {
		l.Step(e)
	}
}

// flushCluster sends the store what the turn has changed. The events that come back
// apply before anything else happens.
func (d *Daemon) flushCluster() {
	c := d.options.Cluster
	if c == nil {
		return
	}
	for events := c.Flush(); len(events) > 0; events = c.Flush() {
		d.loop.stepAll(events)
	}
}

// woken returns the channel on which the cluster says that it has events.
func (d *Daemon) woken() <-chan struct{} {
	if d.options.Cluster == nil {
		return nil
	}
	return d.options.Cluster.Woken()
}

// nextTurn is when the core or the cluster wants a turn.
func (d *Daemon) nextTurn() (time.Time, bool) {
	next, ok := d.loop.core.Next()
	if c := d.options.Cluster; c != nil {
		if at := c.Next(); !ok || at.Before(next) {
			return at, true
		}
	}
	return next, ok
}
