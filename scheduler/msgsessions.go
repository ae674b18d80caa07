package scheduler

import "zsched/scheduler/limit"

// Sessions of one message (msgsessions, msgscale): a message for many
// destinations leaves sessions for others.
//
// The rule is from Finch, Notes on an MTA scheduler (2007): a message may take
// a new session if it has fewer than msgsessions, or fewer than msgscale times
// the free ones. A message that may not take one can still ride on an open
// session, one that stays on its thread.

// maySpread reports whether the message of a vertex may take a new session.
func (rg *rings) maySpread(v vertexRef, r *ring) bool { return rg.messageRoom(v, r) > 0 }

// messageRoom is how many more sessions the message of a vertex may take.
func (rg *rings) messageRoom(v vertexRef, r *ring) int {
	m := rg.s.mail.messageOf(rg.s.mail.vertices.At(v))
	if rg.s.mail.jobs(m) == nil {
		return limit.Unlimited
	}
	return rg.messageLink(m, r).Room()
}

// messageLink is what limits the sessions of a message with several vertices.
func (rg *rings) messageLink(m *message, r *ring) limit.Link {
	l := limit.Open()
	l.Busy = int(rg.s.mail.extrasOf(m).sessions)
	p := r.params
	if p.MsgSessions == 0 {
		return l
	}
	most := p.MsgSessions
	if p.MsgScale > 0 {
		most = max(most, p.MsgScale*min(rg.s.limits.roomOf(r), limit.Unlimited/p.MsgScale))
	}
	l.Most = most
	return l
}

// releaseAside lets picks find vertices again whose messages may take new
// sessions: as many as there may be new sessions, not counting vertices whose
// thread is closed.
func (rg *rings) releaseAside(r *ring) {
	for _, j := range r.fair.Aside() {
		for n := rg.messageLink(rg.s.mail.messages.At(messageRef(j.Message)), r).Room(); n > 0; {
			ref := j.Release()
			if ref == 0 {
				break
			}
			t := rg.s.mail.threadOf(rg.s.mail.vertices.At(ref))
			rg.s.threads.updateThread(t)
			if t.fair.IsOpen() {
				n--
			}
		}
	}
}

// countMessageSession counts a session that a message has taken or given back.
func (rg *rings) countMessageSession(m *message, n int32) {
	if x := rg.s.mail.extrasOf(m); x != nil {
		x.sessions += n
		if n < 0 {
			x.jobs.WakeAside()
		}
	}
}
