package scheduler

import "zsched/ctlfile"

// Loading: the control file of a message that is not loaded is read again (Load, Loaded,
// NotLoaded), when the message is fed or something must be written about it.
//
// A vertex that is fed is with its agent from then on, as any other: it occupies its session. But
// the agent is given the job line only when the file has been read (giveLines). If something must
// be written (need), nothing of the message is fed before it has been loaded.

// maxReading bounds how many files are read at a time because something must be written.
const maxReading = 64

// load asks for the file of a message to be read, if it is not loaded.
func (lo *loads) load(m *message) {
	if m.flags&(unloaded|loading) == unloaded {
		m.flags |= loading
		lo.reading++
		lo.s.agenda.do(Load{Message: m.id, Path: lo.s.mail.path(m)})
	}
}

// need reports whether a message is loaded, so that something can be written about it. Otherwise
// it will be loaded, and resume continues.
func (lo *loads) need(m *message) bool {
	if m.flags&(unloaded|wanted) == unloaded {
		m.flags |= wanted
		lo.wanted = append(lo.wanted, candidate{m.ref, m.sequence})
		for _, v := range lo.s.mail.openVertices(m) {
			if v.state == due {
				lo.s.threads.blockVertex(v)
			}
		}
	}
	return m.flags&unloaded == 0
}

// loadWanted starts the loads of messages about which something must be written.
func (lo *loads) loadWanted() {
	for len(lo.wanted) > 0 && lo.reading < maxReading && !lo.s.agents.stop.begun && !lo.s.writes.spoolDown && !lo.retry.isPlanned() {
		if m := lo.s.mail.candidate(lo.wanted[0]); m != nil && m.flags&wanted != 0 {
			lo.load(m)
		}
		lo.wanted = lo.wanted[1:]
	}
}

// endLoad returns the message whose file has been read; nil: nothing asked for that.
func (lo *loads) endLoad(id MessageID) *message {
	m := lo.s.mail.message(id)
	if m == nil || m.flags&loading == 0 {
		return nil
	}
	m.flags &^= loading
	lo.reading--
	return m
}

// loaded brings a message back into memory. If its file says anything but what is known of it, it
// is taken as a new one.
func (lo *loads) loaded(in *Message) {
	m := lo.endLoad(in.ID)
	if m == nil {
		return
	}
	if !lo.s.mail.matches(m, in.Recipients) || m.modifiedAt != dateOf(in.ModifiedAt) {
		lo.takeBack(m)
		lo.s.lines.fileMissing(m, false)
		lo.s.arrivals.arrive(in)
		return
	}
	lo.fill(m, in)
	if m.flags&wanted != 0 {
		lo.takeBack(m)
		lo.resume(m)
	}
	for _, v := range lo.s.mail.openVertices(m) {
		if v.state == fed {
			lo.continueLines(lo.s.agents.byID[v.agent])
		}
	}
	lo.considerUnloading(m)
}

// cannotLoad handles a file that could not be read: it is read again later, or the message is
// dropped with its file.
func (lo *loads) cannotLoad(e NotLoaded) {
	m := lo.endLoad(e.Message)
	if m == nil {
		return
	}
	lo.takeBack(m)
	if e.Missing {
		delete(lo.s.orders.savedOrders, m.id)
		lo.s.lines.fileMissing(m, e.Moved)
		return
	}
	lo.s.agenda.do(Note{Severity: Warning, Message: m.id, Text: "cannot be loaded now: " + e.Reason})
	m.flags &^= wanted
	lo.need(m)
	lo.s.agenda.plan(&lo.retry, lo.s.agenda.now.after(retryInterval))
}

// takeBack takes from agents the job lines of a message that they were not given yet. None is fed
// before resume.
func (lo *loads) takeBack(m *message) {
	m.flags |= wanted
	for _, v := range lo.s.mail.openVertices(m) {
		if v.state == fed {
			a := lo.s.agents.byID[v.agent]
			lo.s.lines.takeBack(a, v)
			lo.continueLines(a)
		}
	}
}

// continueLines gives an agent the job lines that have waited for a message, or takes them back.
func (lo *loads) continueLines(a *agent) {
	lo.s.lines.takeBackBarred(a)
	lo.s.rings.giveLines(a)
}

// matches reports whether a file has as many open recipients for each host as a message that is
// not loaded.
func (ml *mail) matches(m *message, in []ctlfile.OpenRecipient) bool {
	open := make(map[threadKey]int32)
	for _, v := range ml.openVertices(m) {
		open[ml.threadOf(v).key] = ml.openOf(v)
	}
	for i := range in {
		key := threadKey{in[i].Channel, in[i].Host}
		if open[key] == 0 {
			return false
		}
		open[key]--
	}
	return len(in) == int(m.open)
}

// fill gives the vertices of a message the recipients that are open in its file. What the file
// does not say comes from their summaries.
func (lo *loads) fill(m *message, in *Message) {
	byThread := make(map[threadKey]*vertex)
	summaries := make(map[*vertex]recipient)
	for _, v := range lo.s.mail.openVertices(m) {
		t := lo.s.mail.threadOf(v)
		t.notLoaded--
		t.recipients -= int(lo.s.mail.openOf(v))
		byThread[t.key], summaries[v] = v, v.first
		if v.more != 0 {
			lo.s.mail.moreRecipients.Release(v.more)
			v.more = 0
		}
		v.first = recipient{}
	}
	for i := range in.Recipients {
		r := &in.Recipients[i]
		lo.s.mail.addRecipient(byThread[threadKey{r.Channel, r.Host}], r)
	}
	for v, all := range summaries {
		for i := range lo.s.mail.lenOf(v) {
			r := lo.s.mail.recipient(v, i)
			r.attempts = max(r.attempts, all.attempts)
			r.flags = r.flags&^triedBefore | all.flags&(triedBefore|mustAttempt)
		}
	}
	m.changedAt = secondOf(in.ChangedAt)
	m.flags &^= unloaded
	lo.notLoaded--
	lo.count(m, 1)
}

// resume writes what had to wait until the file was read, and lets the rest be fed.
func (lo *loads) resume(m *message) {
	m.flags &^= wanted
	lo.s.orders.restoreOrders(m)
	for _, v := range lo.s.mail.openVertices(m) {
		if v.state.isWatched() {
			lo.s.lines.wakeVertex(v)
			lo.s.orders.resume(v)
		}
	}
	lo.s.writes.advance(m)
}
