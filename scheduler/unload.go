package scheduler

import (
	"slices"
	"time"
)

// Limits on memory (PARAMactive-limit, PARAMrecipient-limit), and how a message is unloaded: it
// is replaced by stubs.
//
// The limits bound the mail that waits. What is being worked on is bounded by the sessions, and
// may come on top of it. A message is unloaded
//
//	when it has arrived and a limit is reached, unless a session is free for it
//	when it has arrived and older mail for the same destination is not loaded
//	while more than half of a limit is used: when something of it is done or deferred, when its
//	thread may not be fed for now, and when its site refuses it a session; what is due stays,
//	but while more than the limit is in memory only if a session is free for it, or it was
//	loaded for one and has not had its turn yet
//
// So a message is unloaded only after something has happened to it. A message stays in memory
// while an agent has a part of it or may be given one, while something is written, and while it
// has a recipient which is done according to a report and is not tagged in the file (readTags).
// Without a limit, nothing is unloaded.

// minIdle and idlePerRecipient: a message is unloaded only if its next attempt is at least so far
// away. One with many recipients is more work to read.
const (
	minIdle          = time.Second
	idlePerRecipient = 10 * time.Millisecond
)

// candidate is a message, if it is still there.
type candidate struct {
	message  messageRef
	sequence int64
}

// limited reports whether there is a limit on memory.
func (lo *loads) limited() bool {
	return lo.s.rules.config.ActiveLimit > 0 || lo.s.rules.config.RecipientLimit > 0
}

// loadedMail counts the messages and recipients in memory, without those under hold/.
func (lo *loads) loadedMail() (messages, recipients int) {
	h := &lo.s.orders
	return lo.s.mail.counts.Messages - lo.unloaded.messages - h.underHold, lo.s.mail.counts.Recipients - lo.unloaded.recipients - h.heldRecipients
}

// overLimit reports whether more than a limit allows is in memory.
func (lo *loads) overLimit() bool {
	m, r := lo.loadedMail()
	active, most := lo.s.rules.config.ActiveLimit, lo.s.rules.config.RecipientLimit
	return active > 0 && m > active || most > 0 && r > most
}

// hasRoom reports whether a message with so many recipients may be added.
func (lo *loads) hasRoom(recipients int) bool {
	m, r := lo.loadedMail()
	active, most := lo.s.rules.config.ActiveLimit, lo.s.rules.config.RecipientLimit
	return (active == 0 || m < active) && (most == 0 || r+recipients <= most)
}

// overHalf reports whether more than half of a limit is used.
func (lo *loads) overHalf() bool {
	m, r := lo.loadedMail()
	active, most := lo.s.rules.config.ActiveLimit, lo.s.rules.config.RecipientLimit
	return active > 0 && 2*m > active || most > 0 && 2*r > most
}

// considerUnloading notes that a message may be unloaded when the Step ends. Until then its
// memory is in use.
func (lo *loads) considerUnloading(m *message) {
	if lo.limited() && lo.overHalf() {
		lo.unloaded.candidates = append(lo.unloaded.candidates, candidate{m.ref, m.sequence})
	}
}

// considerUnloadingThread does the same, a batch at a time, for the mail of a thread.
func (lo *loads) considerUnloadingThread(t *thread) {
	if lo.limited() && lo.overHalf() && t.vertices.Len > 0 {
		t.updates |= unloadIdle
		t.nextUpdate = t.vertices.Head
		lo.s.threads.planResume(t)
	}
}

// unloadCandidates unloads those messages that are still idle.
func (lo *loads) unloadCandidates() {
	for _, c := range lo.unloaded.candidates {
		m := lo.s.mail.messages.At(c.message)
		switch {
		case m.sequence != c.sequence || !lo.overHalf() || !lo.isIdle(m):
		case m.flags&untagged != 0:
			lo.s.lines.readTags(m)
		default:
			lo.unload(m)
		}
	}
	lo.unloaded.candidates = lo.unloaded.candidates[:0]
}

