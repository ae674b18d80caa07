package scheduler

import (
	"zsched/scheduler/fair"
	"zsched/scheduler/rule"
)

// Due vertices: package fair has them in an order, and chooses what is fed next. What waits for
// the next run of a queueonly thread is due and not there: it came when the thread was not
// running, or was deferred in this run.

// What package fair asks about vertices (fair.Mail).

func (q *queue) Place(v vertexRef) *fair.Place { return &q.vertices.At(v).place }

func (q *queue) Weight(share string) int { return q.config.Weight(share) }

func (q *queue) Message(ref vertexRef) fair.Message {
	v := q.vertices.At(ref)
	m := q.messageOf(v)
	return fair.Message{Number: uint32(m.ref), Sequence: m.sequence, ModifiedAt: int64(m.modifiedAt), Ordinal: v.ordinal}
}

func (q *queue) Age(ref vertexRef) float64 {
	return q.date.since(q.messageOf(q.vertices.At(ref)).modifiedAt).Seconds()
}

func (q *queue) Jobs(ref vertexRef) *fair.Jobs { return q.jobs(q.messageOf(q.vertices.At(ref))) }

// jobs returns the jobs of a message; nil: it has one vertex.
func (ml *mail) jobs(m *message) *fair.Jobs {
	if x := ml.extrasOf(m); x != nil && len(x.vertices) > 0 {
		return &x.jobs
	}
	return nil
}

func (q *queue) EachInRing(m uint32, r *fair.Ring, do func(vertexRef)) {
	q.eachVertex(q.messages.At(messageRef(m)), func(v *vertex) {
		if v.thread != 0 && q.threadOf(v).memberOf.fair == r {
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
