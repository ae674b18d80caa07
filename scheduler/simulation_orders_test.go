package scheduler

import (
	"reflect"
	"slices"
	"strings"

	"zsched/ctlfile"
	"zsched/scheduler/rule"
	"zsched/scheduler/view"
)

// orderSimulation is the administrators: their orders, what they hold, and
// their walks through the queue.
type orderSimulation struct {
	heldThreads map[threadKey]bool // held
	underHold   map[MessageID]bool // their files lie under hold/
	released    int                // recipients of those that were moved back
	// killed are the messages that were killed as a whole, and expired those for
	// which an order to expire was given.
	killed, expired map[MessageID]bool
	// mustAttempt are recipients that were held and not fed since.
	mustAttempt map[MessageID]map[int64]bool
	walks       []*simWalk
}

func newOrderSimulation() orderSimulation {
	return orderSimulation{
		heldThreads: make(map[threadKey]bool), underHold: make(map[MessageID]bool),
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
	aboutMail := slices.DeleteFunc(slices.Clone(view.Verbs[:]), func(info view.VerbInfo) bool { return !info.Verb.IsAboutMail() })
	e := Ordered{Verb: aboutMail[h.rand.IntN(len(aboutMail))].Verb, DryRun: h.chance(10)}
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
		if e.DryRun || e.Verb == view.VerbRetry || e.Verb == view.VerbRelease {
			continue
		}
		m := h.s.mail.message(target.Message)
		// What is being written, perhaps by an order that fails later, stays as it is.
		whole := target.Channel == "" && e.Only[target.Message] == nil && m != nil && m.flags&removing == 0 && !h.isWriting(m)
		h.orders.killed[target.Message] = whole && e.Verb == view.VerbKill
		h.orders.expired[target.Message] = h.orders.expired[target.Message] || e.Verb == view.VerbExpire
	}
	before := h.s.Counts()
	h.step(e)
	after := h.s.Counts()
	before.States = after.States
	// Any Step may start an agent or a session whose time has come, with the process of an idle
	// agent, and drop a thread without mail whose allowance has ended.
	before.Agents, before.AgentsStarted, before.Threads = after.Agents, after.AgentsStarted, after.Threads
	before.AgentsIdle, before.AgentsClosing, before.Sessions = after.AgentsIdle, after.AgentsClosing, after.Sessions
	if e.DryRun && !reflect.DeepEqual(before, after) {
		h.t.Fatalf("a dry run changed something: %+v, %+v", before, after)
	}
}

// isWriting reports whether the outcome of a recipient of a message is being written.
func (h *harness) isWriting(m *message) (writes bool) {
	ml := &h.s.mail
	ml.eachVertex(m, func(v *vertex) {
		for i := range ml.lenOf(v) {
			writes = writes || ml.recipient(v, i).state == writing
		}
	})
	return writes
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

// lift ends what reply rules do to a thread.
func (h *harness) lift() {
	h.step(Lifted{Channel: []string{"smtp", "local", "etrn"}[h.rand.IntN(3)], Host: h.host()})
}

// notePending notes that the recipients that are in a thread now must have an
// attempt.
func (h *harness) notePending(key threadKey) {
	t := h.s.threads.byKey[key]
	if t == nil {
		return
	}
	for ref := t.vertices.Head; ref != 0; ref = t.vertices.Next(ref) {
		v := h.s.mail.vertices.At(ref)
		m := h.s.mail.messageOf(v)
		for i := range h.s.mail.lenOf(v) {
			r := h.s.mail.recipient(v, i)
			if v.state != fed && v.state != reading && r.state != writing && r.state != done {
				h.notePendingOne(m.id, int64(r.offset))
			}
		}
	}
}

func (h *harness) notePendingOne(id MessageID, offset int64) {
	if h.orders.mustAttempt[id] == nil {
		h.orders.mustAttempt[id] = make(map[int64]bool)
	}
	h.orders.mustAttempt[id][offset] = true
}

// release orders the release of a held message.
func (h *harness) release() {
	if ids := h.s.HeldMessages(); len(ids) > 0 {
		h.step(Ordered{Verb: view.VerbRelease, Targets: []Target{{Message: ids[h.rand.IntN(len(ids))]}}})
	}
}

// move moves a message to hold/, or back.
func (h *harness) move(op Op, id MessageID, toHold bool) {
	f := h.files[id]
	if f == nil {
		h.step(Failed{Op: op, Missing: true})
		return
	}
	if h.orders.underHold[id] == toHold {
		h.t.Fatalf("message %d is moved to where it is", id)
	}
	h.orders.underHold[id] = toHold
	if !toHold {
		for _, r := range f.recipients {
			if f.tags[r.Offset] == ctlfile.Open {
				h.notePendingOne(id, r.Offset)
				h.orders.released++
			}
		}
	}
	h.step(Done{Op: op})
}

// checkPath checks that an action names the place where the files of a message lie.
func (h *harness) checkPath(id MessageID, path string) {
	if strings.HasPrefix(path, underHoldPrefix) != h.orders.underHold[id] {
		h.t.Fatalf("message %d under hold/: %v; action on %q", id, h.orders.underHold[id], path)
	}
}

// checkMove: when a message is moved, no agent has it and no other action on it
// is pending.
func (h *harness) checkMove(op Op, id MessageID) {
	for _, p := range h.s.writes.pending {
		if p.message != nil && p.op != op && p.message.id == id && !p.stale() {
			h.t.Fatalf("message %d is moved while %T is under way", id, p.action)
		}
	}
	for _, agent := range h.s.agents.byID {
		for i := range agent.lines {
			if agent.lines[i].id == id && !agent.lines[i].ended() {
				h.t.Fatalf("message %d is moved while agent %d has it", id, agent.id)
			}
		}
	}
}

// resubmit gives recipients their outcome in a new message.
func (h *harness) resubmit(a Resubmit) {
	h.checkPath(a.Message, a.Path)
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
		case *Feed:
			h.checkFeed(*a)
		case Hold:
			h.checkMove(a.Op, a.Message)
		case Release:
			h.checkMove(a.Op, a.Message)
		case Mark:
			for _, m := range a.Marks {
				if m.Diagnose && strings.Contains(m.Text, "expired after") && h.orders.mustAttempt[a.Message][m.Offset] {
					h.t.Fatalf("%d/%d expires before it had an attempt", a.Message, m.Offset)
				}
			}
		case *Outcome:
			if a.State == "expire" && h.orders.heldThreads[threadKey{a.Channel, a.Host}] && !h.orders.expired[a.Message] {
				h.t.Fatalf("message %d expires in a held thread", a.Message)
			}
		}
	}
}

