package scheduler

import (
	"cmp"
	"slices"
	"strconv"

	"zsched/ctlfile"
)

// Resync: when a job line ends before every recipient has been reported, because
// the agent asked for a resync or died, the control file is read again before the
// vertex is fed again.

// agentResync ends the agent's line for the message: the agent found nothing to
// do there.
func (li *lines) agentResync(id AgentID, message MessageID) {
	a := li.s.agents.byID[id]
	if a == nil {
		return
	}
	for _, l := range a.lines {
		if l.id != message || l.ended() {
			continue
		}
		a.progressAt = li.s.agenda.now
		li.s.agents.lineEnded(a)
		l.resynced = true
		li.revokeLine(l, nothingFound, 0)
		return
	}
	li.s.agenda.logAgent(Info, a, "asked to resync "+strconv.FormatUint(uint64(message), 10)+", which it was not given")
}

// readAgain keeps a vertex from being fed until its file has been read. Attempt is what the attempt
// has led to; "": there was none.
func (li *lines) readAgain(v *vertex, attempt string, pid int) {
	m := li.s.mail.messageOf(v)
	li.s.threads.setState(v, reading, 0)
	var offsets []int64
	if pid >= ctlfile.MaxPID {
		for i := range li.s.mail.lenOf(v) {
			offsets = append(offsets, int64(li.s.mail.recipient(v, i).offset))
		}
	}
	p := li.s.writes.begin(m)
	p.vertex, p.attempt = v, attempt
	li.s.writes.issue(p, Read{Op: p.op, Message: m.id, Path: li.s.mail.file(m), PID: pid, Offsets: offsets, AtWork: li.atWork(m.id)})
}

// atWork returns the pids of the agents that may be working on a message. An agent with
// several sessions may answer its lines in any order, so it may be working on the
// message as long as any line is unanswered. The result is not nil.
func (li *lines) atWork(id MessageID) []int {
	pids := []int{}
	for _, a := range li.s.agents.byID {
		works := func(l *line) bool { return !l.resynced && (l.id == id || a.sessions > 1) }
		if a.pid != 0 && slices.ContainsFunc(a.lines, works) {
			pids = append(pids, a.pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// reread compares a vertex with what its file says.
func (li *lines) reread(v *vertex, attempt string, states []ctlfile.State) {
	if v.state != reading {
		return
	}
	m := li.s.mail.messageOf(v)
	m.pendingWrites++
	locked := li.compareTags(v, states)
	if v.state != 0 {
		li.vertexRead(v, attempt, locked)
		li.s.orders.resume(v)
	}
	m.pendingWrites--
	li.s.writes.advance(m)
}

// compareTags ends the recipients that are done according to the file. It
// reports whether a live process has locked one.
func (li *lines) compareTags(v *vertex, states []ctlfile.State) (locked bool) {
	for i := range li.s.mail.lenOf(v) {
		r := li.s.mail.recipient(v, i)
		if !r.isUndelivered() {
			continue
		}
		at, found := slices.BinarySearchFunc(states, int64(r.offset), func(st ctlfile.State, offset int64) int {
			return int(st.Offset - offset)
		})
		if !found {
			continue
		}
		state, tag := "ok", states[at].Tag
		switch tag {
		case ctlfile.Failed:
			state = "error"
			fallthrough
		case ctlfile.Delivered:
			li.account(v, i, state, v.agent, diagnostic{text: "tagged by the agent, not reported"})
			li.s.writes.endRecipient(v, i, &ctlfile.Mark{Offset: int64(r.offset), Tag: tag, LeaveTag: true})
		case ctlfile.Locked:
			locked = true
		}
	}
	return locked
}

// vertexRead decides what happens to a vertex after its file was read. A line
// that was not worked on does not count as an attempt.
func (li *lines) vertexRead(v *vertex, attempt string, locked bool) {
	switch {
	case locked:
		li.postpone(v, li.s.agenda.now.after(lockedDelay))
	case attempt != "" || li.s.mail.anyOf(v, (*recipient).isReported):
		li.takeRetryStep(v, cmp.Or(attempt, agentEnded), nil)
	default:
		li.s.mail.reopenRecipients(v)
		li.s.threads.makeDue(v)
	}
}

// The diagnostics of recipients that are still open after an attempt without a report.
const (
	// nothingFound is for an agent that found no recipient that is open. The usual reason is
	// that its user may not open the control file.
	nothingFound = "the agent could not use the control file; the scheduler's log says why"
	// agentEnded is for an agent that died on them.
	agentEnded = "the agent ended without a report"
	// noReport is for an agent that asked for more before it had reported on them.
	noReport = "the agent gave no report"
)
