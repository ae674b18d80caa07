package scheduler

import (
	"zsched/scheduler/fair"
	"zsched/scheduler/rule"
)

// Due vertices: package fair has them in an order, and chooses what is fed next. It does not have
// those that wait for the next run of a queueonly thread: they came when the thread was not
// running, or were deferred in this run.

// What package fair asks about vertices (fair.Mail).

func (ts *threads) Place(v vertexRef) *fair.Place { return &ts.s.mail.vertices.At(v).place }

func (ts *threads) Weight(share string) int { return ts.s.rules.config.Weight(share) }

func (ts *threads) Message(ref vertexRef) fair.Message {
	v := ts.s.mail.vertices.At(ref)
	m := ts.s.mail.messageOf(v)
	return fair.Message{Number: uint32(m.ref), Sequence: m.sequence, ModifiedAt: int64(m.modifiedAt), Ordinal: v.ordinal, Recipients: ts.s.mail.lenOf(v), Jobs: ts.s.mail.jobs(m)}
}

func (ts *threads) Age(ref vertexRef) float64 {
	return ts.s.agenda.date.since(ts.s.mail.messageOf(ts.s.mail.vertices.At(ref)).modifiedAt).Seconds()
}

// jobs returns the jobs of a message; nil: it has one vertex.
func (ml *mail) jobs(m *message) *fair.Jobs {
	if x := ml.extrasOf(m); x != nil && len(x.vertices) > 0 {
		return &x.jobs
	}
	return nil
}

func (ts *threads) EachInRing(m uint32, r *fair.Ring, do func(vertexRef)) {
	ts.s.mail.eachVertex(ts.s.mail.messages.At(messageRef(m)), func(v *vertex) {
		if v.thread != 0 && ts.s.mail.threadOf(v).ring.fair == r {
			do(v.ref)
		}
	})
}

// enqueueVertex lets picks find a due vertex. In a queueonly thread that is not running, it waits
// for the next run.
func (ts *threads) enqueueVertex(t *thread, v *vertex) {
	if t.params.QueueOnly && !t.running {
		return
	}
	from := ts.s.mail.senders.At(ts.s.mail.messageOf(v).sender)
	ts.fair.Put(&t.fair, v.ref, rule.ShareName(t.params.Share, from.lower, from.source))
}
