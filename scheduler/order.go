package scheduler

import (
	"slices"

	"zsched/ctlfile"
)

// Orders of administrators: kill, expire, retry, hold, requeue, reroute. An
// order is executed at once on vertices that no agent has and whose file is not
// being read. In the others it is recorded, and executed when they come back.

// Verb is what an Ordered does with its targets. Whatever an agent does with a
// target before it comes back is final. A later order on the same mail replaces
// a recorded one.
type Verb uint8

const (
	// VerbKill drops recipients without a notice: they are tagged as done.
	VerbKill Verb = iota + 1
	// VerbExpire fails recipients now, with a notice that an administrator
	// expired them.
	VerbExpire
	// VerbRetry makes recipients due now, within the window. It ends their wait
	// and the suspension of their thread, and makes poisoned ones due. In a
	// queueonly thread it starts a run with only these.
	VerbRetry
	// VerbHold stops the feeding of whole messages. Each is moved to hold/
	// (Hold) when no agent has any of it.
	VerbHold
	// VerbRequeue returns recipients to the router (Resubmit).
	VerbRequeue
	// VerbReroute sends recipients to another channel and host (Resubmit).
	VerbReroute
	// VerbRelease makes poisoned mail due now, and withdraws a VerbHold that
	// waits for an agent, for the whole message. The core does not know the
	// messages under hold/.
	VerbRelease
)

// Target is a message, or the part of it for one channel and host.
type Target struct {
	Message       MessageID
	Channel, Host string // both empty: the whole message
}

// ordered executes an order as far as possible now. Adjacent targets in the same
// message are handled together.
func (dv *delivery) ordered(e *Ordered) {
	answer := Answer{Order: e.Order}
	counted := make(map[MessageID]bool, len(e.Targets))
	for targets := e.Targets; len(targets) > 0; {
		n := 1
		for n < len(targets) && targets[n].Message == targets[0].Message {
			n++
		}
		here := targets[:n]
		targets = targets[n:]
		m := dv.message(here[0].Message)
		recipients := 0
		if first := dv.records.find(here[0].Message); first != 0 {
			recipients = dv.orderRecords(e, first, here)
		} else if m != nil && m.flags&(removing|moving) == 0 {
			vertices := dv.targetVertices(e, m, here)
			if e.Verb != VerbRetry && e.Verb != VerbRelease && slices.ContainsFunc(vertices, func(v *vertex) bool { return v.state == fed && dv.affected(v, e) > 0 }) {
				answer.WithAgents = append(answer.WithAgents, m.id)
			}
			recipients = dv.apply(e, m, vertices)
		}
		answer.Recipients += recipients
		if id := here[0].Message; recipients > 0 && !counted[id] {
			counted[id] = true
			answer.Messages++
		}
	}
	dv.do(answer)
}

// targetVertices returns the vertices of a message that are targets, each once.
func (dv *delivery) targetVertices(e *Ordered, m *message, targets []Target) []*vertex {
	vertices := dv.openVertices(m)
	if e.Verb == VerbHold || e.Verb == VerbRelease && m.flags&holdOrdered != 0 {
		return vertices
	}
	wanted := make(map[*thread]bool, len(targets))
	for _, target := range targets {
		if target.Channel == "" && target.Host == "" {
			return vertices
		}
		wanted[dv.threads[threadKey{target.Channel, target.Host}]] = true
	}
	return slices.DeleteFunc(vertices, func(v *vertex) bool { return !wanted[dv.threadOf(v)] })
}

// apply applies an order to vertices of one message. It returns how many
// recipients are affected.
func (dv *delivery) apply(e *Ordered, m *message, vertices []*vertex) int {
	n := 0
	touched := vertices[:0]
	for _, v := range vertices {
		if here := dv.affected(v, e); here > 0 {
			n += here
			touched = append(touched, v)
		}
	}
	if n == 0 || e.DryRun {
		return n
	}
	dv.noteTouched(e, m, n)
	switch e.Verb {
	case VerbRetry:
		for _, v := range touched {
			dv.retryNow(v)
		}
	case VerbRelease:
		dv.releaseNow(m, touched)
	default:
		dv.carryOut(e, m, touched)
	}
	return n
}

