package fair

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"zsched/scheduler/rule"
)

// mailbag is mail of which only the numbers are known.
type mailbag struct {
	vertices []bagVertex // by number
	messages [][]Vertex  // by number
	jobs     []*Jobs
	weights  map[string]int
}

type bagVertex struct {
	place   Place
	message uint32
	ordinal uint16
	thread  *Thread
	name    string // of its share
	left    bool
	// recipients is how many it has; 0: it does not matter.
	recipients int
}

func (b *mailbag) Place(v Vertex) *Place    { return &b.vertices[v].place }
func (b *mailbag) Weight(share string) int  { return max(1, b.weights[share]) }
func (b *mailbag) age(message uint32) int64 { return int64(message * 7919 % 101) }

func (b *mailbag) Message(v Vertex) Message {
	x := &b.vertices[v]
	return Message{Number: x.message, Sequence: int64(x.message), ModifiedAt: b.age(x.message), Ordinal: x.ordinal, Recipients: x.recipients, Jobs: b.Jobs(v)}
}

func (b *mailbag) Age(v Vertex) float64 { return float64(b.age(b.vertices[v].message)) }

func (b *mailbag) Jobs(v Vertex) *Jobs {
	if message := b.vertices[v].message; len(b.messages[message]) > 1 {
		return b.jobs[message]
	}
	return nil
}

func (b *mailbag) EachInRing(message uint32, r *Ring, f func(Vertex)) {
	for _, v := range b.messages[message] {
		if x := &b.vertices[v]; !x.left && x.thread.ring == r {
			f(v)
		}
	}
}

// add adds a message with a vertex for each of the threads.
func (b *mailbag) add(name string, threads ...*Thread) (vertices []Vertex) {
	message := uint32(len(b.messages))
	for i, t := range threads {
		vertices = append(vertices, Vertex(len(b.vertices)))
		b.vertices = append(b.vertices, bagVertex{message: message, ordinal: uint16(i), thread: t, name: name})
	}
	b.messages, b.jobs = append(b.messages, vertices), append(b.jobs, new(Jobs))
	return vertices
}

func newMailbag() *mailbag {
	b := &mailbag{weights: make(map[string]int)}
	b.vertices, b.messages, b.jobs = make([]bagVertex, 1), make([][]Vertex, 1), make([]*Jobs, 1)
	return b
}

// openThread makes a ring with an open thread.
func (b *mailbag) openThread(quantum int) (*Queue, *Ring, *Thread) {
	q, thread := New(b), new(Thread)
	r := q.NewRing(&rule.Params{Quantum: quantum}, func() {})
	thread.SetRing(r)
	thread.SetOpen(true)
	return q, r, thread
}

// TestSharesTakeTurns: each share has eight picks for each unit of its weight, whoever has more mail.
func TestSharesTakeTurns(t *testing.T) {
	b := newMailbag()
	b.weights["heavy"] = 2
	q, r, thread := b.openThread(100)
	for _, name := range []string{"much", "heavy", "much"} {
		for range 200 {
			q.Put(thread, b.add(name, thread)[0], name)
		}
	}
	picks := make(map[string]int)
	for range 240 {
		v := r.Next()
		picks[b.vertices[v].name]++
		r.Take(Pick{Vertex: v})
	}
	if picks["heavy"] != 160 || picks["much"] != 80 {
		t.Errorf("picks: %v", picks)
	}
}

// TestManyRecipientsTakeTurns: vertices with many recipients count as more than one, also beyond the end of a
// turn.
func TestManyRecipientsTakeTurns(t *testing.T) {
	b := newMailbag()
	q, r, thread := b.openThread(1000)
	for _, name := range []string{"large", "small"} {
		for range 400 {
			v := b.add(name, thread)[0]
			if name == "large" {
				b.vertices[v].recipients = 900
			}
			q.Put(thread, v, name)
		}
	}
	picks := make(map[string]int)
	for range 200 {
		v := r.Next()
		picks[b.vertices[v].name]++
		r.Take(Pick{Vertex: v})
	}
	// 900 recipients are as much as 19 vertices, and the turn of the large ones was the first.
	if picks["large"] != 1+200/20 {
		t.Errorf("picks: %v", picks)
	}
}

