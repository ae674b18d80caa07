// This file holds the pool of connections and its limits.

package smtp

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Limits bound the connections of a process. A limit of 0 means no limit,
// except where its comment says otherwise.
type Limits struct {
	Sessions int // open connections, including idle ones; 0: 1
	PerHost  int // open connections to one mail exchanger
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
	Forget                   time.Duration // after which the record of a host is dropped; 0: ten minutes
}

// DefaultLimits returns the limits of a process whose command line sets none.
func DefaultLimits() Limits {
	return Limits{Sessions: 1, Backlog: 1, MessageMax: 20, MessageScale: 10, Jobs: 100,
		Age: 5 * time.Minute, Idle: time.Minute, Retry: 30 * time.Second, Forget: 10 * time.Minute}
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	for _, n := range []struct{ value, otherwise *int }{{&l.Sessions, &d.Sessions}, {&l.Backlog, &d.Backlog}} {
		if *n.value <= 0 {
			*n.value = *n.otherwise
		}
	}
	for _, n := range []struct{ value, otherwise *time.Duration }{{&l.Idle, &d.Idle}, {&l.Retry, &d.Retry}, {&l.Forget, &d.Forget}} {
		if *n.value <= 0 {
			*n.value = *n.otherwise
		}
	}
	return l
}

// pool holds the connections of the process and the jobs that wait for one.
//
// Invariant: every job that was submitted and is not done is in exactly one
// conn.jobs or in waiting; at most limits.Sessions connections are open;
// messages counts the jobs in conn.jobs.
type pool struct {
	limits       Limits
	destinations Destinations
	rand         *rand.Rand
	now          func() time.Time
	start        func(*conn)        // starts the goroutine of a new connection
	fail         func(*job, choice) // ends a job for which no target works
	wake         func(*conn)        // makes an idle connection look at its jobs

	mu       sync.Mutex
	conns    []*conn            // open, or about to be opened
	hosts    map[string][]*conn // the same by target
	messages map[uint64]int     // number of jobs in hand by message
	waiting  []*job             // in the order in which they arrived
	opened   int                // connections so far
}

// job is the recipients of one message for one destination.
type job struct {
	message  uint64 // number of its control file
	domain   string // host word; a connection for another one is not used
	policy   any    // what a connection must comply with; comparable
	levels   [][]*target
	tried    map[string]bool // targets that could not be connected to for this job
	failed   *failure        // of the last of them
	since    time.Time       // when it was first submitted
	requeues int             // times it was moved off a connection that ended at once
	delivery *delivery       // nil in tests of the choice
	done     chan struct{}   // closed when all recipients are reported
}

// maxTrying is how long new connections are tried for a job. An attempt that
// began within this time may end later.
const maxTrying = 10 * time.Minute

// conn is one connection, from the moment when the pool decides to open it.
type conn struct {
	target *target
	domain string // that it was opened for; "" serves all that share the target
	policy any
	order  int   // 1, 2, … in the order of opening
	after  *conn // must be closed before this one is opened; nil: none

	spoolID string // of the message that it is opened for, for the log

	// Guarded by the pool's lock.
	jobs      []*job // the first is being worked on
	idleSince time.Time
	openedAt  time.Time
	finished  int           // number of jobs
	gone      chan struct{} // closed when the connection is closed
	waiting   *session      // set while the connection's goroutine waits in a read, which wake interrupts
	parked    *session      // set while it can be lent to the goroutine that brings a job
	returned  chan error    // ends the parking: nil, or why the connection is to be closed
}

// serves reports whether a connection may be used for a job.
func (c *conn) serves(j *job) bool {
	return c.policy == j.policy && (c.domain == "" || c.domain == j.domain)
}

// submit finds a connection for a job, or makes it wait for one. If the connection
// is parked, it is lent to the caller, who does the job.
func (p *pool) submit(j *job) (lent *conn, s *session) {
	p.mu.Lock()
	if j.since.IsZero() {
		j.since = p.now()
	}
	d := p.assignAll(j)
	p.mu.Unlock()
	p.perform(d)
	return d.lent, d.session
}

// decisions are what assignAll has decided. perform carries them out without the
// lock.
type decisions struct {
	started []*conn
	failed  []failedJob
	lent    *conn    // for the job that is being submitted; nil: none
	session *session // of lent
}

// failedJob is a job for which there is no target.
type failedJob struct {
	job    *job
	choice choice
}

