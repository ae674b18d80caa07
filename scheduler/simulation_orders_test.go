package scheduler

import (
	"slices"
	"strings"
	"time"

	"zsched/ctlfile"
)

// orderSimulation is the administrators: their orders, what they hold, and
// their walks through the queue.
type orderSimulation struct {
	heldThreads map[threadKey]bool     // held
	held        map[MessageID]*simFile // held
	// killed are the messages that were killed as a whole, and expired those for
	// which an order to expire was given.
	killed, expired map[MessageID]bool
	// mustAttempt are recipients that were held and not fed since.
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

// randomOrder lets an administrator do something.
func (h *harness) randomOrder() {
	switch roll := h.rand.IntN(100); {
	case roll < 60:
		h.continueWalk()
	case h.faultless || h.last == 0:
	case roll < 85:
		h.order()
	case roll < 92:
		h.holdThread()
	default:
		h.release()
	}
}

func (h *harness) order() {
	e := Ordered{Order: 1, Verb: Verb(1 + h.rand.IntN(int(VerbRelease))), DryRun: h.chance(10)}
	e.To = Target{Channel: "smtp", Host: h.host()}
	for range 1 + h.rand.IntN(3) {
		target := Target{Message: MessageID(1 + h.rand.IntN(int(h.last)))}
		if h.chance(40) {
			target.Channel, target.Host = "smtp", h.host()
		}
		e.Targets = append(e.Targets, target)
		if h.chance(30) {
			h.orderPart(&e, target.Message)
		}
		if e.DryRun || e.Verb == VerbRetry || e.Verb == VerbRelease {
			continue
		}
		m := h.s.message(target.Message)
		whole := target.Channel == "" && e.Only[target.Message] == nil && m != nil && m.flags&(removing|moving) == 0
		h.orders.killed[target.Message] = whole && e.Verb == VerbKill
		h.orders.expired[target.Message] = h.orders.expired[target.Message] || e.Verb == VerbExpire
	}
	before := h.s.Counts()
	h.step(e)
	after := h.s.Counts()
	// Any Step may unload mail, or load it.
	before.NotLoaded, before.Urgent, before.States = after.NotLoaded, after.Urgent, after.States
	// Any Step may start an agent whose time has come, and drop a thread without mail whose
	// allowance has ended.
	before.Agents, before.AgentsStarted, before.Threads = after.Agents, after.AgentsStarted, after.Threads
	if e.DryRun && before != after {
		h.t.Fatalf("a dry run changed something: %+v, %+v", before, after)
	}
}

// orderPart restricts an order to some of the recipients of a message.
func (h *harness) orderPart(e *Ordered, id MessageID) {
	f := h.files[id]
	if f == nil || e.Only[id] != nil {
		return
	}
	if e.Only == nil {
		e.Only = make(map[MessageID][]int64)
	}
	e.Only[id] = []int64{}
	for _, r := range f.recipients {
		if h.chance(50) {
			e.Only[id] = append(e.Only[id], r.Offset)
		}
	}
}

func (h *harness) holdThread() {
	key := threadKey{[]string{"smtp", "local", "etrn"}[h.rand.IntN(3)], h.host()}
	held := !h.orders.heldThreads[key]
	h.orders.heldThreads[key] = held
	if !held {
		h.notePending(key)
	}
	h.step(HeldThread{Channel: key.channel, Host: key.host, Held: held})
}

// suspendOrLift suspends a thread for a time, or until a lift, or lifts it.
func (h *harness) suspendOrLift() {
	key := threadKey{[]string{"smtp", "local", "etrn"}[h.rand.IntN(3)], h.host()}
	switch h.rand.IntN(3) {
	case 0:
		h.step(Lifted{Channel: key.channel, Host: key.host})
	case 1:
		h.step(SuspendedThread{Channel: key.channel, Host: key.host})
	default:
		until := h.now.Add(time.Duration(h.rand.IntN(4000)) * time.Second)
		h.step(SuspendedThread{Channel: key.channel, Host: key.host, Until: until})
	}
}

// notePending notes that the recipients that are in a thread now must have an
// attempt.
func (h *harness) notePending(key threadKey) {
	t := h.s.threads[key]
	if t == nil {
		return
	}
	for ref := t.vertices.head; ref != 0; ref = t.vertices.next(ref) {
		v := h.s.vertices.at(ref)
		for i := range v.len() {
			r := h.s.recipient(v, i)
			if v.state != fed && v.state != reading && r.state != writing && r.state != done {
				h.notePendingOne(h.s.messageOf(v).id, int64(r.offset))
			}
		}
	}
	for _, id := range h.stubsIn(t) {
		f := h.files[id]
		for _, r := range f.recipients {
			if f.tags[r.Offset] == ctlfile.Open && (threadKey{r.Channel, r.Host}) == key {
				h.notePendingOne(id, r.Offset)
			}
		}
	}
}

// stubsIn returns the messages of a thread that are not loaded.
func (h *harness) stubsIn(t *thread) (ids []MessageID) {
	if t.stubs == nil {
		return nil
	}
	for n := t.stubs.all.head; n != 0; n = t.stubs.all.next(n) {
		ids = append(ids, h.s.unloaded.stubs.at(n).id)
	}
	return ids
}

func (h *harness) notePendingOne(id MessageID, offset int64) {
	if h.orders.mustAttempt[id] == nil {
		h.orders.mustAttempt[id] = make(map[int64]bool)
	}
	h.orders.mustAttempt[id][offset] = true
}

// release puts a held message back into the queue.
func (h *harness) release() {
	for id := MessageID(1); id <= h.last; id++ {
		f := h.orders.held[id]
		if f == nil || h.files[id] != nil || h.s.Known(id) != Absent {
			continue
		}
		delete(h.orders.held, id)
		h.files[id] = f
		in := f.message
		in.Released, in.Recipients = true, nil
		for _, r := range f.recipients {
			if f.tags[r.Offset] == ctlfile.Open {
				in.Recipients = append(in.Recipients, r)
				h.notePendingOne(id, r.Offset)
			} else {
				f.noteOutcome(r.Offset, f.tags[r.Offset] == ctlfile.Delivered)
			}
		}
		h.arrivals[id]++
		h.step(Arrived{Message: in})
		return
	}
}

// hold moves a message out of the queue.
func (h *harness) hold(a Hold) {
	f := h.files[a.Message]
	if f == nil {
		h.step(Failed{Op: a.Op, Missing: true})
		return
	}
	delete(h.files, a.Message)
	h.orders.held[a.Message] = f
	h.step(Done{Op: a.Op})
}

// checkHold: when a message is moved, no agent has it and no other action on it
// is pending.
func (h *harness) checkHold(a Hold) {
	for op, p := range h.s.store.pending {
		if op != a.Op && p.message.id == a.Message && !p.stale() {
			h.t.Fatalf("message %d is moved while %T is under way", a.Message, p.action)
		}
	}
	for _, agent := range h.s.agents {
		for i := range agent.lines {
			if agent.lines[i].id == a.Message && !agent.lines[i].ended() {
				h.t.Fatalf("message %d is moved while agent %d has it", a.Message, agent.id)
			}
		}
	}
}

// resubmit gives recipients their outcome in a new message.
func (h *harness) resubmit(a Resubmit) {
	f := h.files[a.Message]
	if f == nil {
		h.step(Failed{Op: a.Op, Missing: true})
		return
	}
	if !slices.IsSorted(a.Offsets) || len(a.Offsets) == 0 {
		h.t.Fatalf("offsets to be sent elsewhere: %v", a.Offsets)
	}
	for _, offset := range a.Offsets {
		f.tags[offset] = ctlfile.Delivered
		f.done[offset] = true
	}
	h.step(Done{Op: a.Op})
}

// checkOrders checks the actions of a Step against the orders.
func (h *harness) checkOrders(actions []Action) {
	for _, action := range actions {
		switch a := action.(type) {
		case Feed:
			h.checkFeed(a)
		case Hold:
			h.checkHold(a)
		case Mark:
			for _, m := range a.Marks {
				if m.Diagnose && strings.Contains(m.Text, "expired after") && h.orders.mustAttempt[a.Message][m.Offset] {
					h.t.Fatalf("%d/%d expires before it had an attempt", a.Message, m.Offset)
				}
			}
		case Account:
			if a.State == "expire" && h.orders.heldThreads[threadKey{a.Channel, a.Host}] && !h.orders.expired[a.Message] {
				h.t.Fatalf("message %d expires in a held thread", a.Message)
			}
		}
	}
}

// checkFeed: nothing is fed that is held or was killed.
func (h *harness) checkFeed(a Feed) {
	for _, l := range h.s.agents[a.Agent].lines {
		if l.ended() || h.s.path(h.s.messageOf(l.vertex)) != a.Job.Path || l.thread.key.host != a.Job.Host {
			continue
		}
		if h.orders.heldThreads[l.thread.key] {
			h.t.Fatalf("held thread %v is fed", l.thread.key)
		}
		if h.orders.killed[l.id] {
			h.t.Fatalf("message %d is fed after it was killed", l.id)
		}
		for i := range l.vertex.len() {
			if r := h.s.recipient(l.vertex, i); r.state != standby {
				delete(h.orders.mustAttempt[l.id], int64(r.offset))
			}
		}
	}
}

// isIn reports whether a message has open recipients in a thread.
func (h *harness) isIn(id MessageID, key threadKey) bool {
	t := h.s.threads[key]
	if t == nil {
		return false
	}
	return slices.Contains(h.messagesIn(t), id)
}

// messagesIn returns the messages of a thread.
func (h *harness) messagesIn(t *thread) (ids []MessageID) {
	for ref := t.vertices.head; ref != 0; ref = t.vertices.next(ref) {
		ids = append(ids, h.s.messageOf(h.s.vertices.at(ref)).id)
	}
	return append(ids, h.stubsIn(t)...)
}

// serveAll has everything tried once. What was held and never fed since must
// not expire; it waits for a clause, or for an ETRN.
func (h *harness) serveAll() {
	for ref := range h.s.byID.each {
		m := h.s.messages.at(ref)
		h.s.eachVertex(m, func(v *vertex) {
			for i := range v.len() {
				if r := h.s.recipient(v, i); v.state != 0 && r.state == open && r.flags&mustAttempt == 0 {
					h.t.Fatalf("%d/%d in %v is left", m.id, r.offset, h.s.threadOf(v).key)
				}
			}
		})
	}
	config := h.config()
	config.Clauses = append(config.Clauses, Clause{Channel: "*", Host: "*.example", Settings: []Setting{
		{Name: "command", Apply: func(p *Params) { p.Command = []string{"any"} }},
	}})
	h.step(Reloaded{Config: config})
	for _, host := range simulationHosts {
		h.step(Triggered{Host: host})
	}
}

// endOrders releases all that is held and brings the walks to their ends.
func (h *harness) endOrders() {
	for key, held := range h.orders.heldThreads {
		if held {
			h.orders.heldThreads[key] = false
			h.notePending(key)
			h.step(HeldThread{Channel: key.channel, Host: key.host, Held: false})
		}
	}
	for _, o := range h.s.SuspendedThreads() {
		h.step(Lifted{Channel: o.Channel, Host: o.Host})
	}
	for len(h.orders.held) > 0 {
		before := len(h.orders.held)
		if h.release(); len(h.orders.held) == before {
			return
		}
	}
	for len(h.orders.walks) > 0 {
		h.continueWalk()
	}
}
