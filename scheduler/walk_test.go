package scheduler

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"zsched/ctlfile"
)

// TestWalkThroughReloads: threads change their rings at random while a walk is
// under way. Each thread that stays, and each of its vertices, is returned
// once, under the ring that it belongs to then.
func TestWalkThroughReloads(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		j := &walkTest{
			t: t, rand: r, now: time.Unix(1_800_000_000, 0), s: New(scattered(r), r),
			present: make(map[Target]bool), visits: make(map[Target]int),
		}
		for range 12 {
			j.arrive()
		}
		j.remember()
		for w, more := j.s.Walk(Vertices), true; more; j.randomChange() {
			var items []Item
			items, more = w.Next(1 + r.IntN(3))
			for _, item := range items {
				j.visit(item)
			}
		}
		for target := range j.present {
			if j.visits[target] != 1 {
				t.Fatalf("seed %d: %+v was returned %d times", seed, target, j.visits[target])
			}
		}
		if len(j.s.walks) != 0 {
			t.Fatalf("seed %d: the walk is still open", seed)
		}
	}
}

// walkTest is a walk through a queue that changes. What it returns is named by
// message and thread; a thread itself has message 0.
type walkTest struct {
	t       *testing.T
	rand    *rand.Rand
	now     time.Time
	s       *Scheduler
	last    MessageID
	present map[Target]bool // since the walk began
	visits  map[Target]int
	ring    uint64 // that was returned last
}

var walkTestHosts = []string{"a", "b", "c", "d", "e", "f"}

func (j *walkTest) step(e Event) []Action {
	actions := slices.Clone(j.s.Step(At(j.now), e))
	j.s.check()
	return actions
}

func (j *walkTest) arrive() {
	j.last++
	m := Message{ID: j.last, Path: fmt.Sprint(j.last), ModifiedAt: j.now}
	for i := range 2 {
		host := walkTestHosts[j.rand.IntN(len(walkTestHosts))]
		m.Recipients = append(m.Recipients, ctlfile.OpenRecipient{Offset: int64(i), Channel: "smtp", Host: host})
	}
	j.step(Arrived{m})
}

func (j *walkTest) remember() {
	for key, th := range j.s.threads {
		j.present[Target{0, key.channel, key.host}] = true
		j.s.eachLoaded(th, func(v *vertex) {
			j.present[Target{j.s.messageOf(v).id, key.channel, key.host}] = true
		})
	}
}

func (j *walkTest) visit(item Item) {
	switch {
	case item.Ring != nil:
		j.ring = item.Ring.ID
	case item.Vertex != nil:
		j.visits[Target{item.Vertex.Message, item.Vertex.Channel, item.Vertex.Host}]++
	default:
		j.visits[Target{0, item.Thread.Channel, item.Thread.Host}]++
		if item.Thread.Ring != j.ring {
			j.t.Fatalf("thread %s of ring %d was returned under ring %d", item.Thread.Host, item.Thread.Ring, j.ring)
		}
	}
}

// randomChange changes the queue between two slices.
func (j *walkTest) randomChange() {
	switch j.rand.IntN(4) {
	case 0:
		j.step(Reloaded{scattered(j.rand)})
	case 1:
		j.arrive()
	case 2:
		j.kill(MessageID(1 + j.rand.IntN(12)))
	}
}

func (j *walkTest) kill(id MessageID) {
	for _, a := range j.step(Ordered{Verb: VerbKill, Targets: []Target{{Message: id}}}) {
		m, ok := a.(Mark)
		if !ok {
			continue
		}
		for _, a := range j.step(Done{Op: m.Op}) {
			if f, ok := a.(Finish); ok {
				j.step(Done{Op: f.Op})
			}
		}
	}
	maps.DeleteFunc(j.present, func(target Target, _ bool) bool {
		// A thread that is made again is another thread.
		return target.Message == id || j.s.threads[threadKey{target.Channel, target.Host}] == nil
	})
}

// scattered returns a frozen configuration of overlapping clauses in any order,
// some of which are missing. So threads move to and fro between rings that
// stay.
func scattered(r *rand.Rand) *Config {
	config := &Config{Frozen: true, Defaults: Params{Interval: time.Minute, MaxThr: 1, Sessions: 1, Quantum: 1}}
	for _, i := range r.Perm(4)[r.IntN(2):] {
		config.Clauses = append(config.Clauses, Clause{
			Channel: "smtp", Host: []string{"{a,b,c}", "{b,c,d}", "{c,d,e}", "{a,e}"}[i],
			Settings: []Setting{{Name: "command", Apply: func(p *Params) { p.Command = []string{"smtp"} }}},
		})
	}
	return config
}

// TestWalkInParts: a vertex with very many recipients is returned in parts, and
// a slice is bounded by what it shows.
func TestWalkInParts(t *testing.T) {
	const n = 3*maxBatch + 7
	now := time.Unix(1_800_000_000, 0)
	s := plain(0)
	m := Message{ID: 1, Path: "1", ModifiedAt: now}
	for i := range n {
		m.Recipients = append(m.Recipients, ctlfile.OpenRecipient{Offset: int64(i), Channel: "smtp", Host: "a"})
	}
	s.Step(At(now), Arrived{m})
	s.Step(At(now), Arrived{Message{ID: 2, Path: "2", ModifiedAt: now, Recipients: m.Recipients[:1]}})
	for name, w := range map[string]*Walk{"queue": s.Walk(Vertices), "thread": s.WalkThread("smtp", "a"), "message": s.WalkMessage(1)} {
		next, second := 0, false
		for more := true; more; {
			var items []Item
			items, more = w.Next(1000)
			shown := 0
			for _, item := range items {
				switch {
				case item.Vertex == nil:
				case item.Vertex.Message == 2:
					second = true
				case item.Vertex.First != next || item.Vertex.Recipients[0].Offset != int64(next):
					t.Fatalf("%s: a part begins with %d, want %d", name, item.Vertex.First, next)
				default:
					shown += len(item.Vertex.Recipients)
					next += len(item.Vertex.Recipients)
				}
			}
			if shown > maxBatch+maxPart {
				t.Errorf("%s: a slice shows %d recipients", name, shown)
			}
		}
		if next != n || second == (name == "message") {
			t.Errorf("%s: %d of %d recipients were returned; the other message: %v", name, next, n, second)
		}
	}
}

// TestWalkOfNothing: a walk over something that does not exist ends at once,
// and a walk over a message that leaves ends then.
func TestWalkOfNothing(t *testing.T) {
	q := newBenchQueue(1)
	for name, w := range map[string]*Walk{"queue": q.s.Walk(Vertices), "thread": q.s.WalkThread("smtp", "a"), "message": q.s.WalkMessage(1)} {
		if items, more := w.Next(9); len(items) > 0 || more {
			t.Errorf("%s: %v %v", name, items, more)
		}
		w.Close()
	}
	q.fill(1, 1)
	w := q.s.WalkMessage(1)
	mark := q.s.Step(At(q.now), Ordered{Verb: VerbKill, Targets: []Target{{Message: 1}}})[0].(Mark)
	finish := q.s.Step(At(q.now), Done{Op: mark.Op})[1].(Finish)
	q.s.Step(At(q.now), Done{Op: finish.Op})
	if items, more := w.Next(9); len(items) > 0 || more || len(q.s.walks) > 0 {
		t.Errorf("%v %v", items, more)
	}
}
