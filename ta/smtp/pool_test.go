package smtp

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// poolTest is a pool whose connections do nothing by themselves. Its jobs do not act on their
// turns.
type poolTest struct {
	*pool
	testing.TB
	clock   time.Time
	jobs    []*job  // in the order of their submission
	started []*conn // in the order of opening
	failed  []*job
	evicted []*conn
}

func newPoolTest(t testing.TB, l Limits) *poolTest {
	t.Helper()
	b := &poolTest{TB: t, clock: time.Unix(1_800_000_000, 0), pool: newPool(l, rand.New(rand.NewPCG(1, 1)))}
	b.now = func() time.Time { return b.clock }
	return b
}

// submit submits a job, and sees what it and others may do now.
func (b *poolTest) submit(j *job) {
	j.turn = make(chan *conn, 1)
	b.jobs = append(b.jobs, j)
	b.pool.submit(j)
	b.turns()
}

// turns takes the turns of all jobs.
func (b *poolTest) turns() {
	for _, j := range b.jobs {
		select {
		case c := <-j.turn:
			switch {
			case c == nil:
				b.failed = append(b.failed, j)
			case c.jobs[0] != j:
				b.Fatalf("a job has its turn on connection %d, which has another first", c.order)
			case !slices.Contains(b.started, c):
				b.started = append(b.started, c)
				if c.victim != nil {
					b.evicted = append(b.evicted, c.victim)
				}
			}
		default:
		}
	}
	slices.SortFunc(b.started, func(x, y *conn) int { return x.order - y.order })
}

func (b *poolTest) refused(c *conn, f *failure) { b.pool.refused(c, f); b.turns() }

func (b *poolTest) closed(c *conn) { b.pool.closed(c); b.turns() }

func (b *poolTest) finish(c *conn, good bool) bool {
	defer b.turns()
	return b.pool.finish(c, good)
}

// levels reads "a b, c": the targets a and b, and c as the next level.
func levels(text string) (all [][]*target) {
	for level := range strings.SplitSeq(text, ", ") {
		var ts []*target
		for name := range strings.FieldsSeq(level) {
			ts = append(ts, &target{name: name})
		}
		all = append(all, ts)
	}
	return all
}

// job submits a job of a message and returns what was decided: "a+" for a new
// connection to a, "a1" for a ride on the first connection that was opened, "wait" or
// "none".
func (b *poolTest) job(message uint64, to string) string {
	b.Helper()
	j := &job{id: message, levels: levels(to)}
	started, failed := len(b.started), len(b.failed)
	b.submit(j)
	switch {
	case len(b.started) > started:
		c := b.started[len(b.started)-1]
		b.connected(c)
		return c.target.name + "+"
	case len(b.failed) > failed:
		return "none"
	case slices.Contains(b.waiting, j):
		return "wait"
	}
	for _, c := range b.conns {
		if slices.Contains(c.jobs, j) {
			return fmt.Sprintf("%s%d", c.target.name, c.order)
		}
	}
	b.Fatal("the job is nowhere")
	return ""
}

// want submits jobs of one message and checks what was decided.
func (b *poolTest) want(message uint64, to string, want ...string) {
	b.Helper()
	var got []string
	for range want {
		got = append(got, b.job(message, to))
	}
	if !slices.Equal(got, want) {
		b.Errorf("jobs for %q went to %q, want %q", to, got, want)
	}
}

// conn returns the nth connection that was opened.
func (b *poolTest) conn(n int) *conn { return b.started[n-1] }

// done finishes n jobs of a connection.
func (b *poolTest) done(c *conn, n int) {
	for range n {
		b.clock = b.clock.Add(time.Second)
		b.finish(c, true)
	}
}

func (b *poolTest) pass(d time.Duration) { b.clock = b.clock.Add(d) }

// If a target refuses a further connection, its jobs use those that it has. If it
// refuses all, all jobs give it up.
func TestRefusedConnectionIsNotReplacedByAnother(t *testing.T) {
	b := newPoolTest(t, Limits{Sessions: 10})
	b.want(1, "a", "a+", "a+", "a+")
	b.refused(b.conn(2), &failure{})
	if len(b.started) != 3 || len(b.conn(3).jobs) != 2 {
		t.Fatalf("%d started, %d on the newest", len(b.started), len(b.conn(3).jobs))
	}
	b.want(2, "a", "a1")
	b.refused(b.conn(3), &failure{})
	b.refused(b.conn(1), &failure{})
	if len(b.started) != 3 || len(b.failed) != 4 {
		t.Errorf("%d started, %d failed", len(b.started), len(b.failed))
	}
}