// TestNewSharesDoNotOvertake: a share waits for those before it only, however many new ones come.
func TestNewSharesDoNotOvertake(t *testing.T) {
	b := newMailbag()
	q, r, thread := b.openThread(100)
	put := func(name string) { q.Put(thread, b.add(name, thread)[0], name) }
	for range 2 * turnVertices {
		put("busy")
	}
	put("waits")
	for i := range turnVertices + 1 {
		put(fmt.Sprint("new", i))
		v := r.Next()
		want := "busy"
		if i == turnVertices {
			want = "waits"
		}
		if got := b.vertices[v].name; got != want {
			t.Errorf("pick %d is of %s, want %s", i, got, want)
		}
		r.Take(Pick{Vertex: v})
	}
}

// TestThreadsTakeTurns: in a round of a share, each thread has its quantum.
func TestThreadsTakeTurns(t *testing.T) {
	b := newMailbag()
	q := New(b)
	r := q.NewRing(&rule.Params{Quantum: 3}, func() {})
	threads := make([]Thread, 4)
	for i := range threads {
		threads[i].SetRing(r)
		threads[i].SetOpen(true)
		for range 30 * (i + 1) {
			q.Put(&threads[i], b.add("", &threads[i])[0], "")
		}
	}
	picks := make(map[*Thread]int)
	for range 10 * 3 * len(threads) {
		v := r.Next()
		picks[b.vertices[v].thread]++
		r.Take(Pick{Vertex: v})
	}
	for i := range threads {
		if n := picks[&threads[i]]; n != 30 {
			t.Errorf("thread %d has %d picks", i, n)
		}
	}
}

// TestNothingStaysWhileSharesChange: after a reload, one vertex of a message has its new share
// already. The other is still set aside in the old one.
func TestNothingStaysWhileSharesChange(t *testing.T) {
	b := newMailbag()
	q := New(b)
	r := q.NewRing(&rule.Params{Quantum: 3}, func() {})
	threads := []*Thread{{Number: 1}, {Number: 2}}
	for _, thread := range threads {
		thread.SetRing(r)
	}
	vertices := b.add("old", threads...)
	for i, v := range vertices {
		q.Put(threads[i], v, "old")
	}
	r.SetAside(vertices[0])
	r.SetAside(vertices[1])
	q.Remove(vertices[0])
	q.Put(threads[0], vertices[0], "new")
	r.SetAside(vertices[0])
	if p, ok := threads[1].Stay(); ok && p.Vertex != vertices[1] {
		t.Errorf("the session stays with %+v", p)
	}
}

// fairTest does random things to two rings.
type fairTest struct {
	*mailbag
	q       *Queue
	r       *rand.Rand
	rings   [2]*Ring
	threads []*Thread
	// sessions has the share of each session.
	sessions []*Share
}

// TestRandomly: whatever happens, the state is consistent, and Next is what a look at all finds.
func TestRandomly(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			f := &fairTest{mailbag: newMailbag(), r: rand.New(rand.NewPCG(seed, 1))}
			f.q = New(f.mailbag)
			for i := range f.rings {
				p := &rule.Params{Quantum: 1 + f.r.IntN(5), AgeOrder: f.r.IntN(4) == 0,
					Preemption: rule.Preemption{SlotCost: f.r.IntN(3), SlotLoan: f.r.IntN(3), MinSlots: f.r.IntN(3), SlotDiscount: 50}}
				f.rings[i] = f.q.NewRing(p, func() {})
			}
			for i := range 6 {
				f.threads = append(f.threads, &Thread{Number: uint32(len(f.threads) / 2)})
				f.threads[i].SetRing(f.rings[i%2])
			}
			for i := range 2000 {
				f.event()
				if i%5 == 0 {
					f.check(t)
				}
			}
		})
	}
}

func (f *fairTest) thread() *Thread { return f.threads[f.r.IntN(len(f.threads))] }

