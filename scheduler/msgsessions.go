package scheduler

import (
	"zsched/scheduler/fair"
	"zsched/scheduler/limit"
)

// Sessions of one message (msgsessions, msgscale) and of one share (sharescale): a message for
// many destinations, and somebody whose mail keeps sessions for long, leave sessions for others.
//
// The rule is from Finch, Notes on an MTA scheduler (2007): a message may take
// a new session if it has fewer than msgsessions, or fewer than msgscale times
// the free ones. A share may if it has fewer than sharescale times the free ones. Of these, a
// quarter of all is kept for shares that have few: otherwise six shares with three times the free
// ones each would have all of them. What may not take one can still ride on an open session, one
// that stays on its thread.

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

// shareRoom is how many more sessions a share of the ring may take.
func (rg *rings) shareRoom(s *fair.Share, r *ring) int {
	if r.params.ShareScale == 0 {
		return limit.Unlimited
	}
	kept := max(1, rg.s.limits.sizeOf(r)/keptPart)
	return scaled(rg.s.limits.roomOf(r)-kept, max(1, kept/fewPart), r.params.ShareScale) - s.Sessions()
}

// What is kept for shares that have few sessions, as a part of all, and how many are few, as a
// part of what is kept.
const (
	keptPart = 4
	fewPart  = 50
)

// scaled is how many sessions one may have when so many are free.
func scaled(free, least, scale int) int {
	if scale == 0 {
		return least
	}
	return max(least, scale*min(free, limit.Unlimited/scale))
}

// messageLink is what limits the sessions of a message with several vertices.
func (rg *rings) messageLink(m *message, r *ring) limit.Link {
	l := limit.Open()
	l.Busy = int(rg.s.mail.extrasOf(m).sessions)
	if p := r.params; p.MsgSessions > 0 {
		l.Most = scaled(rg.s.limits.roomOf(r), p.MsgSessions, p.MsgScale)
	}
	return l
}

// releaseAside lets picks find shares again that may take new sessions, and vertices whose
// messages may: as many as there may be new sessions, not counting vertices whose
// thread is closed.
func (rg *rings) releaseAside(r *ring) {
	if r.fair.HasAsideShares() {
		r.fair.ReleaseShares(func(s *fair.Share) bool { return rg.shareRoom(s, r) > 0 })
	}
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
