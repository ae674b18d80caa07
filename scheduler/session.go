package scheduler

import (
	"strconv"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/ta"
)

// agentHungry answers an agent's #hungry. It ends a job line that has been
// reported, or tells that #idle was read, or offers one of the agent's first
// sessions; else it ends the oldest open line, whose unreported recipients
// take one retry step; else it means nothing.
func (s *Scheduler) agentHungry(id AgentID) {
	a := s.agents[id]
	if a == nil {
		return
	}
	a.heardAt = s.now
	switch {
	case a.state == starting && a.kills == 0:
		s.ready(a)
	case a.state == asked:
		s.park(a)
	case s.answered(a):
	case a.firsts > 0 && a.firsts < a.sessions && a.state != departing:
		s.offer(a)
	case len(a.lines) > 0:
		s.endLine(a, a.lines[0].v)
		s.answered(a)
	default:
		s.noteAgent(Info, a, "said #hungry where nothing was asked of it")
	}
}

// offer is one of the agent's first #hungry lines beyond the first.
func (s *Scheduler) offer(a *agent) {
	a.firsts++
	a.credit++
	s.expect(a, max(0, a.coming-1))
	if a.state == serving && a.credit == 1 {
		a.ring.free = append(a.ring.free, a)
	}
	s.touch(a.ring)
}

// answered takes an ended line off the agent and finds its session work: on
// the same thread if it may stay there, else wherever the ring has some.
func (s *Scheduler) answered(a *agent) bool {
	i := 0
	for i < len(a.lines) && !a.lines[i].ended() {
		i++
	}
	if i == len(a.lines) {
		return false
	}
	t := a.lines[i].t
	copy(a.lines[i:], a.lines[i+1:])
	a.lines[len(a.lines)-1] = line{}
	a.lines = a.lines[:len(a.lines)-1]
	if a.sessions == 1 && len(a.lines) > 0 {
		if a.state == serving {
			s.overfeed(a)
			s.settleThread(t)
		}
		return true
	}
	s.endSession(a, t)
	switch {
	case a.state == serving && s.mayStay(a, t):
		s.serve(a, t)
		return true
	case a.state == serving && s.inTheWay(a.ring):
		s.dismiss(a)
	case len(a.lines) == 0 && a.state == departing && a.kills == 0:
		a.since = s.now // its grace begins
		s.watchFor(a)
	}
	s.yield(a.ring, t)
	return true
}

// endSession gives back what a session occupied.
func (s *Scheduler) endSession(a *agent, t *thread) {
	r := a.ring
	t.busy--
	r.busy--
	r.channel.busy--
	s.counts.Sessions--
	a.credit++
	if a.credit == 1 && a.state == serving {
		r.free = append(r.free, a)
	}
}

// yield lets others have what a session has given back: other rings first,
// then the thread and its ring.
func (s *Scheduler) yield(r *ring, t *thread) {
	s.yielding = r
	s.release(r.channel.sessions, r.channel.busy)
	s.settleThread(t)
	s.touch(r)
}

// agentSpoke notes a sign of life.
func (s *Scheduler) agentSpoke(id AgentID) {
	if a := s.agents[id]; a != nil {
		a.heardAt = s.now
	}
}

// agentReported takes an agent's word about one recipient. It counts while
// the recipient is open and this agent was the last to be given it.
func (s *Scheduler) agentReported(id AgentID, rep *ta.Report) {
	a := s.agents[id]
	if a == nil {
		return
	}
	a.heardAt = s.now
	l, v, i := s.findReported(a, rep)
	if v == nil {
		s.noteAgent(Warning, a, "reported on "+strconv.FormatUint(rep.Message, 10)+"/"+
			strconv.FormatInt(rep.Offset, 10)+", which it was not given or which is done: dropped")
		return
	}
	if l != nil && v.at(i).state == open {
		l.awaited--
	}
	switch rep.Status {
	case ta.OK, ta.OK2, ta.OK3:
		s.delivered(v, i, rep)
	case ta.Error, ta.Error2:
		s.undeliverable(v, i, rep)
	default:
		s.deferred(l, v, i, rep)
	}
	if l != nil && !l.ended() && l.awaited == 0 {
		s.endLine(a, v)
	}
}

// findReported finds the recipient of a report: among the agent's open lines
// first, else in the message, where the agent must be the last one that was
// given the vertex. The line is nil for a late report; the vertex is nil when
// the report does not count.
func (s *Scheduler) findReported(a *agent, rep *ta.Report) (*line, *vertex, int) {
	id := MessageID(rep.Message)
	for n := range a.lines {
		l := &a.lines[n]
		if l.id != id || l.ended() {
			continue
		}
		if i := l.v.find(rep.Offset); i >= 0 {
			if !l.v.at(i).isOpen() {
				return nil, nil, 0
			}
			return l, l.v, i
		}
	}
	m := s.messages[id]
	if m == nil {
		return nil, nil, 0
	}
	var found *vertex
	index := 0
	m.vertices(func(v *vertex) {
		if v.state == 0 || v.agent != a.id {
			return
		}
		if i := v.find(rep.Offset); i >= 0 && v.at(i).isOpen() {
			found, index = v, i
		}
	})
	return nil, found, index
}