func (f *fairTest) event() {
	switch t := f.thread(); f.r.IntN(10) {
	case 0, 1:
		threads := []*Thread{t}
		for range f.r.IntN(4) * f.r.IntN(3) {
			threads = append(threads, f.thread())
		}
		name := []string{"", "a", "b", "c"}[f.r.IntN(4)]
		for _, v := range f.add(name, threads...) {
			f.q.Put(f.vertices[v].thread, v, name)
		}
	case 2:
		t.SetOpen(f.r.IntN(3) > 0)
	case 3: // one leaves
		if v := Vertex(f.r.IntN(len(f.vertices))); v != 0 && !f.vertices[v].left {
			f.leave(v)
		}
	case 4: // one is due again
		if v := Vertex(f.r.IntN(len(f.vertices))); v != 0 && !f.vertices[v].left && !f.vertices[v].place.Queued() {
			f.q.Put(f.vertices[v].thread, v, f.vertices[v].name)
		}
	case 5:
		if f.r.IntN(10) == 0 {
			f.move(t)
		}
	case 6:
		for _, j := range t.ring.Aside() {
			j.Release()
		}
		t.ring.ReleaseShares(func(*Share) bool { return f.r.IntN(2) == 0 })
	case 7:
		if t.Len() > 0 {
			t.SetOpen(true)
			if p, ok := t.Stay(); ok {
				if _, first := firstOf(slices.Values(f.flowsOf(t))); t.ring.turn() == nil && p.Vertex != first {
					panic("without a turn, the first of the thread does not stay")
				}
				f.sessions = append(f.sessions, f.q.BeginSession(p.Vertex))
				t.ring.Take(p)
			}
		}
	case 8:
		if n := len(f.sessions); n > 0 {
			i := f.r.IntN(n)
			f.sessions[i].EndSession()
			f.sessions = slices.Delete(f.sessions, i, i+1)
		}
	default:
		f.pick(t.ring)
	}
}

// leave removes a vertex for good.
func (f *fairTest) leave(v Vertex) {
	x := &f.vertices[v]
	f.q.Remove(v)
	if jobs := f.Jobs(v); jobs != nil {
		jobs.WakeAside()
	}
	x.left = true
}

// move moves a thread to the other ring.
func (f *fairTest) move(t *Thread) {
	to := f.rings[0]
	if to == t.ring {
		to = f.rings[1]
	}
	var queued []Vertex
	for v := range f.vertices {
		if f.vertices[v].thread == t && f.vertices[v].place.Queued() {
			queued = append(queued, Vertex(v))
			f.q.Remove(Vertex(v))
		}
	}
	t.SetRing(to)
	for _, v := range queued {
		f.q.Put(t, v, f.vertices[v].name)
	}
}

// pick feeds the next vertex, or sets it aside.
func (f *fairTest) pick(r *Ring) {
	v := r.Next()
	switch {
	case v == 0:
	case f.r.IntN(4) == 0:
		r.Turn().SetAside()
	case f.Jobs(v) != nil && f.r.IntN(4) == 0:
		r.SetAside(v)
	default:
		p := r.Preempt(v, func(Vertex) bool { return f.r.IntN(3) > 0 })
		f.sessions = append(f.sessions, f.q.BeginSession(p.Vertex))
		r.Take(p)
	}
}

func (f *fairTest) check(t *testing.T) {
	t.Helper()
	assert := func(holds bool, format string, args ...any) {
		if !holds {
			t.Helper()
			t.Fatalf(format, args...)
		}
	}
	for _, thread := range f.threads {
		n, aside := 0, 0
		for _, fl := range f.flowsOf(thread) {
			assert(f.q.obtainFlow(thread, fl.share, fl.size) == fl, "a flow is not found")
			f.checkFlow(assert, fl, thread)
			n += fl.len()
			if fl.extras != nil {
				aside += fl.extras.aside.Len()
			}
		}
		assert(n == thread.Len() && n-aside == thread.Pickable(), "%d vertices, kept %d; %d set aside, kept %d", n, thread.n, aside, thread.aside)
	}
	for _, r := range f.rings {
		f.checkTurns(assert, r)
	}
	f.checkJobs(assert)
}

type asserting func(holds bool, format string, args ...any)