// isIdle reports whether nobody works on a message, and nothing happens to it for some time.
func (lo *loads) isIdle(m *message) bool {
	soon := lo.s.agenda.now.after(minIdle + idlePerRecipient*time.Duration(m.open))
	over := lo.overLimit()
	return lo.mayUnload(m, func(v *vertex) bool {
		t := lo.s.mail.threadOf(v)
		mayBeFed := v.state == due && t.mayFeed() && v.place.Queued() && !t.waitsAtSite() &&
			(!over || t.fair.IsOpen() && (m.flags&demanded != 0 || t.ring.sessionsAtHand() > 0))
		return mayBeFed || lo.happensBefore(v, soon)
	})
}

// mayUnload reports whether nobody works on a message. busy says what else keeps a vertex in
// memory.
func (lo *loads) mayUnload(m *message, busy func(*vertex) bool) bool {
	if m.open == 0 || m.pendingWrites > 0 || m.flags&(removing|moving|obsoleted|underHold) != 0 || lo.s.mail.hasOwnPath(m) {
		return false
	}
	// The last vertices are the last to be fed, so looking at one is usually enough.
	for _, v := range slices.Backward(lo.s.mail.openVertices(m)) {
		// A report counts even if it comes after the end of its line.
		mayBeReported := v.unanswered && lo.s.agents.byID[v.agent] != nil
		if v.state != due && v.state != waiting && v.state != blocked || mayBeReported || lo.s.orders.waiting[v.ref] != nil || busy(v) {
			return false
		}
	}
	return true
}

// happensBefore reports whether something is planned for a vertex before a time.
func (lo *loads) happensBefore(v *vertex, soon instant) bool {
	return lo.s.agenda.instantAt(lo.nextWrite(v)) < soon || v.state == waiting && lo.s.threads.wakeAt(v) < soon
}

// nextWrite returns when something must be written about a vertex: it expires, or its sender is
// told of a failure or a delay.
func (lo *loads) nextWrite(v *vertex) date {
	return min(lo.s.agenda.watch.at(v.ref), lo.s.agenda.dateAt(lo.s.notices.noticeAt(v.message)))
}

// staysLoaded reports whether a message that has just arrived stays in memory.
func (lo *loads) staysLoaded(m *message) bool {
	if !lo.limited() || !lo.mayUnload(m, func(v *vertex) bool { return lo.happensBefore(v, lo.s.agenda.now) }) {
		return true
	}
	isFirst := false
	for _, v := range lo.s.mail.openVertices(m) {
		t := lo.s.mail.threadOf(v)
		if t.backlog() > t.fair.Len() {
			return false
		}
		isFirst = isFirst || t.wants > 0 && t.fair.Pickable() <= t.wants && t.ring.loading+t.ring.wants <= t.ring.sessionsAtHand()
	}
	return isFirst || !lo.overLimit()
}

// unload replaces a message by its stubs. All its vertices must be due, waiting or blocked.
func (lo *loads) unload(m *message) {
	u := &lo.unloaded
	hash := shortHash(lo.s.mail.logHashes.At(m.ref))
	u.messages++
	u.recipients += int(m.open)
	vertices := lo.s.mail.openVertices(m)
	var all []stubRef
	for _, v := range vertices {
		n := lo.addStub(m, v)
		u.looks.set(n, lo.nextWrite(v))
		if len(all) > 0 {
			u.stubs.At(all[len(all)-1]).next = n
		}
		all = append(all, n)
	}
	for _, v := range vertices {
		lo.s.threads.detachVertex(v)
	}
	lo.s.writes.forgetMessage(m)
	u.byID.Add(all[0])
	u.logHashes.Set(all[0], hash)
	for _, n := range all {
		lo.s.threads.updateThread(lo.stubThread(u.stubs.At(n)))
	}
}
