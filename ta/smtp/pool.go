package smtp

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Limits bound the connections of a process. A limit of 0 is none, except
// where it says otherwise.
type Limits struct {
	Sessions int // connections open at once, idle ones too; 0: 1
	PerHost  int // of them to one mail exchanger
	// Backlog is how many jobs a connection has in hand before another one is
	// opened; 0: 1, since the scheduler's window has already said how many
	// messages are to be under way.
	Backlog int
	// A message has as many connections as it likes up to MessageMax, and
	// beyond that up to MessageScale times those that are free.
	MessageMax, MessageScale int
	Jobs                     int           // jobs after which a connection is closed
	Age                      time.Duration // after which a connection with work is closed
	Idle                     time.Duration // after which one without is; 0: a minute
	Retry                    time.Duration // after which a host that failed is tried again; 0: half a minute
	Forget                   time.Duration // after which nothing is known of a host; 0: ten minutes
}

// DefaultLimits are those of a process that is told nothing.
func DefaultLimits() Limits {
	return Limits{Sessions: 1, Backlog: 1, MessageMax: 20, MessageScale: 10, Jobs: 100,
		Age: 5 * time.Minute, Idle: time.Minute, Retry: 30 * time.Second, Forget: 10 * time.Minute}
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	for _, n := range []struct{ to, otherwise *int }{{&l.Sessions, &d.Sessions}, {&l.Backlog, &d.Backlog}} {
		if *n.to <= 0 {
			*n.to = *n.otherwise
		}
	}
	for _, n := range []struct{ to, otherwise *time.Duration }{{&l.Idle, &d.Idle}, {&l.Retry, &d.Retry}, {&l.Forget, &d.Forget}} {
		if *n.to <= 0 {
			*n.to = *n.otherwise
		}
	}
	return l
}

// pool is the connections of the process and the jobs that want one.
//
// Invariant: every job that was placed and is not done is in exactly one
// conn.jobs or in waiting; no more than limits.Sessions connections are open;
// messages counts the jobs in conn.jobs.
type pool struct {
	limits       Limits
	destinations Destinations
	rand         *rand.Rand
	now          func() time.Time
	start        func(*conn)        // begins to work for a connection just opened
	fail         func(*job, choice) // ends a job for which no target works
	wake         func(*conn)        // tells an idle connection to look at its jobs

	mu       sync.Mutex
	conns    []*conn            // open, or about to be
	hosts    map[string][]*conn // the same by target
	messages map[uint64]int     // jobs in hand by message
	waiting  []*job             // in the order they came
	opened   int                // connections so far
}

// job is the recipients of one message for one destination.
type job struct {
	message uint64 // number of its control file
	domain  string // host word it goes to
	policy  any    // what a connection must comply with; comparable
	levels  [][]*target
	tried   map[string]bool // targets that could not be connected to for it
	failed  *failure        // what the last of them said
	since   time.Time       // when it was placed first
	rescues int             // times it was moved off a connection that broke at once
	work    *work           // what to do; nil in tests of the choice
	done    chan struct{}   // closed when the job has its result
}

// maxTrying is how long new connections are tried for a job. One attempt more
// may begin until then.
const maxTrying = 10 * time.Minute

// conn is one connection, from the moment it is decided on.
type conn struct {
	target *target
	domain string // that it was opened for; "" serves all that share the target
	policy any
	order  int   // 1, 2, … as opened
	after  *conn // closed before this one may be opened

	// Owned by the pool's lock.
	jobs      []*job // the first is worked on
	idleSince time.Time
	openedAt  time.Time
	finished  int           // jobs
	gone      chan struct{} // closed when it is closed
	io        *session      // set while it is idle, to wake it
}

// serves says that a connection is good for a job.
func (c *conn) serves(j *job) bool {
	return c.policy == j.policy && (c.domain == "" || c.domain == j.domain)
}

// place finds a connection for a job.
func (p *pool) place(j *job) {
	p.mu.Lock()
	if j.since.IsZero() {
		j.since = p.now()
	}
	started, dead := p.settle(j)
	p.mu.Unlock()
	p.after(started, dead)
}

// verdict is a job for which there is no target.
type verdict struct {
	job    *job
	choice choice
}