// delivered ends a recipient that was delivered.
func (s *Scheduler) delivered(v *vertex, i int, rep *ta.Report) {
	r := v.at(i)
	wanted := r.notify&ctlfile.NotifySuccess != 0
	mark := RecipientMark{
		Offset: int64(r.offset), Tag: ctlfile.Delivered, LeaveTag: !s.marks(v),
		Notary: rep.Notary, Text: rep.Text,
	}
	mark.Diagnose = wanted && (rep.Status == ta.OK || s.marks(v))
	if wanted {
		v.message.flags |= owes
	}
	s.account(v, statusWord(rep.Status))
	s.settle(v, i, mark, true)
}

// undeliverable ends a recipient that failed for good.
func (s *Scheduler) undeliverable(v *vertex, i int, rep *ta.Report) {
	r := v.at(i)
	mark := RecipientMark{
		Offset: int64(r.offset), Tag: ctlfile.Failed, LeaveTag: !s.marks(v),
		Notary: rep.Notary, Text: rep.Text,
	}
	if rep.Status == ta.Error || s.marks(v) {
		mark.Diagnose = r.notify&ctlfile.NotifyFailure != 0
	}
	if mark.Diagnose || rep.Status == ta.Error2 {
		v.message.flags |= owes
	}
	v.message.failed++
	s.account(v, statusWord(rep.Status))
	s.settle(v, i, mark, false)
}

// marks reports whether the scheduler writes the vertex's tags.
func (s *Scheduler) marks(v *vertex) bool { return v.thread.params.Marking == MarkingScheduler }

func (s *Scheduler) account(v *vertex, state string) {
	m := v.message
	s.do(Account{
		Message: m.id, ModifiedAt: m.modifiedAt.time(), ChangedAt: m.changedAt.time(),
		State: state, Channel: v.thread.key.channel, Host: v.thread.key.host,
	})
}

// statusWord is the word of the statistics log.
func statusWord(status ta.Status) string {
	switch status {
	case ta.OK:
		return "ok"
	case ta.OK2:
		return "ok2"
	case ta.OK3:
		return "ok3"
	case ta.Error:
		return "error"
	}
	return "error2"
}

// deferred keeps a recipient for later. What it means for the thread is
// drawn when the line ends. A late deferral only leaves its words.
func (s *Scheduler) deferred(l *line, v *vertex, i int, rep *ta.Report) {
	v.say(i, rep)
	if l == nil || v.at(i).state == reported {
		return
	}
	v.attempted(i)
	switch {
	case rep.Status == ta.DeferAll:
		l.failed, l.awaited = true, 0
		for j := range v.len() {
			if v.at(j).state == open {
				v.say(j, rep)
				v.attempted(j)
			}
		}
	case rep.Status == ta.RetryAt && rep.Retry.Given:
		l.retryAt = max(l.retryAt, s.retryTime(v, rep.Retry))
	case destinationCode(rep.Notary.Code()):
		l.failed = true
	}
}

// attempted counts one attempt at a recipient in this line.
func (v *vertex) attempted(i int) {
	r := v.at(i)
	r.state = reported
	if r.attempts < ^uint16(0) {
		r.attempts++
	}
}

// saidMost bounds what is kept of an agent's words, in bytes. Of a
// transcript the end says what happened.
const saidMost = 1000

// say keeps the last word about a recipient. Recipients of a thread that
// were told the same share it.
func (v *vertex) say(i int, rep *ta.Report) {
	text, notary := rep.Text, string(rep.Notary)
	if len(text) > saidMost {
		text = text[len(text)-saidMost:]
	}
	if len(notary) > saidMost {
		notary = notary[:saidMost]
	}
	if text == "" && notary == "" {
		return
	}
	if said := v.thread.said; said != nil && said.text == text && said.notary == notary {
		v.at(i).last = said
		return
	}
	v.at(i).last = &diagnostic{notary: strings.Clone(notary), text: strings.Clone(text)}
	v.thread.said = v.at(i).last
}

// destinationCode reports whether an enhanced status code blames the
// destination as a whole: x.4.1 no answer, x.4.2 bad connection (RFC 3463).
func destinationCode(code string) bool {
	if len(code) < 5 || code[0] != '4' && code[0] != '5' || code[1:4] != ".4." {
		return false
	}
	return (code[4] == '1' || code[4] == '2') && (len(code) == 5 || code[5] < '0' || code[5] > '9')
}

