// This file holds the pool of connections, and the jobs that wait for one.

package smtp

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Limits bound the connections of a process. A limit of 0 means no limit,
// except where its comment says otherwise.
type Limits struct {
	Sessions int // open connections, including idle ones; 0: 1
	// Backlog is how many jobs a connection has in hand before another one is
	// opened. 0: 1, because the scheduler's window already decides how many
	// messages are delivered at once.
	Backlog int
	// A message may always have MessageMax connections. It may have more as long
	// as it has fewer than MessageScale times the number of free ones.
	MessageMax, MessageScale int
	Jobs                     int           // jobs after which a connection is closed
	Age                      time.Duration // after which a connection in use is closed
	Idle                     time.Duration // after which an idle connection is closed; 0: a minute
	Retry                    time.Duration // after which a host that failed may be tried again; 0: half a minute
}

// DefaultLimits returns the limits of a process whose command line sets none.
func DefaultLimits() Limits {
	return Limits{Sessions: 1, Backlog: 1, MessageMax: 20, MessageScale: 10, Jobs: 100,
		Age: 5 * time.Minute, Idle: time.Minute, Retry: 30 * time.Second}
}

// pool holds the connections of the process and the jobs that wait for one. It opens and
// uses none: it tells the goroutine of each job what to do (job.turn).
//
// Invariant: every job that was submitted and is not done is in exactly one
// conn.jobs or in waiting; at most limits.Sessions connections are open;
// messages counts the jobs in conn.jobs. Only the first job of a connection uses it.
type pool struct {
	limits Limits
	rand   *rand.Rand
	now    func() time.Time

	mu       sync.Mutex
	conns    []*conn            // open, or about to be opened
	hosts    map[string][]*conn // the same by target
	messages map[uint64]int     // number of jobs in hand by message
	waiting  []*job             // in the order in which they arrived
	dead     map[string]dead    // targets that could not be connected to
	opened   int                // connections so far
}

// dead says until when a target is not tried again, and why it could not be connected to.
type dead struct {
	until time.Time
	why   string
}

// maxDead is how many dead targets are kept before those whose time has passed are dropped.
const maxDead = 1000

func newPool(l Limits, r *rand.Rand) *pool {
	d := DefaultLimits()
	l.Sessions, l.Backlog = max(l.Sessions, d.Sessions), max(l.Backlog, d.Backlog)
	l.Idle, l.Retry = cmp.Or(max(l.Idle, 0), d.Idle), cmp.Or(max(l.Retry, 0), d.Retry)
	return &pool{limits: l, rand: r, now: time.Now, hosts: map[string][]*conn{},
		messages: map[uint64]int{}, dead: map[string]dead{}}
}

// maxTrying is how long new connections are tried for a job. An attempt that
// began within this time may end later.
const maxTrying = 10 * time.Minute

// conn is one connection, from the moment when the pool decides to open it. Its first job
// opens it, and closes it when the pool says so:
//
//	          opened            job               job
//	opening ──────────► working ─────► idle ──────────► working …
//	   │ refused         │ broken       │ its end was seen, or
//	   ▼                 ▼ aged         ▼ its time is over, or it gives way
//	 gone ◄──────────────┴──────────────┘
type conn struct {
	target *target
	domain string // that it was opened for; "" serves all that share the target
	policy Policy
	order  int   // 1, 2, … in the order of opening
	victim *conn // idle connection that the opener closes first; nil: none

	session *session    // nil: not opened yet. Only the first job uses it
	timer   *time.Timer // ends the idle time

	// Guarded by the pool's lock.
	jobs      []*job // the first is being worked on
	idleSince time.Time
	openedAt  time.Time
	finished  int // number of jobs
}

// serves reports whether a connection may be used for a job.
func (c *conn) serves(j *job) bool {
	return c.policy == j.policy && (c.domain == "" || c.domain == j.domain)
}

// submit finds a connection for a job, or makes it wait for one.
func (p *pool) submit(j *job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	j.since = p.now()
	p.waiting = append(p.waiting, j)
	p.assignAll()
}

// assignAll assigns the waiting jobs. p.mu is held.
func (p *pool) assignAll() {
	all := p.waiting
	p.waiting = nil
	for _, j := range all {
		switch c := p.choose(j, p.now()); c.kind {
		case ride:
			p.assign(c.conn, j)
		case open:
			p.assign(p.open(c, j), j)
		case wait:
			p.waiting = append(p.waiting, j)
		case none:
			j.turn <- nil
		}
	}
}

