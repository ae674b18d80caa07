package smtp

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// The seed's paragraphs about delivery, "Notes on an MTA scheduler", a test
// each, with connections that are only said to be there.

// "So we need a way to scale up the maximum if there are free workers."
func TestMessageMayHaveMoreConnectionsWhereMoreAreFree(t *testing.T) {
	b := newPoolTest(t, Limits{Sessions: 10, MessageMax: 2, MessageScale: 1})
	// One after the other, while it has less than 2, or less than are free:
	// with 5 open 5 are free, and 5 is not less.
	b.want(1, "a", "a+", "a+", "a+", "a+", "a+", "a5", "a4", "a3")
	// Two messages: the second finds 5 free and has none.
	b.want(2, "b", "b+", "b+", "b+", "b8", "b7")
}

// "A scale factor of 10 means that a message can use about 91% of an
// otherwise-idle system, or two messages can use 47% each."
func TestScaleFactorOfTen(t *testing.T) {
	b := newPoolTest(t, Limits{Sessions: 110, MessageMax: 1, MessageScale: 10})
	for range 110 {
		b.job(1, "a")
	}
	if n := len(b.started); n != 100 {
		t.Errorf("one message has %d connections of 110", n)
	}
	b = newPoolTest(t, Limits{Sessions: 105, MessageMax: 1, MessageScale: 10})
	for range 105 {
		b.job(1, "a")
		b.job(2, "b")
	}
	// With both below their maximum the free ones go to them by turns.
	byTarget := map[string]int{}
	for _, c := range b.started {
		byTarget[c.target.name]++
	}
	if byTarget["a"] != 50 || byTarget["b"] != 50 {
		t.Errorf("two messages have %v connections of 105", byTarget)
	}
}

// "There can be a queue of multiple jobs per worker. Furthermore, if a worker
// is overloaded (its queue is backlogging) we need to open another connection."
func TestBacklogOpensAnotherConnection(t *testing.T) {
	b := newPoolTest(t, Limits{Sessions: 10, Backlog: 3})
	b.want(1, "a", "a+", "a1", "a1", "a+", "a2", "a2", "a+")
}

// "When deciding which worker to use for a delivery job, we first classify its possible
// destinations ... based on destdb into active, idle, closed, unused (absent from destdb),
// and retry (in which case we omit destinations that have not passed their retry time)." And:
// "It probably isn't worth keeping track of closed connections. ... It's probably OK to remove
// the special case handling for retries too."
func TestClasses(t *testing.T) {
	b := newPoolTest(t, Limits{Sessions: 10})
	for _, name := range []string{"active", "idle", "closed", "late", "soon"} {
		b.want(1, name, name+"+")
	}
	b.done(b.conn(2), 1)
	b.finish(b.conn(3), false)
	b.refused(b.conn(4), &failure{})
	b.pass(b.limits.Retry)
	b.refused(b.conn(5), &failure{text: "refused"})
	j := &job{levels: levels("unused soon late closed idle active")}
	c := b.classify(j, j.levels[0], b.clock)
	names := ""
	for _, t := range c.targets {
		names += " " + t.name
	}
	if len(c.active) != 1 || c.active[0].target.name != "active" || len(c.idle) != 1 || c.idle[0].target.name != "idle" ||
		names != " unused late closed idle active" {
		t.Errorf("active %v, idle %v, targets%s", c.active, c.idle, names)
	}
	if name, d := b.deadTarget(&job{levels: levels("unused, soon")}); name != "soon" || d.why != "refused" || !d.until.Equal(b.clock.Add(b.limits.Retry)) {
		t.Errorf("dead: %s, %v", name, d)
	}
}

// "First sort the active list by connection time and traverse it from most
// recent to least recent. If we find one that has less than the backlog
// threshold then the first we find is the worker for this job. We prefer recent
// connections so that when our load goes down older connections will become
// idle and eventually be closed."
func TestNewestActiveConnectionBelowTheThreshold(t *testing.T) {
	b := newPoolTest(t, Limits{Sessions: 10, Backlog: 2})
	b.want(1, "a", "a+", "a1")
	b.want(1, "b", "b+", "b2", "b+")
	b.done(b.conn(1), 1)
	// Below the threshold are the first (1 job) and the third (1): the third.
	b.want(1, "a b", "b3", "a1")
}

// "If this fails then check if this job is allowed to use a new worker. If it is
// not, we still allocate it to an active connection so that big envelopes can
// get a free ride off smaller ones. ... We choose the first connection in the
// active list that has fewer jobs than the newest active connection (to spread
// the load evenly). If they all have the same number of jobs, use the first
// one."
func TestMessageWithoutAllowanceRidesAlong(t *testing.T) {
	b := newPoolTest(t, Limits{Sessions: 4, MessageMax: 1, MessageScale: 0})
	b.want(1, "a", "a+")
	b.want(2, "a", "a+")
	b.want(3, "a", "a+")
	// Message 1 has its one connection. All have one job: the newest; then the
	// others in turn, from new to old.
	b.want(1, "a", "a3", "a2", "a1", "a3", "a2", "a1")
}