func (f *fairTest) checkFlow(assert asserting, fl *flow, t *Thread) {
	assert(fl.thread == t && fl.share.ring == t.ring && t.ring.shares[fl.share.name] == fl.share, "a flow of another")
	assert(fl.len() > 0, "an empty flow")
	first, least := Vertex(0), never
	f.eachDue(fl, func(v Vertex, key Key) {
		assert(f.vertices[v].place.flow == fl.ref && key == f.keyOf(v) && !f.q.IsAside(v), "a vertex of another flow, or with another key")
		if key < least {
			first, least = v, key
		}
	})
	assert(fl.key == least && (first == 0) == (fl.vertex == 0), "a flow has another first vertex")
	open := &fl.share.size(fl.size).open
	switch {
	case fl.place == inParked:
		assert(!t.open && slices.Contains(t.parked, fl.ref), "an open thread has parked mail, or nobody knows of it")
	case fl.place == inSpent:
		assert(slices.Contains(fl.share.spent, fl.ref), "nobody knows of a flow without quantum")
	case fl.vertex != 0:
		assert(open.Contains(fl.ref) && open.KeyOf(fl.ref) == fl.key && (fl.share.takesTurns() || fl.share.aside), "picks do not find a flow")
		return
	}
	assert(fl.heapIndex == 0, "a flow is linked that picks must not find")
}

// eachDue yields the vertices of a flow that are not set aside.
func (f *fairTest) eachDue(fl *flow, do func(Vertex, Key)) {
	if fl.extras != nil {
		fl.extras.due.Each(func(key Key, v Vertex) { do(v, key) })
	} else if fl.vertex != 0 {
		do(fl.vertex, fl.key)
	}
}

func (f *fairTest) keyOf(v Vertex) Key {
	m, r := f.Message(v), f.vertices[v].thread.ring
	return r.key(&m, f.q.jobOf(v, r))
}

// flowsOf returns the flows of a thread.
func (f *fairTest) flowsOf(t *Thread) (all []*flow) {
	for _, s := range t.ring.shares {
		all = slices.AppendSeq(all, t.eachOf(s))
	}
	return all
}

// checkTurns: the first vertex of a share is the one that a look at all finds.
func (f *fairTest) checkTurns(assert asserting, r *Ring) {
	due, least := make(map[*Share]int), make(map[*Share]Key)
	for _, t := range f.threads {
		for _, fl := range f.flowsOf(t) {
			due[fl.share] += fl.len()
			if t.open && fl.hasQuantum() && fl.vertex != 0 && fl.place == inOpen {
				if key, seen := least[fl.share]; !seen || fl.key < key {
					least[fl.share] = fl.key
				}
			}
		}
	}
	for name, s := range r.shares {
		assert(s.name == name && s.due == due[s], "a share has %d vertices, kept %d", due[s], s.due)
		sessions := 0
		for _, other := range f.sessions {
			if other == s {
				sessions++
			}
		}
		assert(s.sessions == sessions, "share %q has %d sessions, kept %d", name, sessions, s.sessions)
		assert(s.due > 0 || s.takesTurns() || s.sessions > 0, "share %q is empty", name)
		assert(!s.aside || !s.takesTurns() && slices.Contains(r.asideShares, s), "share %q is set aside and has turns, or nobody knows of it", name)
		key, some := least[s]
		got := s.firstOpen()
		assert((got != nil) == some && (got == nil || got.key == key), "share %q: another vertex is the first", name)
	}
}

func (f *fairTest) checkJobs(assert asserting) {
	for message, jobs := range f.jobs {
		if jobs == nil {
			continue
		}
		for _, j := range *jobs {
			due := int32(0)
			f.EachInRing(uint32(message), j.ring, func(v Vertex) {
				if f.vertices[v].place.Queued() {
					due++
				}
				if f.q.IsAside(v) {
					assert(slices.Contains(j.aside, v) && slices.Contains(j.ring.aside, j), "nobody knows what is set aside")
				}
			})
			assert(j.due == due && (due > 0) == (j.share != nil), "a job has %d due, kept %d", due, j.due)
		}
	}
}