// assign adds a job to those that a connection has in hand.
func (p *pool) assign(c *conn, j *job) {
	c.jobs = append(c.jobs, j)
	p.messages[j.id]++
	if len(c.jobs) == 1 {
		j.turn <- c
	}
}

// open makes a connection for a job.
func (p *pool) open(c choice, j *job) *conn {
	p.opened++
	k := &conn{target: c.target, domain: j.domain, policy: j.policy, order: p.opened, openedAt: p.now(), victim: c.victim}
	if c.victim != nil {
		p.unlink(c.victim)
	}
	p.conns = append(p.conns, k)
	p.hosts[k.target.name] = append(p.hosts[k.target.name], k)
	return k
}

// unlink removes a connection from those that can be chosen. It returns false if it was
// removed before.
func (p *pool) unlink(c *conn) bool {
	same := func(k *conn) bool { return k == c }
	if !slices.ContainsFunc(p.conns, same) {
		return false
	}
	p.conns = slices.DeleteFunc(p.conns, same)
	name := c.target.name
	if p.hosts[name] = slices.DeleteFunc(p.hosts[name], same); len(p.hosts[name]) == 0 {
		delete(p.hosts, name)
	}
	return true
}

// connected records that a target works.
func (p *pool) connected(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.dead, c.target.name)
}

// refused records that a connection could not be opened. Its jobs get another
// target.
func (p *pool) refused(c *conn, f *failure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if !f.policy {
		if len(p.dead) >= maxDead {
			for name, d := range p.dead {
				if !now.Before(d.until) {
					delete(p.dead, name)
				}
			}
		}
		p.dead[c.target.name] = dead{now.Add(p.limits.Retry), f.text}
	}
	for _, j := range c.jobs {
		if now.Sub(j.since) > maxTrying {
			j.levels = nil
		}
		if j.tried == nil {
			j.tried = map[string]bool{}
		}
		j.tried[c.target.name], j.failed = true, f
	}
	p.drop(c)
}

// closed removes a connection that can no longer be used.
func (p *pool) closed(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(c)
}

// drop removes a connection. Its remaining jobs are assigned again, before those that wait.
// p.mu is held.
func (p *pool) drop(c *conn) {
	p.unlink(c)
	left := c.jobs
	for _, j := range left {
		p.unassign(j)
	}
	c.jobs = nil
	p.waiting = append(left, p.waiting...)
	p.assignAll()
}

func (p *pool) unassign(j *job) {
	if p.messages[j.id]--; p.messages[j.id] <= 0 {
		delete(p.messages, j.id)
	}
}

// finish removes the finished job from its connection, which its next job gets. It returns
// false if the caller is to close the connection: it is broken (not good), or has reached
// the limit Jobs or Age.
func (p *pool) finish(c *conn, good bool) (goOn bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unassign(c.jobs[0])
	c.jobs = c.jobs[1:]
	c.finished++
	now := p.now()
	old := p.limits.Jobs > 0 && c.finished >= p.limits.Jobs || p.limits.Age > 0 && now.Sub(c.openedAt) >= p.limits.Age
	if !good || old {
		p.drop(c)
		return false
	}
	if c.idleSince = now; len(c.jobs) > 0 {
		c.jobs[0].turn <- c
	}
	if len(p.waiting) > 0 {
		p.assignAll()
	}
	return true
}

// expire removes a connection that has been idle for the time limit. Otherwise it returns
// how long the rest of that time is; 0: the connection is in use, or was removed before.
func (p *pool) expire(c *conn) (expired bool, rest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(c.jobs) > 0 {
		return false, 0
	}
	if rest = p.limits.Idle - p.now().Sub(c.idleSince); rest > 0 {
		return false, rest
	}
	return p.unlink(c), 0
}

// deadTarget returns that dead target of a job which may be tried again first; "": none is
// dead.
func (p *pool) deadTarget(j *job) (name string, d dead) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, level := range j.levels {
		for _, t := range level {
			if found, ok := p.dead[t.name]; ok && (name == "" || found.until.Before(d.until)) {
				name, d = t.name, found
			}
		}
	}
	return name, d
}