// "If there are no active connections then this job must wait to be rescheduled
// when a worker becomes free."
func TestMessageWithoutAllowanceWaits(t *testing.T) {
	b := newPoolTest(t, Limits{Sessions: 4, MessageMax: 1, MessageScale: 0})
	b.want(1, "a", "a+")
	b.want(1, "b", "wait", "wait")
	b.done(b.conn(1), 1)
	if len(b.waiting) != 0 || len(b.started) != 2 || b.conn(2).target.name != "b" || len(b.conn(2).jobs) != 2 {
		t.Errorf("%d wait, %d started", len(b.waiting), len(b.started))
	}
}

// "If there are destinations on its idle list the job should use the most recent
// one (which presumably was active until not long ago)."
func TestNewestIdleConnection(t *testing.T) {
	b := newPoolTest(t, Limits{Sessions: 10})
	for _, name := range []string{"b", "c", "a"} {
		b.want(1, name, name+"+")
	}
	for _, n := range []int{3, 2, 1} {
		b.done(b.conn(n), 1)
	}
	b.want(1, "a b c", "a3", "c2", "b1")
}

// "If the system has no unused workers (or idle ones that we can close) to
// handle the new connection, then add the job to an active connection as above."
func TestNoConnectionIsFree(t *testing.T) {
	b := newPoolTest(t, Limits{Sessions: 2})
	b.want(1, "a", "a+", "a+", "a2", "a1")
	b.want(1, "b", "wait") // nothing active there
	b.done(b.conn(1), 1)   // one job is left on it
	b.want(1, "b", "wait")
	b.done(b.conn(1), 1) // now it is idle, and gives way
	if len(b.started) != 3 || b.conn(3).target.name != "b" || b.conn(3).victim != b.conn(1) || len(b.conn(3).jobs) != 2 || len(b.conns) != 2 {
		t.Errorf("%d connections, %d wait", len(b.conns), len(b.waiting))
	}
}

// "Firstly, idle connections can be closed if the worker is required for a new
// connection": the one that has been idle longest.
func TestIdleConnectionGivesWay(t *testing.T) {
	b := newPoolTest(t, Limits{Sessions: 3})
	b.want(1, "a", "a+")
	b.want(1, "b", "b+")
	b.want(1, "c", "c+")
	for _, n := range []int{2, 3, 1} {
		b.done(b.conn(n), 1)
	}
	b.want(1, "d", "d+")
	b.want(1, "e", "e+")
	b.want(1, "a", "a1")
	if !slices.Equal(b.evicted, []*conn{b.conn(2), b.conn(3)}) {
		t.Errorf("gave way: %v", b.evicted)
	}
}

// "If there are destinations on its unused list the job should pick one at
// random and use that": those with no connection come first.
func TestUnusedTargetByChance(t *testing.T) {
	first := map[string]int{}
	for seed := range uint64(300) {
		b := newPoolTest(t, Limits{Sessions: 10})
		b.rand = rand.New(rand.NewPCG(seed, seed))
		first[b.job(1, "a b c")]++
		// The others follow, each once, before any gets a second.
		b.job(1, "a b c")
		b.job(1, "a b c")
		if len(b.hosts) != 3 {
			t.Fatalf("seed %d: %d hosts in three jobs", seed, len(b.hosts))
		}
	}
	for name, n := range first {
		if len(first) != 3 || n < 60 || n > 140 {
			t.Errorf("of 300, %s was first %d times", name, n)
		}
	}
}

// "All of the working destinations have active connections ... we open another
// connection to a destination picked at random from those with the fewest
// concurrent connections."
func TestFewestConnections(t *testing.T) {
	b := newPoolTest(t, Limits{Sessions: 4})
	b.want(1, "a", "a+")
	b.want(1, "a b", "b+")
	got := []string{b.job(1, "a b"), b.job(1, "a b")}
	slices.Sort(got)
	if !slices.Equal(got, []string{"a+", "b+"}) {
		t.Errorf("the third and fourth went to %q", got)
	}
	if ride := b.job(1, "a b"); strings.HasSuffix(ride, "+") || !strings.HasSuffix(ride, "4") {
		t.Errorf("the fifth went to %q, not to the newest", ride)
	}
}

