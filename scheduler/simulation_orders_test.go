package scheduler

import (
	"slices"
	"strings"

	"zsched/ctlfile"
)

// desk is the administrators of a simulated world: their orders, what they
// hold, and their walks through the queue.
type orderSimulation struct {
	heldThreads map[threadKey]bool     // held
	held        map[MessageID]*simFile // held
	// killed are messages all of which was ordered to be dropped, and expired
	// those that were ordered to expire.
	killed, expired map[MessageID]bool
	// spared are recipients that were held and not fed since.
	mustAttempt map[MessageID]map[int64]bool
	walks       []*simWalk
}

func newOrderSimulation() orderSimulation {
	return orderSimulation{
		heldThreads: make(map[threadKey]bool), held: make(map[MessageID]*simFile),
		killed: make(map[MessageID]bool), expired: make(map[MessageID]bool),
		mustAttempt: make(map[MessageID]map[int64]bool),
	}
}

// meddle lets an administrator do something.
func (w *harness) randomOrder() {
	switch roll := w.rand.IntN(100); {
	case roll < 60:
		w.continueWalk()
	case w.faultless || w.last == 0:
	case roll < 85:
		w.order()
	case roll < 92:
		w.holdThread()
	default:
		w.release()
	}
}

func (w *harness) order() {
	e := Ordered{Order: 1, Verb: Verb(1 + w.rand.IntN(int(VerbReroute))), DryRun: w.chance(10)}
	e.To = Target{Channel: "smtp", Host: w.host()}
	for range 1 + w.rand.IntN(3) {
		target := Target{Message: MessageID(1 + w.rand.IntN(int(w.last)))}
		if w.chance(40) {
			target.Channel, target.Host = "smtp", w.host()
		}
		e.Targets = append(e.Targets, target)
		if e.DryRun || e.Verb == VerbRetry {
			continue
		}
		m := w.s.message(target.Message)
		whole := target.Channel == "" && m != nil && m.flags&(removing|moving) == 0
		w.orders.killed[target.Message] = whole && e.Verb == VerbKill
		w.orders.expired[target.Message] = w.orders.expired[target.Message] || e.Verb == VerbExpire
	}
	before := w.s.Counts()
	w.step(e)
	if after := w.s.Counts(); e.DryRun && before != after {
		w.t.Fatalf("a dry run changed something: %+v, %+v", before, after)
	}
}

func (w *harness) holdThread() {
	key := threadKey{[]string{"smtp", "local", "etrn"}[w.rand.IntN(3)], w.host()}
	held := !w.orders.heldThreads[key]
	w.orders.heldThreads[key] = held
	if !held {
		w.notePending(key)
	}
	w.step(HeldThread{key.channel, key.host, held})
}

// spare notes that what is in a thread now must have an attempt.
func (w *harness) notePending(key threadKey) {
	t := w.s.threads[key]
	if t == nil {
		return
	}
	for v := w.s.vertices.get(t.vertices.head); v != nil; v = w.s.vertices.get(v.next) {
		for i := range v.len() {
			if v.state != fed && v.state != reading && w.s.recipient(v, i).state != writing {
				w.notePendingOne(w.s.messageOf(v).id, int64(w.s.recipient(v, i).offset))
			}
		}
	}
}

func (w *harness) notePendingOne(id MessageID, offset int64) {
	if w.orders.mustAttempt[id] == nil {
		w.orders.mustAttempt[id] = make(map[int64]bool)
	}
	w.orders.mustAttempt[id][offset] = true
}

// release takes a held message back into the queue.
func (w *harness) release() {
	for id := MessageID(1); id <= w.last; id++ {
		f := w.orders.held[id]
		if f == nil || w.files[id] != nil || w.s.Known(id) != Absent {
			continue
		}
		delete(w.orders.held, id)
		w.files[id] = f
		in := f.message
		in.Released, in.Recipients = true, nil
		for _, r := range f.recipients {
			if f.tags[r.Offset] == ctlfile.Open {
				in.Recipients = append(in.Recipients, r)
				w.notePendingOne(id, r.Offset)
			} else {
				f.noteOutcome(r.Offset, f.tags[r.Offset] == ctlfile.Delivered)
			}
		}
		w.step(Arrived{Message: in})
		return
	}
}

// hold moves a message out of the queue. Nothing of it may be at work.
func (w *harness) hold(a Hold) {
	f := w.files[a.Message]
	if f == nil {
		w.step(Failed{Op: a.Op, Missing: true})
		return
	}
	delete(w.files, a.Message)
	w.orders.held[a.Message] = f
	w.step(Done{Op: a.Op})
}

// restsAlone: when a message is moved, no agent has it and nothing else of it
// is under way.
func (w *harness) checkHold(a Hold) {
	for op, p := range w.s.store.pending {
		if op != a.Op && p.message.id == a.Message && !p.stale() {
			w.t.Fatalf("message %d is moved while %T is under way", a.Message, p.action)
		}
	}
	for _, agent := range w.s.agents {
		for i := range agent.lines {
			if agent.lines[i].id == a.Message && !agent.lines[i].ended() {
				w.t.Fatalf("message %d is moved while agent %d has it", a.Message, agent.id)
			}
		}
	}
}

// resubmit gives recipients an outcome elsewhere.
func (w *harness) resubmit(a Resubmit) {
	f := w.files[a.Message]
	if f == nil {
		w.step(Failed{Op: a.Op, Missing: true})
		return
	}
	if !slices.IsSorted(a.Offsets) || len(a.Offsets) == 0 {
		w.t.Fatalf("offsets to be sent elsewhere: %v", a.Offsets)
	}
	for _, offset := range a.Offsets {
		f.tags[offset] = ctlfile.Delivered
		f.done[offset] = true
	}
	w.step(Done{Op: a.Op})
}

