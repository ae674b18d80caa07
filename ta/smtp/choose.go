package smtp

import (
	"slices"
	"time"
)

// The choice of a connection for a job is that of Tony Finch's "Notes on an
// MTA scheduler". A job is one message's recipients at one place, a worker is
// a connection, a destination is a mail exchanger. The targets of each level
// are classed:
//
//	active   it has connections with work in hand
//	idle     it has connections without
//	closed   it was connected to and works
//	unused   nothing is known of it
//	retry    it could not be connected to, and may be tried again
//
// and one that could not be connected to and is not yet to be tried again
// drops out. Then the first rule that finds something decides:
//
//	the newest active connection below the backlog threshold
//	(the message has enough connections)      ride on an active one, or wait
//	the newest idle connection
//	(no connection is free, nor idle)         ride, or wait
//	an unused target, by chance               open
//	the closed target opened longest ago      open
//	a target that may be retried, by chance   open
//	the target with fewest connections        open one more
//	(all have as many as they may)            ride
//	nothing works                             the next level
//	no further level                          none
type choice struct {
	kind   choiceKind
	conn   *conn     // ride: on this one
	target *target   // open: there
	evict  *conn     // open: after this idle one is closed, if not nil
	until  time.Time // none: when one of the targets may be tried again, if known
	why    string    // none: why it could not be connected to, if known
}

type choiceKind uint8

const (
	none choiceKind = iota // no target works: the job is deferred
	ride                   // give it to an open connection
	open                   // open a connection
	wait                   // until a connection is free
)

// class holds the targets of one level and their connections.
type class struct {
	active, idle []*conn // newest first
	// Targets without a connection that this job can use.
	closed, unused, retry []*target
	opened                map[*target]time.Time // of those in closed
	busy                  []*target             // targets with active connections that may have more
	full                  bool                  // one dropped out for the limit of its host
}

// choose decides for a job. p.mu is held.
func (p *pool) choose(j *job, now time.Time) choice {
	nothing := choice{kind: none}
	for _, level := range j.levels {
		c := p.classify(j, level, now, &nothing)
		if found := p.chooseAmong(j, c); found.kind != none {
			return found
		}
	}
	return nothing
}

// classify looks at the targets of a level. What it learns of the ones that
// drop out goes into nothing.
func (p *pool) classify(j *job, level []*target, now time.Time, nothing *choice) *class {
	c := &class{opened: map[*target]time.Time{}}
	for _, t := range level {
		open, active := 0, false
		for _, k := range p.hosts[t.name] {
			if !k.serves(j) {
				continue
			}
			open++
			if len(k.jobs) > 0 {
				c.active, active = append(c.active, k), true
			} else {
				c.idle = append(c.idle, k)
			}
		}
		record, known := p.destinations.Find(t.name, now)
		out := j.tried[t.name] || known && now.Before(record.RetryAt)
		if active && !out {
			c.busy = append(c.busy, t)
		}
		if open > 0 {
			continue
		}
		switch {
		case j.tried[t.name]:
		case out:
			if nothing.until.IsZero() || record.RetryAt.Before(nothing.until) {
				nothing.until, nothing.why = record.RetryAt, record.Failure
			}
		case !p.hostHasRoom(t):
			c.full = true
		case !known || record.OpenedAt.IsZero() && record.RetryAt.IsZero():
			c.unused = append(c.unused, t)
		case !record.RetryAt.IsZero():
			c.retry = append(c.retry, t)
		default:
			c.closed = append(c.closed, t)
			c.opened[t] = record.OpenedAt
		}
	}
	newest := func(a, b *conn) int { return b.order - a.order }
	slices.SortFunc(c.active, newest)
	slices.SortFunc(c.idle, newest)
	return c
}

func (p *pool) chooseAmong(j *job, c *class) choice {
	for _, k := range c.active {
		if len(k.jobs) < p.limits.Backlog {
			return choice{kind: ride, conn: k}
		}
	}
	works := len(c.active)+len(c.idle)+len(c.closed)+len(c.unused)+len(c.retry) > 0 || c.full
	switch {
	case !works:
		return choice{kind: none}
	case !p.mayWiden(j):
		return spread(c.active)
	case len(c.idle) > 0:
		return choice{kind: ride, conn: c.idle[0]}
	}
	if !p.hasRoom() {
		return spread(c.active)
	}
	t := p.newTarget(c)
	if t == nil {
		return spread(c.active)
	}
	return choice{kind: open, target: t, evict: p.victim(t)}
}

// newTarget picks where to open a connection; nil if nowhere.
func (p *pool) newTarget(c *class) *target {
	switch {
	case len(c.unused) > 0:
		return c.unused[p.rand.IntN(len(c.unused))]
	case len(c.closed) > 0:
		return slices.MinFunc(c.closed, func(a, b *target) int { return c.opened[a].Compare(c.opened[b]) })
	case len(c.retry) > 0:
		return c.retry[p.rand.IntN(len(c.retry))]
	}
	var fewest []*target
	for _, t := range c.busy {
		if !p.hostHasRoom(t) {
			continue
		}
		if len(fewest) > 0 && len(p.hosts[t.name]) < len(p.hosts[fewest[0].name]) {
			fewest = fewest[:0]
		}
		if len(fewest) == 0 || len(p.hosts[t.name]) == len(p.hosts[fewest[0].name]) {
			fewest = append(fewest, t)
		}
	}
	if len(fewest) == 0 {
		return nil
	}
	return fewest[p.rand.IntN(len(fewest))]
}

// spread gives a job that gets no connection of its own a ride: on the first
// connection with fewer jobs than the newest, else on that. Without one it
// waits.
func spread(active []*conn) choice {
	if len(active) == 0 {
		return choice{kind: wait}
	}
	for _, k := range active {
		if len(k.jobs) < len(active[0].jobs) {
			return choice{kind: ride, conn: k}
		}
	}
	return choice{kind: ride, conn: active[0]}
}

// mayWiden says that the job's message may have one connection more: while it
// has few, or few in proportion to what is free.
func (p *pool) mayWiden(j *job) bool {
	n := p.messages[j.message]
	return p.limits.MessageMax <= 0 || n < p.limits.MessageMax || n < p.limits.MessageScale*p.free()
}

// free counts the connections that could be opened or are idle.
func (p *pool) free() int {
	busy := 0
	for _, k := range p.conns {
		if len(k.jobs) > 0 {
			busy++
		}
	}
	return p.limits.Sessions - busy
}

// hasRoom says that a connection can be opened, if need be by closing an idle
// one.
func (p *pool) hasRoom() bool {
	return len(p.conns) < p.limits.Sessions || p.free() > 0
}

// hostHasRoom is the same for one exchanger.
func (p *pool) hostHasRoom(t *target) bool {
	there := p.hosts[t.name]
	return p.limits.PerHost <= 0 || len(there) < p.limits.PerHost ||
		slices.ContainsFunc(there, func(k *conn) bool { return len(k.jobs) == 0 })
}

// victim is the idle connection to close for a new one: one to the same host
// where that has no room, else the one that has been idle longest.
func (p *pool) victim(t *target) *conn {
	among := p.conns
	switch {
	case p.limits.PerHost > 0 && len(p.hosts[t.name]) >= p.limits.PerHost:
		among = p.hosts[t.name]
	case len(p.conns) < p.limits.Sessions:
		return nil
	}
	var found *conn
	for _, k := range among {
		if len(k.jobs) == 0 && (found == nil || k.idleSince.Before(found.idleSince)) {
			found = k
		}
	}
	return found
}
