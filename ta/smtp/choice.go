// This file holds the choice of a connection for a job.

package smtp

import (
	"slices"
	"time"
)

// choice is the decision for a job. The rules, and the words ride, widen, backlog and
// victim, are those of Tony Finch, "Notes on an MTA scheduler" (28 February 2007). To
// ride is to use a connection that is open already. To widen is to use one more
// connection for a message. The backlog is the number of jobs that a connection has
// in hand. The victim is the idle connection that is closed for a new one. His job is
// our job, his worker our connection, and his destination our target, a mail
// exchanger.
//
// Each target of a level is in one class:
//
//	active   it has connections with work in hand
//	idle     it has connections without
//	closed   it has no connections now, but the last one could be opened
//	unused   nothing is known about it
//	retry    it could not be connected to, and may be tried again
//
// A target that could not be connected to, and may not yet be tried again, drops
// out. The first rule that applies decides:
//
//	the newest active connection below the backlog   ride
//	(the message has enough connections)             ride on an active one, or wait
//	the newest idle connection                       ride
//	(no connection is free or idle)                  ride, or wait
//	an unused target, at random                      open
//	the closed target opened longest ago             open
//	a target that may be retried, at random          open
//	the target with the fewest connections           open one more
//	(all targets have their maximum)                 ride
//	(no target works)                                try the next level
//	(there is no further level)                      none
type choice struct {
	kind   choiceKind
	conn   *conn     // ride: the connection
	target *target   // open: where
	evict  *conn     // open: the idle connection to close first; nil: none
	until  time.Time // none: when a target may be tried again; zero: not known
	name   string    // none: of that target
	why    string    // none: why it could not be connected to
}

type choiceKind uint8

const (
	none choiceKind = iota // no target works: the job is deferred
	ride                   // use an open connection
	open                   // open a connection
	wait                   // for a free connection
)

// classes are the targets of one level and their connections.
type classes struct {
	active, idle []*conn // newest first
	// Targets without a connection that this job can use.
	closed, unused, retry []*target
	opened                map[*target]time.Time // when those in closed were last connected to
	busy                  []*target             // with active connections, and may have more
	full                  bool                  // a target dropped out because of Limits.PerHost
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

// classify puts the targets of a level into classes. From those that drop out, it
// sets until and why of nothing, the choice if no target works.
func (p *pool) classify(j *job, level []*target, now time.Time, nothing *choice) *classes {
	c := &classes{opened: map[*target]time.Time{}}
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
				nothing.until, nothing.name, nothing.why = record.RetryAt, t.name, record.Failure
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

func (p *pool) chooseAmong(j *job, c *classes) choice {
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

// newTarget picks the target to open a connection to; nil if there is none.
func (p *pool) newTarget(c *classes) *target {
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

// spread decides for a job that gets no connection of its own. It rides on the
// first active connection that has fewer jobs than the newest one, else on the
// newest. Without an active connection it waits.
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

// mayWiden reports whether the job's message may use one more connection: it has
// few, or few in proportion to the free ones.
func (p *pool) mayWiden(j *job) bool {
	n := p.messages[j.message]
	return p.limits.MessageMax <= 0 || n < p.limits.MessageMax || n < p.limits.MessageScale*p.free()
}

// free counts the connections that are idle or could be opened.
func (p *pool) free() int {
	busy := 0
	for _, k := range p.conns {
		if len(k.jobs) > 0 {
			busy++
		}
	}
	return p.limits.Sessions - busy
}

// hasRoom reports whether a connection can be opened, if necessary after closing
// an idle one.
func (p *pool) hasRoom() bool {
	return len(p.conns) < p.limits.Sessions || p.free() > 0
}

// hostHasRoom reports the same for one exchanger.
func (p *pool) hostHasRoom(t *target) bool {
	there := p.hosts[t.name]
	return p.limits.PerHost <= 0 || len(there) < p.limits.PerHost ||
		slices.ContainsFunc(there, func(k *conn) bool { return len(k.jobs) == 0 })
}

// victim returns the idle connection to close for a new one: the one that has been
// idle longest, among those to the same host if the host has no room, else among
// all. It is nil if none has to be closed.
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
