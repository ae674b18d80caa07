package scheduler

import (
	"slices"

	"zsched/scheduler/limit"
)

// Sessions of one message (msgsessions, msgscale): a message for many
// destinations leaves sessions for others.
//
// The rule is from Finch, Notes on an MTA scheduler (2007): a message may take
// a new session if it has fewer than msgsessions, or fewer than msgscale times
// the free ones. A message that may not take one can still ride on an open
// session, one that stays on its thread.

// maySpread reports whether the message of a vertex may take a new session.
func (d *dispatch) maySpread(v *vertex, r *ring) bool { return d.messageRoom(v, r) > 0 }

// mayUseMore reports whether the message of a vertex may take more sessions than
// the starting agents of the ring will bring.
func (d *dispatch) mayUseMore(v *vertex, r *ring) bool { return d.messageRoom(v, r) > r.expected }

func (d *dispatch) messageRoom(v *vertex, r *ring) int {
	m := d.messageOf(v)
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

// setAside hides a vertex from picks, because its message may not take a new
// session.
func (d *dispatch) setAside(v *vertex) {
	f, key := d.flows.At(v.flow), d.keyOf(v)
	f.remove(v.ref)
	d.relink(f)
	d.obtainFlowExtras(f).limited.Put(key, v.ref)
	v.aside = true
	t := f.thread
	t.queues[v.queue].limited++
	j := d.jobOf(v)
	if len(j.aside) == 0 {
		j.ring.limited = append(j.ring.limited, j)
	}
	j.aside = append(j.aside, v.ref)
	d.updateThread(t)
}

// releaseAside lets picks find vertices again whose messages may take new
// sessions: as many as there may be new sessions, not counting vertices whose
// thread is closed.
func (d *dispatch) releaseAside(r *ring) {
	for _, j := range slices.Clone(r.limited) {
		m := d.messages.At(j.message)
		for n := d.messageLink(m, r).Room(); n > 0 && len(j.aside) > 0; {
			v := d.vertices.At(j.aside[0])
			j.aside = j.aside[1:]
			if v.message != j.message || !v.aside || d.jobOf(v) != j {
				continue
			}
			f, key := d.flows.At(v.flow), d.keyOf(v)
			f.extras.limited.Remove(v.ref)
			d.put(f, key, v.ref)
			v.aside = false
			t := f.thread
			t.queues[v.queue].limited--
			d.relink(f)
			d.updateThread(t)
			if t.open {
				n--
			}
		}
		if len(j.aside) == 0 {
			j.dropAside()
		}
	}
}

// dropAside forgets which vertices were set aside.
func (j *job) dropAside() {
	j.aside = nil
	if i := slices.Index(j.ring.limited, j); i >= 0 {
		j.ring.limited = slices.Delete(j.ring.limited, i, i+1)
	}
}

// countMessageSession counts a session that a message has taken or given back.
func (q *queue) countMessageSession(m *message, n int32) {
	if !q.isMulti(m) {
		return
	}
	x := q.extrasOf(m)
	x.sessions += n
	if n > 0 {
		return
	}
	for _, j := range x.jobs {
		if len(j.aside) > 0 {
			q.markDirty(j.ring)
		}
	}
}