// obeyed checks the actions of a Step against what administrators want.
func (w *harness) checkOrders(actions []Action) {
	for _, action := range actions {
		switch a := action.(type) {
		case Feed:
			w.checkFeed(a)
		case Hold:
			w.checkHold(a)
		case Mark:
			for _, m := range a.Marks {
				if m.Diagnose && strings.Contains(m.Text, "expired after") && w.orders.mustAttempt[a.Message][m.Offset] {
					w.t.Fatalf("%d/%d expires before it had an attempt", a.Message, m.Offset)
				}
			}
		case Account:
			if a.State == "expire" && w.orders.heldThreads[threadKey{a.Channel, a.Host}] && !w.orders.expired[a.Message] {
				w.t.Fatalf("message %d expires in a held thread", a.Message)
			}
		}
	}
}

func (w *harness) checkFeed(a Feed) {
	for _, l := range w.s.agents[a.Agent].lines {
		if l.ended() || w.s.path(w.s.messageOf(l.vertex)) != a.Job.Path || l.thread.key.host != a.Job.Host {
			continue
		}
		if w.orders.heldThreads[l.thread.key] {
			w.t.Fatalf("held thread %v is fed", l.thread.key)
		}
		if w.orders.killed[l.id] {
			w.t.Fatalf("message %d is fed after it was killed", l.id)
		}
		for i := range l.vertex.len() {
			if r := w.s.recipient(l.vertex, i); r.state != standby {
				delete(w.orders.mustAttempt[l.id], int64(r.offset))
			}
		}
	}
}

// simWalk is a walk and what was there when it began.
type simWalk struct {
	walk     *Walk
	threads  map[threadKey]*thread
	vertices []simVertex
	shown    map[Target]int // threads have no message
}

// simVertex is a vertex and whose it was then.
type simVertex struct {
	*vertex
	message MessageID
	order   int64
	key     threadKey
}

// walkOn begins a walk, or takes one a slice further.
func (w *harness) continueWalk() {
	if !w.faultless && len(w.orders.walks) < 3 && w.rand.IntN(4) == 0 {
		w.orders.walks = append(w.orders.walks, w.beginWalk())
		return
	}
	if len(w.orders.walks) == 0 {
		return
	}
	i := w.rand.IntN(len(w.orders.walks))
	walk := w.orders.walks[i]
	if w.chance(2) {
		walk.walk.Close()
	} else if w.nextSlice(walk) {
		return
	} else {
		w.compareWalk(walk)
	}
	w.orders.walks = slices.Delete(w.orders.walks, i, i+1)
}

func (w *harness) beginWalk() *simWalk {
	walk := &simWalk{walk: w.s.Walk(Vertices), threads: make(map[threadKey]*thread), shown: make(map[Target]int)}
	for key, t := range w.s.threads {
		walk.threads[key] = t
		for v := w.s.vertices.get(t.vertices.head); v != nil; v = w.s.vertices.get(v.next) {
			m := w.s.messageOf(v)
			walk.vertices = append(walk.vertices, simVertex{v, m.id, m.sequence, key})
		}
	}
	return walk
}

func (w *harness) nextSlice(walk *simWalk) (more bool) {
	items, more := walk.walk.Next(1 + w.rand.IntN(4))
	for _, item := range items {
		switch {
		case item.Thread != nil:
			walk.shown[Target{0, item.Thread.Channel, item.Thread.Host}]++
		case item.Vertex != nil:
			walk.shown[Target{item.Vertex.Message, item.Vertex.Channel, item.Vertex.Host}]++
		}
	}
	return more
}

// compare: what was there all the time came by once.
func (w *harness) compareWalk(walk *simWalk) {
	for key, t := range walk.threads {
		if n := walk.shown[Target{0, key.channel, key.host}]; w.s.threads[key] == t && n != 1 {
			w.t.Fatalf("thread %v came by %d times", key, n)
		}
	}
	for _, v := range walk.vertices {
		m := w.s.message(v.message)
		if m == nil || m.sequence != v.order || v.state == 0 {
			continue
		}
		if n := walk.shown[Target{v.message, v.key.channel, v.key.host}]; n != 1 {
			w.t.Fatalf("message %d in %v came by %d times", v.message, v.key, n)
		}
	}
}

// serveReleased has everything tried once: what was held and never fed since
// must not expire, and waits for a clause, or for an ETRN.
func (w *harness) serveAll() {
	for _, ref := range w.s.byID {
		m := w.s.messages.at(ref)
		w.s.eachVertex(m, func(v *vertex) {
			for i := range v.len() {
				if r := w.s.recipient(v, i); v.state != 0 && r.state == open && r.flags&mustAttempt == 0 {
					w.t.Fatalf("%d/%d in %v is left", m.id, r.offset, w.s.threadOf(v).key)
				}
			}
		})
	}
	config := w.config()
	config.Clauses = append(config.Clauses, Clause{Channel: "*", Host: "*.example", Settings: []Setting{
		{Name: "command", Apply: func(p *Params) { p.Command = []string{"any"} }},
	}})
	w.step(Reloaded{Config: config})
	for _, host := range hosts {
		w.step(Triggered{Host: host})
	}
}

// closeDesk lets go of all that is held and brings the walks to their ends.
func (w *harness) endOrders() {
	for key, held := range w.orders.heldThreads {
		if held {
			w.orders.heldThreads[key] = false
			w.notePending(key)
			w.step(HeldThread{key.channel, key.host, false})
		}
	}
	for len(w.orders.held) > 0 {
		before := len(w.orders.held)
		if w.release(); len(w.orders.held) == before {
			return
		}
	}
	for len(w.orders.walks) > 0 {
		w.continueWalk()
	}
}
