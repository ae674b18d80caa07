// This file holds the choice of a connection for a job.

package smtp

import (
	"slices"
	"time"
)

// choice is the decision for a job. The rules, and the words ride, widen, backlog and
// victim, are those of Tony Finch, "Notes on an MTA scheduler" (28 February 2007), with
// the simplification that he proposes at the end: nothing is kept of closed connections, and
// a target that failed is like any other after its time. To ride is to use a connection that
// is open already. To widen is to use one more connection for a message. The backlog is the
// number of jobs that a connection has in hand. The victim is the idle connection that is
// closed for a new one. His job is our job, his worker our connection, and his
// destination our target, a mail exchanger.
//
// A connection is active if it has work in hand, else idle. A target that could not be
// connected to, and may not yet be tried again, gets no new connection. The first rule that
// applies decides:
//
//	the newest active connection below the backlog   ride
//	(the message has enough connections)             ride on an active one, or wait
//	the newest idle connection                       ride
//	(no connection is free or idle)                  ride, or wait
//	the target with the fewest connections           open
//	(no target works)                                try the next level
//	(there is no further level)                      none
type choice struct {
	kind   choiceKind
	conn   *conn   // ride: the connection
	target *target // open: where
	victim *conn   // open: the idle connection to close first; nil: none
}

type choiceKind uint8

const (
	none choiceKind = iota // no target works: the job is deferred
	ride                   // use an open connection
	open                   // open a connection
	wait                   // for a free connection
)

// classes are the targets of one level that a job may open connections to, and the
// connections to any of them that it may use.
type classes struct {
	active, idle []*conn // newest first
	targets      []*target
}

// choose decides for a job. p.mu is held.
func (p *pool) choose(j *job, now time.Time) choice {
	for _, level := range j.levels {
		if found := p.chooseAmong(j, p.classify(j, level, now)); found.kind != none {
			return found
		}
	}
	return choice{kind: none}
}

// classify puts the targets of a level and their connections into classes.
func (p *pool) classify(j *job, level []*target, now time.Time) *classes {
	c := &classes{}
	for _, t := range level {
		for _, k := range p.hosts[t.name] {
			switch {
			case !k.serves(j):
			case len(k.jobs) > 0:
				c.active = append(c.active, k)
			default:
				c.idle = append(c.idle, k)
			}
		}
		if !j.tried[t.name] && !now.Before(p.dead[t.name].until) {
			c.targets = append(c.targets, t)
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
	switch {
	case len(c.active)+len(c.idle)+len(c.targets) == 0:
		return choice{kind: none}
	case !p.mayWiden(j):
		return spread(c.active)
	case len(c.idle) > 0:
		return choice{kind: ride, conn: c.idle[0]}
	case len(c.targets) == 0 || p.free() == 0:
		return spread(c.active)
	}
	return choice{kind: open, target: p.fewest(c.targets), victim: p.victim()}
}

// fewest picks one of the targets with the fewest connections at random. So the connections
// are spread over all targets, before any has two.
func (p *pool) fewest(among []*target) *target {
	var found []*target
	for _, t := range among {
		if len(found) > 0 && len(p.hosts[t.name]) < len(p.hosts[found[0].name]) {
			found = found[:0]
		}
		if len(found) == 0 || len(p.hosts[t.name]) == len(p.hosts[found[0].name]) {
			found = append(found, t)
		}
	}
	return found[p.rand.IntN(len(found))]
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
	n := p.messages[j.id]
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

// victim returns the connection that has been idle longest if no more can be opened; nil
// if there is room.
func (p *pool) victim() *conn {
	if len(p.conns) < p.limits.Sessions {
		return nil
	}
	var found *conn
	for _, k := range p.conns {
		if len(k.jobs) == 0 && (found == nil || k.idleSince.Before(found.idleSince)) {
			found = k
		}
	}
	return found
}
