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
func (d *dispatch) maySpread(v vertexRef, r *ring) bool { return d.messageRoom(v, r) > 0 }

// mayUseMore reports whether the message of a vertex may take more sessions than
// the starting agents of the ring will bring.
func (d *dispatch) mayUseMore(v vertexRef, r *ring) bool { return d.messageRoom(v, r) > r.expected }

func (d *dispatch) messageRoom(v vertexRef, r *ring) int {
	m := d.messageOf(d.vertices.At(v))
	if !d.isMulti(m) {
		return limit.Unlimited
	}
	return d.messageLink(m, r).Room()
}

// messageLink is what limits the sessions of a message with several vertices.
func (d *dispatch) messageLink(m *message, r *ring) limit.Link {
	l := limit.Open()
	l.Busy = int(d.extrasOf(m).sessions)
	p := r.params
	if p.MsgSessions == 0 {
		return l
	}
	most := p.MsgSessions
	if p.MsgScale > 0 {
		free := d.freeSessions(r)
		if free >= limit.Unlimited {
			return l
		}
		most = max(most, p.MsgScale*free)
	}
	l.Most = most
	return l
}

// freeSessions is how many more sessions the ring could start under maxring,
// maxchannel and maxta.
func (d *dispatch) freeSessions(r *ring) int {
	links := d.ringLinks(r)
	free := limit.Chain(links[:]).Room()
	if processes := d.processLinks(r)[ofAllProcesses]; processes.Most > 0 {
		sessions := (processes.Room()+d.counts.AgentsIdle)*max(1, r.params.Sessions) + r.expected
		for _, a := range r.free {
			sessions += a.freeSessions
		}
		free = min(free, sessions)
	}
	return max(0, free)
}

// releaseAside lets picks find vertices again whose messages may take new
// sessions: as many as there may be new sessions, not counting vertices whose
// thread is closed.
func (d *dispatch) releaseAside(r *ring) {
	for _, j := range r.fair.Aside() {
		for n := d.messageLink(d.messages.At(messageRef(j.Message)), r).Room(); n > 0; {
			ref := j.Release()
			if ref == 0 {
				break
			}
			t := d.threadOf(d.vertices.At(ref))
			d.updateThread(t)
			if t.fair.IsOpen() {
				n--
			}
		}
	}
}

// countMessageSession counts a session that a message has taken or given back.
func (q *queue) countMessageSession(m *message, n int32) {
	if !q.isMulti(m) {
		return
	}
	x := q.extrasOf(m)
	x.sessions += n
	if n < 0 {
		x.jobs.WakeAside()
	}
}