// "In the second case, none of the job's primary destinations are currently
// working. So we repeat the whole process from the classification stage using
// the secondary destination list. If necessary we can fall back to the tertiary
// etc. destinations. If we run out of fallbacks then the message must be
// deferred for later retry."
func TestFallback(t *testing.T) {
	b := newPoolTest(t, Limits{Sessions: 10, Retry: time.Minute})
	other := map[string]string{"a+": "b", "b+": "a"}[b.job(1, "a b, c, d")]
	// Each refusal moves the job on, to the other of the same level first.
	for _, next := range []string{other, "c", "d"} {
		b.refused(b.conn(len(b.started)), &failure{text: "refused"})
		if got := b.conn(len(b.started)).target.name; got != next {
			t.Fatalf("went to %s, want %s", got, next)
		}
	}
	b.refused(b.conn(4), &failure{text: "refused"})
	if len(b.failed) != 1 || b.failed[0].failed.text != "refused" || len(b.conns) != 0 {
		t.Errorf("%d failed", len(b.failed))
	}
	// Others are not even tried, until it is time; with no primary in use the
	// fallback is that of all.
	b.want(2, "a b, c, d", "none")
	b.want(2, "a b, e", "e+")
	b.pass(time.Minute)
	if got := b.job(3, "a b, e"); got != "a+" && got != "b+" {
		t.Errorf("later it went to %s", got)
	}
}

// "Secondly, we should have an ageing mechanism that closes connections after
// some period of time; it may be worth using different times for active and idle
// connections. (We want to close active connections after a time to spread load
// around even when it is low.)" Those of idle ones are in connection_test.go.
func TestConnectionsAge(t *testing.T) {
	b := newPoolTest(t, Limits{Sessions: 10, Jobs: 3, Age: time.Minute})
	b.want(1, "a", "a+")
	for n := range 3 {
		if goOn := b.finish(b.conn(1), true); goOn != (n < 2) {
			t.Errorf("after %d jobs: %v", n+1, goOn)
		}
		b.want(1, "a", map[bool]string{true: "a1", false: "a+"}[n < 2])
	}
	b = newPoolTest(t, Limits{Sessions: 10, Age: time.Minute})
	b.want(1, "a", "a+", "a+")
	b.pass(59 * time.Second)
	if !b.finish(b.conn(1), true) {
		t.Error("too old after 59 seconds")
	}
	b.pass(time.Second)
	if b.finish(b.conn(2), true) {
		t.Error("young after a minute")
	}
}

// "Thirdly, remote MTAs can close connections whenever they wish. If the
// connection has a queue of pending jobs when it is closed then these must be
// re-scheduled."
func TestJobsOfAClosedConnectionAreRescheduled(t *testing.T) {
	b := newPoolTest(t, Limits{Sessions: 2, MessageMax: 0})
	b.want(1, "a", "a+", "a+", "a2", "a1", "a2")
	b.want(2, "b", "wait")
	jobs := slices.Clone(b.conn(2).jobs)
	b.closed(b.conn(2))
	// Three jobs were on it. The first opens a connection in the place that
	// fell free, the others ride; the one that waited still waits behind them.
	if len(b.started) != 3 || b.conn(3).target.name != "a" || b.conn(3).jobs[0] != jobs[0] || len(b.conns) != 2 ||
		len(b.conn(1).jobs)+len(b.conn(3).jobs) != 5 || len(b.waiting) != 1 {
		t.Errorf("%d started, %d on the first, %d wait", len(b.started), len(b.conn(1).jobs), len(b.waiting))
	}
	if b.messages[1] != 5 {
		t.Errorf("message 1 is counted %d times", b.messages[1])
	}
}

// Connections are for one destination unless they may be shared, and for one
// policy always; the limit counts all of them.
func TestConnectionsOfOthersAreNotUsed(t *testing.T) {
	b := newPoolTest(t, Limits{Sessions: 1})
	place := func(domain string, level TLSLevel) {
		b.submit(&job{id: 1, domain: domain, policy: Policy{Level: level}, levels: levels("mx")})
	}
	place("a", 1)
	place("b", 1)
	if len(b.started) != 1 || len(b.waiting) != 1 {
		t.Fatalf("%d started, %d wait", len(b.started), len(b.waiting))
	}
	b.done(b.conn(1), 1)
	if len(b.started) != 2 || b.conn(2).victim != b.conn(1) || b.conn(2).domain != "b" {
		t.Fatalf("%d started", len(b.started))
	}
	b = newPoolTest(t, Limits{Sessions: 10, Backlog: 5})
	place("", 1)
	place("", 2)
	place("", 1)
	if len(b.started) != 2 || len(b.conn(1).jobs) != 2 {
		t.Errorf("%d started, %d on the first", len(b.started), len(b.conn(1).jobs))
	}
}