// checkFeed: nothing is fed that is held or was killed.
func (h *harness) checkFeed(a Feed) {
	for _, l := range h.s.agents.byID[a.Agent].lines {
		if l.ended() || h.s.mail.path(h.s.mail.messageOf(l.vertex)) != a.Job.Path || l.thread.key.host != a.Job.Host {
			continue
		}
		if h.orders.heldThreads[l.thread.key] {
			h.t.Fatalf("held thread %v is fed", l.thread.key)
		}
		if h.orders.underHold[l.id] {
			h.t.Fatalf("message %d is fed and lies under hold/", l.id)
		}
		if h.orders.killed[l.id] {
			h.t.Fatalf("message %d is fed after it was killed", l.id)
		}
		for i := range h.s.mail.lenOf(l.vertex) {
			if r := h.s.mail.recipient(l.vertex, i); r.state != standby {
				delete(h.orders.mustAttempt[l.id], int64(r.offset))
			}
		}
	}
}

// isIn reports whether a message has open recipients in a thread.
func (h *harness) isIn(id MessageID, key threadKey) bool {
	t := h.s.threads.byKey[key]
	if t == nil {
		return false
	}
	return slices.Contains(h.messagesIn(t), id)
}

// messagesIn returns the messages of a thread.
func (h *harness) messagesIn(t *thread) (ids []MessageID) {
	for ref := t.vertices.Head; ref != 0; ref = t.vertices.Next(ref) {
		ids = append(ids, h.s.mail.messageOf(h.s.mail.vertices.At(ref)).id)
	}
	return ids
}

// serveAll has everything tried once. What was held and never fed since must
// not expire; it waits for a clause, or for an ETRN.
func (h *harness) serveAll() {
	for ref := range h.s.mail.byID.Each {
		m := h.s.mail.messages.At(ref)
		h.s.mail.eachVertex(m, func(v *vertex) {
			for i := range h.s.mail.lenOf(v) {
				if r := h.s.mail.recipient(v, i); v.state != 0 && r.state == open && r.flags&mustAttempt == 0 {
					h.t.Fatalf("%d/%d in %v is left", m.id, r.offset, h.s.mail.threadOf(v).key)
				}
			}
		})
	}
	config := h.config()
	config.Clauses = append(config.Clauses, rule.Clause{Channel: "*", Host: "*.example", Settings: []rule.Setting{
		{Name: "command", Apply: func(p *rule.Params) { p.Command = []string{"any"} }},
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
	for _, id := range h.s.HeldMessages() {
		h.step(Ordered{Verb: view.VerbRelease, Targets: []Target{{Message: id}}})
	}
	for len(h.orders.walks) > 0 {
		h.continueWalk()
	}
}