// retryTime is the time a retryat names, within sense: from a second to the
// time of expiry from now.
func (s *Scheduler) retryTime(v *vertex, r ta.Retry) instant {
	most := v.thread.params.Expiry
	if most == 0 {
		most = longestRetry
	}
	seconds := max(r.Seconds, 0)
	if now := s.now.time().Unix(); !r.Relative {
		seconds = max(seconds, now) - now
	}
	seconds = min(seconds, int64(most/time.Second))
	return s.now.after(max(time.Duration(seconds)*time.Second, shortestRetry))
}

// endLine ends the agent's job line for the vertex and draws what follows
// from it: a failed destination suspends the thread, what is still open of
// the vertex takes one retry step.
func (s *Scheduler) endLine(a *agent, v *vertex) {
	n := 0
	for a.lines[n].v != v {
		n++
	}
	l := &a.lines[n]
	l.v = nil
	s.ended(a)
	t := l.t
	if v.state == 0 { // its last recipient is done, it is gone
		s.judge(l, t)
		return
	}
	v.deaths = 0
	s.judge(l, t)
	if l.retryAt != 0 {
		s.postpone(v, l.retryAt)
		return
	}
	s.step(v)
}

// judge draws the consequences of an ended line for its thread. What was fed
// before a suspension never moves the thread's retries again.
func (s *Scheduler) judge(l *line, t *thread) {
	switch {
	case l.retryAt != 0:
		s.suspend(t, max(l.retryAt, t.suspendedTill))
	case !l.failed:
		t.retry = 0
	case l.suspensions == t.suspensions:
		s.suspend(t, s.now.after(s.suspendFor(t)))
	}
}

// step moves what is open of a vertex by one retry step, or expires it.
// Recipients that no report named count as attempted. Where nothing was tried
// and an alternative's turn has come, that is due at once.
func (s *Scheduler) step(v *vertex) {
	tried := false
	for i := range v.len() {
		switch r := v.at(i); r.state {
		case open:
			v.attempted(i)
			tried = true
		case reported:
			tried = true
		}
	}
	v.reopen()
	switch {
	case tried:
		wait, next := retryStep(v.thread.params, v.retry, s.now.since(v.message.modifiedAt), s.rand)
		v.retry = next
		s.postpone(v, s.now.after(wait))
	case v.message.flags&obsoleted != 0:
		s.dropVertex(v)
	case v.openNow() > 0:
		s.makeDue(v)
	default:
		s.idleVertex(v)
	}
}

// reopen makes the recipients of an ended line ready for the next.
func (v *vertex) reopen() {
	for i := range v.len() {
		if r := v.at(i); r.state == reported || r.state == promoted {
			r.state = open
		}
	}
}

// postpone has the vertex wait until then: in a queueonly thread for the next
// run. Recipients past their expiry end here.
func (s *Scheduler) postpone(v *vertex, till instant) {
	v.reopen()
	if v.message.flags&obsoleted != 0 {
		s.dropVertex(v)
		return
	}
	v.state, v.wakeAt = waiting, till
	s.expire(v)
	switch {
	case v.state == 0:
	case v.openNow() == 0:
		v.state, v.wakeAt = dormant, 0
		s.planWake(v)
	case v.thread.params.QueueOnly:
		v.state, v.wakeAt = due, 0
		v.thread.enqueue(v, true)
		s.planWake(v)
	default:
		s.planWake(v)
	}
}

// wakeVertex is the agenda's call: the vertex's wait is over, or one of its
// recipients may have expired.
func (s *Scheduler) wakeVertex(v *vertex) {
	s.expire(v)
	switch {
	case v.state == 0:
	case v.openNow() == 0:
		s.idleVertex(v)
	case v.state == waiting && v.wakeAt <= s.now:
		s.makeDue(v)
	default:
		s.planWake(v)
	}
}

// idleVertex keeps a vertex of which nothing can be fed now.
func (s *Scheduler) idleVertex(v *vertex) {
	v.thread.dequeue(v)
	s.unpoison(v)
	v.state, v.wakeAt = dormant, 0
	s.planWake(v)
	s.settleThread(v.thread)
}

// agentResync ends the agent's line for the message: it found nothing to do.
// The file is read to see what is left.
func (s *Scheduler) agentResync(id AgentID, message MessageID) {
	a := s.agents[id]
	if a == nil {
		return
	}
	a.heardAt = s.now
	for i := range a.lines {
		l := &a.lines[i]
		if l.id != message || l.ended() {
			continue
		}
		s.ended(a)
		s.takeBack(l, foundNothing, 0)
		return
	}
	s.noteAgent(Info, a, "asked to resync "+strconv.FormatUint(uint64(message), 10)+", which it was not given")
}

// takeBack ends a line that its agent did not: the file is read to see what is
// left. What the agent has said of the destination counts.
func (s *Scheduler) takeBack(l *line, why reason, pid int) {
	v := l.v
	l.v = nil
	if l.failed || l.retryAt != 0 {
		s.judge(l, l.t)
	}
	s.readAgain(v, why, pid)
}
