package scheduler

import (
	"zsched/scheduler/fair"
	"zsched/scheduler/rule"
)

// Due vertices: package fair has them in an order, and chooses what is fed next. What waits for
// the next run of a queueonly thread is due and not there: it came when the thread was not
// running, or was deferred in this run.

// fairMail tells package fair about vertices.
type fairMail struct{ *queue }

func (f fairMail) Place(v vertexRef) *fair.Place { return &f.vertices.At(v).place }

func (f fairMail) Weight(share string) int { return f.config.Weight(share) }

func (f fairMail) Message(ref vertexRef) fair.Message {
	v := f.vertices.At(ref)
	m := f.messageOf(v)
	return fair.Message{Number: uint32(m.ref), Sequence: m.sequence, ModifiedAt: int64(m.modifiedAt), Ordinal: v.ordinal}
}

func (f fairMail) Age(ref vertexRef) float64 {
	return f.date.since(f.messageOf(f.vertices.At(ref)).modifiedAt).Seconds()
}

func (f fairMail) Jobs(ref vertexRef) *fair.Jobs { return f.jobs(f.messageOf(f.vertices.At(ref))) }

// jobs returns the jobs of a message; nil: it has one vertex.
func (ml *mail) jobs(m *message) *fair.Jobs {
	if x := ml.extrasOf(m); x != nil && len(x.vertices) > 0 {
		return &x.jobs
	}
	return nil
}

func (f fairMail) EachInRing(m uint32, r *fair.Ring, do func(vertexRef)) {
	f.eachVertex(f.messages.At(messageRef(m)), func(v *vertex) {
		if v.thread != 0 && f.threadOf(v).memberOf.fair == r {
			do(v.ref)
		}
	})
}

// isMulti reports whether the message has several vertices.
func (ml *mail) isMulti(m *message) bool {
	return ml.jobs(m) != nil
}

// enqueueVertex lets picks find a due vertex. In a queueonly thread that is not running, it waits
// for the next run.
func (q *queue) enqueueVertex(t *thread, v *vertex) {
	if t.params.QueueOnly && !t.running {
		return
	}
	q.fair.Put(&t.fair, v.ref, rule.ShareName(t.params.Share, q.origin(q.messageOf(v)).address))
}

// forgetVertex counts a vertex that is removed as no longer open in its job.
func (q *queue) forgetVertex(v *vertex) {
	if jobs := q.jobs(q.messageOf(v)); jobs != nil {
		jobs.Forget(q.threadOf(v).memberOf.fair)
	}
}

// moveJobs moves the counts of a thread's vertices to the jobs of another ring.
// None of the vertices may be queued.
func (q *queue) moveJobs(t *thread, from, to *ring) {
	q.eachLoaded(t, func(v *vertex) {
		if jobs := q.jobs(q.messageOf(v)); jobs != nil {
			jobs.Forget(from.fair)
			jobs.Join(to.fair)
		}
	})
}