// carryOut records an order on vertices of one message, and executes it as far
// as possible now.
func (dv *delivery) carryOut(e *Ordered, m *message, vertices []*vertex) {
	dv.inBatch(m, func() {
		vertices = dv.orderParts(e, vertices)
		dv.recordOrder(m, vertices, e)
		dv.executeAll(m, vertices)
	})
}

// affected counts the recipients of the vertex that an order changes. An order does not
// send recipients elsewhere that an earlier order is sending, or is to send to the same
// place. Other orders apply to those if they come back. A move to another node leaves mail
// that is to be held: it would lose the hold.
func (dv *delivery) affected(v *vertex, e *Ordered) int {
	switch {
	case e.Verb == VerbRetry && (v.ordered != 0 || v.state != due && v.state != waiting && v.state != poisoned):
		return 0
	case e.Verb == VerbRelease && v.state != poisoned && v.ordered != VerbHold:
		return 0
	case e.Verb == VerbReroute && !e.Back && dv.threadOf(v).key == (threadKey{e.To.Channel, e.To.Host}):
		return 0
	case e.Verb == VerbReroute && v.ordered == VerbReroute && dv.obtainExtras(dv.messageOf(v)).reroutes[v.ref] == (threadKey{e.To.Channel, e.To.Host}):
		return 0
	case e.movesAway() && v.ordered == VerbHold:
		return 0
	}
	n, part := 0, dv.partOf(e, v)
	for i := range v.len() {
		r := dv.recipient(v, i)
		if part != nil && !hasOffset(part, int64(r.offset)) {
			continue
		}
		if r.state != done && (r.state != writing || v.resubmitting() && !e.Verb.resubmits()) {
			n++
		}
	}
	return n
}

// movesAway reports whether an order moves mail to another node, or back from its way to
// one.
func (e *Ordered) movesAway() bool {
	return e.Verb == VerbReroute && e.To.Channel == ctlfile.TransferChannel
}

// resubmits reports whether an order sends recipients elsewhere.
func (v Verb) resubmits() bool { return v == VerbRequeue || v == VerbReroute }

// resubmitting reports whether the vertex is to be requeued or rerouted, and no
// agent has it.
func (v *vertex) resubmitting() bool {
	return v.state == blocked && v.ordered.resubmits()
}

// recordOrder records the order in the vertices, for when they come back.
func (dv *delivery) recordOrder(m *message, vertices []*vertex, e *Ordered) {
	for _, v := range vertices {
		v.ordered = e.Verb
		delete(dv.expireReasons, v.ref)
		delete(dv.parts, v.ref)
		if e.Verb == VerbExpire && e.Why != "" {
			dv.expireReasons[v.ref] = e.Why
		}
		if e.Verb == VerbReroute {
			dv.recordReroute(m, v, threadKey{e.To.Channel, e.To.Host})
		}
	}
	switch {
	case e.Verb == VerbHold:
		m.flags |= holdOrdered
	case m.flags&holdOrdered != 0:
		dv.refreshHoldOrder(m)
	}
}

// refreshHoldOrder clears the message's flag holdOrdered if none of its vertices
// has a recorded VerbHold any more.
func (ml *mail) refreshHoldOrder(m *message) {
	if !slices.ContainsFunc(ml.openVertices(m), func(v *vertex) bool { return v.ordered == VerbHold }) {
		m.flags &^= holdOrdered
	}
}

// executeAll executes the recorded orders on those vertices that no agent has.
// Recipients that go to the same place are resubmitted as one message.
func (dv *delivery) executeAll(m *message, vertices []*vertex) {
	var together []*vertex
	for _, v := range vertices {
		switch {
		case v.state == 0 || v.state == fed || v.state == reading:
		case v.ordered.resubmits():
			together = append(together, v)
		default:
			dv.execute(v)
		}
	}
	if len(together) == 0 {
		return
	}
	// Held mail that is moved to another node stays held there, as a message of its own.
	held := slices.DeleteFunc(slices.Clone(together), func(v *vertex) bool { return !dv.movesHeld(m, v) })
	together = slices.DeleteFunc(together, func(v *vertex) bool { return slices.Contains(held, v) })
	for _, list := range [][]*vertex{held, together} {
		if len(list) > 0 {
			dv.resubmit(m, list, dv.resubmissionOf(list[0]))
		}
	}
}