// settle places a job and the ones that wait. What follows from it and must
// not be done under the lock is returned.
func (p *pool) settle(jobs ...*job) (started []*conn, dead []verdict) {
	all := append(p.waiting, jobs...)
	p.waiting = nil
	for _, j := range all {
		switch c := p.choose(j, p.now()); c.kind {
		case ride:
			p.assign(c.conn, j)
			p.wake(c.conn)
		case open:
			started = append(started, p.open(c, j))
		case wait:
			p.waiting = append(p.waiting, j)
		case none:
			dead = append(dead, verdict{j, c})
		}
	}
	return started, dead
}

func (p *pool) after(started []*conn, dead []verdict) {
	for _, c := range started {
		p.start(c)
	}
	for _, d := range dead {
		p.fail(d.job, d.choice)
	}
}

func (p *pool) assign(c *conn, j *job) {
	c.jobs = append(c.jobs, j)
	p.messages[j.message]++
}

// open makes room and a connection in it.
func (p *pool) open(c choice, j *job) *conn {
	p.opened++
	k := &conn{target: c.target, domain: j.domain, policy: j.policy, order: p.opened,
		openedAt: p.now(), after: c.evict, gone: make(chan struct{})}
	if c.evict != nil {
		p.unlink(c.evict)
		p.wake(c.evict)
	}
	p.conns = append(p.conns, k)
	p.hosts[k.target.name] = append(p.hosts[k.target.name], k)
	p.assign(k, j)
	return k
}

// unlink takes a connection out of all choice.
func (p *pool) unlink(c *conn) {
	same := func(k *conn) bool { return k == c }
	p.conns = slices.DeleteFunc(p.conns, same)
	name := c.target.name
	if p.hosts[name] = slices.DeleteFunc(p.hosts[name], same); len(p.hosts[name]) == 0 {
		delete(p.hosts, name)
	}
}

// linked says that a connection is still one to choose.
func (p *pool) linked(c *conn) bool { return slices.Contains(p.hosts[c.target.name], c) }

// connected notes that a target works.
func (p *pool) connected(c *conn) {
	p.noteRecord(c.target.name, func(r *Record) {
		*r = Record{OpenedAt: c.openedAt, NoChunking: r.NoChunking}
	})
}

// noteRecord changes what is known of a target.
func (p *pool) noteRecord(target string, change func(*Record)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	r, _ := p.destinations.Find(target, now)
	change(&r)
	p.destinations.Note(target, r, now.Add(p.limits.Forget))
}

// record is what is known of a target.
func (p *pool) record(target string) Record {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, _ := p.destinations.Find(target, p.now())
	return r
}

// refused ends a connection that could not be opened. Its jobs look for
// another target.
func (p *pool) refused(c *conn, f *failure) {
	p.mu.Lock()
	now := p.now()
	if !f.policy {
		old, _ := p.destinations.Find(c.target.name, now)
		old.RetryAt, old.Failure = now.Add(p.limits.Retry), f.text
		p.destinations.Note(c.target.name, old, now.Add(p.limits.Forget))
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

// closed ends a connection: it is no longer open. The jobs that are left on it
// are placed anew, before those that wait.
func (p *pool) closed(c *conn) {
	p.mu.Lock()
	p.unlink(c)
	if r, known := p.destinations.Find(c.target.name, p.now()); known {
		p.destinations.Note(c.target.name, r, p.now().Add(p.limits.Forget))
	}
	left := c.jobs
	for _, j := range left {
		p.release(j)
	}
	c.jobs = nil
	p.waiting = append(left, p.waiting...)
	close(c.gone)
	started, dead := p.settle()
	p.mu.Unlock()
	p.after(started, dead)
}

func (p *pool) release(j *job) {
	if p.messages[j.message]--; p.messages[j.message] <= 0 {
		delete(p.messages, j.message)
	}
}

// finish takes the job that was worked on off its connection and says whether
// the connection may go on: it may not when it is broken, or old by count or by
// time.
func (p *pool) finish(c *conn, good bool) (goOn bool) {
	p.mu.Lock()
	j := c.jobs[0]
	c.jobs = c.jobs[1:]
	p.release(j)
	c.finished++
	now := p.now()
	old := p.limits.Jobs > 0 && c.finished >= p.limits.Jobs || p.limits.Age > 0 && now.Sub(c.openedAt) >= p.limits.Age
	goOn = good && !old
	var started []*conn
	var dead []verdict
	if goOn {
		c.idleSince = now
		started, dead = p.settle()
	}
	p.mu.Unlock()
	p.after(started, dead)
	return goOn
}

// next is the job to work on; nil for an idle connection.
func (p *pool) next(c *conn) *job {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(c.jobs) == 0 {
		return nil
	}
	return c.jobs[0]
}