// Of many exchangers not all are tried, if each takes long to fail.
func TestTryingEnds(t *testing.T) {
	b := newPoolTest(t, Limits{Sessions: 10})
	b.job(1, "a, b, c, d, e, f")
	for len(b.failed) == 0 {
		b.pass(3 * time.Minute)
		b.refused(b.conn(len(b.started)), &failure{})
	}
	if len(b.started) != 4 {
		t.Errorf("%d were tried", len(b.started))
	}
}

// A server that does not comply with the policy of one destination is still used for
// others.
func TestPolicyFailureIsNotTheTargets(t *testing.T) {
	b := newPoolTest(t, Limits{Sessions: 10})
	b.want(1, "a", "a+")
	b.refused(b.conn(1), &failure{policy: true})
	if len(b.failed) != 1 {
		t.Fatalf("%d failed", len(b.failed))
	}
	b.want(2, "a", "a+")
}

// After any sequence of events the bounds hold and no job is lost.
func TestPoolHoldsItsInvariant(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 7))
		b := newPoolTest(t, Limits{Sessions: 1 + r.IntN(6), Backlog: 1 + r.IntN(3),
			MessageMax: r.IntN(3), MessageScale: r.IntN(3), Jobs: r.IntN(4), Age: time.Minute, Retry: 20 * time.Second})
		b.rand = r
		placed, finished := 0, 0
		for step := range 300 {
			b.pass(time.Duration(r.IntN(5000)) * time.Millisecond)
			if r.IntN(2) == 0 && placed-finished-len(b.failed) < b.limits.Sessions*3 {
				placed++
				b.submit(&job{id: uint64(r.IntN(3)), domain: string(rune('a' + r.IntN(2))), levels: levels([]string{"x y, z", "x", "z, y"}[r.IntN(3)])})
			} else if len(b.conns) > 0 {
				c := b.conns[r.IntN(len(b.conns))]
				switch {
				case r.IntN(6) == 0:
					b.refused(c, &failure{})
				case r.IntN(6) == 0:
					b.closed(c)
				case len(c.jobs) > 0:
					b.done(c, 1)
					finished++
				}
			}
			b.check(seed, step, placed-finished)
		}
	}
}

func (b *poolTest) check(seed uint64, step, open int) {
	b.Helper()
	inHand, byMessage := 0, map[uint64]int{}
	for _, c := range b.conns {
		inHand += len(c.jobs)
		for _, j := range c.jobs {
			byMessage[j.id]++
		}
	}
	for m, n := range b.messages {
		if byMessage[m] != n {
			b.Fatalf("seed %d step %d: message %d has %d jobs, counted %d", seed, step, m, byMessage[m], n)
		}
	}
	switch {
	case len(b.conns) > b.limits.Sessions:
		b.Fatalf("seed %d step %d: %d connections", seed, step, len(b.conns))
	case inHand+len(b.waiting)+len(b.failed) != open:
		b.Fatalf("seed %d step %d: %d in hand, %d wait, %d failed, of %d", seed, step, inHand, len(b.waiting), len(b.failed), open)
	case len(b.waiting) > 0 && inHand == 0:
		b.Fatalf("seed %d step %d: %d wait and nothing is under way", seed, step, len(b.waiting))
	}
}

// What is known of dead targets is dropped when there is much of it.
func TestDeadTargetsAreForgotten(t *testing.T) {
	b := newPoolTest(t, Limits{Sessions: 1})
	for i := range 10 * maxDead {
		b.want(1, fmt.Sprint("h", i), fmt.Sprint("h", i, "+"))
		b.refused(b.conn(len(b.started)), &failure{})
		b.pass(time.Second)
		b.jobs, b.started = nil, nil
	}
	if n := len(b.dead); n > maxDead {
		t.Errorf("%d are kept", n)
	}
}