// movesHeld reports whether a vertex of a held thread is to be moved to another node.
func (dv *delivery) movesHeld(m *message, v *vertex) bool {
	return v.ordered == VerbReroute && dv.threadOf(v).held && dv.obtainExtras(m).reroutes[v.ref].channel == ctlfile.TransferChannel
}

// execute executes the recorded order on a vertex that no agent has, after those on parts
// of it.
func (dv *delivery) execute(v *vertex) {
	dv.executeParts(v)
	if v.state == fed || v.state == reading {
		dv.setState(v, blocked, 0)
	}
	switch v.ordered {
	case VerbKill:
		dv.killVertex(v)
	case VerbExpire:
		dv.expireNow(v)
	case VerbHold:
		dv.holdVertex(v)
	default:
		dv.resubmit(dv.messageOf(v), []*vertex{v}, dv.resubmissionOf(v))
	}
}

// retryNow makes a vertex due, within the window. A queueonly thread that is
// not running begins a run with it.
func (dv *delivery) retryNow(v *vertex) {
	t := dv.threadOf(v)
	dv.retryThread(t)
	if v.state != due {
		v.undoRetryStep()
		v.crashes = 0
		dv.makeDue(v)
		return
	}
	if v.queue != t.active {
		dv.dequeueVertex(v)
		dv.enqueueVertex(t, v, false)
	}
	dv.updateThread(t)
}

// retryThread ends the suspensions of a thread, some of whose mail is to be due now.
func (dv *delivery) retryThread(t *thread) {
	if t.suspendedUntil != 0 {
		t.undoRetryStep()
		t.suspendedUntil = dv.now
		dv.resumeThread(t)
	}
	dv.liftRuleSuspensions(t)
	t.running = t.params.QueueOnly
}

// releaseNow makes the poisoned vertices among these due, and withdraws the hold
// of the message from the others.
func (dv *delivery) releaseNow(m *message, vertices []*vertex) {
	for _, v := range vertices {
		if v.state == poisoned && v.ordered == 0 {
			dv.retryNow(v)
		}
	}
	if m.flags&holdOrdered != 0 {
		dv.undoHold(m)
	}
}

// expireNow fails the open recipients of a vertex by an administrator's order.
func (dv *delivery) expireNow(v *vertex) {
	dv.reopenRecipients(v)
	dv.failByOrder(v, dv.expireReasons[v.ref], func(*recipient) bool { return true })
	if v.state != 0 {
		dv.blockVertex(v)
	}
}

// failByOrder fails those of the open recipients of a vertex that are chosen.
func (dv *delivery) failByOrder(v *vertex, why string, chosen func(*recipient) bool) {
	words := "expired by the administrator"
	if why != "" {
		words += ": " + why
	}
	dv.fail(v, failureCause{
		words: words, code: "5.0.0 (expired by the administrator)",
		applies: func(r *recipient) bool { return (r.state == open || r.state == standby) && chosen(r) },
	})
}

// OrdersWithAgents counts those of the messages for which an order waits until an agent
// reports.
func (s *Scheduler) OrdersWithAgents(ids []MessageID) (n int) {
	for _, id := range ids {
		m := s.message(id)
		if m == nil {
			continue
		}
		waits := func(v *vertex) bool { return v.state == fed && s.orderOn(v) != 0 }
		if slices.ContainsFunc(s.openVertices(m), waits) {
			n++
		}
	}
	return n
}

// ThreadWithAgents counts the messages of a thread that agents may deliver.
func (s *Scheduler) ThreadWithAgents(channel, host string) int {
	if t := s.threads[threadKey{channel, host}]; t != nil {
		return int(t.states[fed])
	}
	return 0
}