// assignAll assigns the waiting jobs, and then the one that is being submitted, if
// it is not nil. p.mu is held.
func (p *pool) assignAll(submitted *job) (d decisions) {
	all := p.waiting
	if submitted != nil {
		all = append(all, submitted)
	}
	p.waiting = nil
	for _, j := range all {
		switch c := p.choose(j, p.now()); c.kind {
		case ride:
			p.assign(c.conn, j)
			if s := c.conn.parked; s != nil && j == submitted {
				c.conn.parked, d.lent, d.session = nil, c.conn, s
			} else {
				p.wake(c.conn)
			}
		case open:
			d.started = append(d.started, p.open(c, j))
		case wait:
			p.waiting = append(p.waiting, j)
		case none:
			d.failed = append(d.failed, failedJob{j, c})
		}
	}
	return d
}

func (p *pool) perform(d decisions) {
	for _, c := range d.started {
		p.start(c)
	}
	for _, f := range d.failed {
		p.fail(f.job, f.choice)
	}
}

func (p *pool) assign(c *conn, j *job) {
	c.jobs = append(c.jobs, j)
	p.messages[j.message]++
}

// open makes a connection for a job. The connection that it replaces is told to
// close.
func (p *pool) open(c choice, j *job) *conn {
	p.opened++
	k := &conn{target: c.target, domain: j.domain, policy: j.policy, order: p.opened,
		openedAt: p.now(), after: c.evict, gone: make(chan struct{}), returned: make(chan error, 1)}
	if c.evict != nil {
		p.unlink(c.evict)
		p.wake(c.evict)
	}
	p.conns = append(p.conns, k)
	p.hosts[k.target.name] = append(p.hosts[k.target.name], k)
	p.assign(k, j)
	return k
}

// unlink removes a connection from those that can be chosen.
func (p *pool) unlink(c *conn) {
	same := func(k *conn) bool { return k == c }
	p.conns = slices.DeleteFunc(p.conns, same)
	name := c.target.name
	if p.hosts[name] = slices.DeleteFunc(p.hosts[name], same); len(p.hosts[name]) == 0 {
		delete(p.hosts, name)
	}
}

// linked reports whether a connection may still be chosen.
func (p *pool) linked(c *conn) bool { return slices.Contains(p.hosts[c.target.name], c) }

// connected records that a target works.
func (p *pool) connected(c *conn) {
	p.changeRecord(c.target.name, func(r *Record) {
		*r = Record{OpenedAt: c.openedAt, NoChunking: r.NoChunking}
	})
}

// changeRecord changes the record of a target.
func (p *pool) changeRecord(target string, change func(*Record)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	r, _ := p.destinations.Find(target, now)
	change(&r)
	p.destinations.Note(target, r, now.Add(p.limits.Forget))
}

// record returns the record of a target.
func (p *pool) record(target string) Record {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, _ := p.destinations.Find(target, p.now())
	return r
}

// refused records that a connection could not be opened. Its jobs get another
// target.
func (p *pool) refused(c *conn, f *failure) {
	p.mu.Lock()
	now := p.now()
	if !f.policy {
		r, _ := p.destinations.Find(c.target.name, now)
		r.RetryAt, r.Failure = now.Add(p.limits.Retry), f.text
		p.destinations.Note(c.target.name, r, now.Add(p.limits.Forget))
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
	p.mu.Unlock()
	p.closed(c)
}

// closed removes a closed connection from the pool. Its remaining jobs are
// assigned again, before those that wait.
func (p *pool) closed(c *conn) {
	p.mu.Lock()
	p.unlink(c)
	if r, known := p.destinations.Find(c.target.name, p.now()); known {
		p.destinations.Note(c.target.name, r, p.now().Add(p.limits.Forget))
	}
	left := c.jobs
	for _, j := range left {
		p.unassign(j)
	}
	c.jobs = nil
	p.waiting = append(left, p.waiting...)
	close(c.gone)
	d := p.assignAll(nil)
	p.mu.Unlock()
	p.perform(d)
}

func (p *pool) unassign(j *job) {
	if p.messages[j.message]--; p.messages[j.message] <= 0 {
		delete(p.messages, j.message)
	}
}

// finish removes the finished job from its connection and reports whether the
// connection may do another one. It may not if it is broken (not good), or if it
// has reached the limit Jobs or Age.
func (p *pool) finish(c *conn, good bool) (goOn bool) {
	p.mu.Lock()
	p.unassign(c.jobs[0])
	c.jobs = c.jobs[1:]
	c.finished++
	now := p.now()
	old := p.limits.Jobs > 0 && c.finished >= p.limits.Jobs || p.limits.Age > 0 && now.Sub(c.openedAt) >= p.limits.Age
	goOn = good && !old
	var d decisions
	if goOn {
		c.idleSince = now
		d = p.assignAll(nil)
	}
	p.mu.Unlock()
	p.perform(d)
	return goOn
}

// next returns the job to work on; nil if the connection is idle.
func (p *pool) next(c *conn) *job {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(c.jobs) == 0 {
		return nil
	}
	return c.jobs[0]
}
