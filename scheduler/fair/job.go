package fair

import (
	"slices"

	"zsched/scheduler/store"
)

// Jobs: the vertices of one message in one ring, and the order of the job list
// (ageorder).

// Job is the vertices of one message in one ring. A message with one vertex has
// no value of this type: its job's size is 1, and its job's place is that of the
// message.
type Job struct {
	Message uint32 // its number
	ring    *Ring
	share   *Share // while it has due vertices
	key     Key
	// size is how many vertices it had when the first of them became due. It
	// does not change until none is due.
	size int32
	due  int32
	// avail is the number of slots that it has earned, times slotcost.
	avail int
	aside []Vertex // vertices set aside, and some that no longer are
}

// Jobs are the jobs of a message: one for each ring in which it has had due vertices.
type Jobs []*Job

// A key of the job list consists of the message's place in the order of loading;
// some bits for jobs that have overtaken others, which get keys between those of
// two messages; and the ordinal of the vertex.
const (
	ordinalBits = 12
	keyBits     = ordinalBits + 12
	// MaxOrdinal is the greatest ordinal of a vertex. All after that have it too.
	MaxOrdinal = 1<<ordinalBits - 1
)

func (m *Message) key() Key { return Key(m.Sequence) << keyBits }

// key is a vertex's place in the job list. The list is in the order of
// loading and then of the control file, except that a job that has overtaken
// another comes before it. With ageorder, the list is in the order of the
// messages' ages. The job is nil if the message has one vertex.
func (r *Ring) key(m *Message, j *Job) Key {
	switch {
	case r.Params.AgeOrder:
		return Key(m.ModifiedAt)
	case j != nil:
		return j.key + Key(m.Ordinal)
	}
	return m.key() + Key(m.Ordinal)
}

// find returns the job in a ring; nil if no vertex of the message has been due there yet.
func (js Jobs) find(r *Ring) *Job {
	for _, j := range js {
		if j.ring == r {
			return j
		}
	}
	return nil
}

// jobOf returns the job of a vertex in its ring; nil if its message has one vertex.
func (q *Queue) jobOf(v Vertex, r *Ring) *Job {
	if jobs := q.mail.Message(v).Jobs; jobs != nil {
		return jobs.find(r)
	}
	return nil
}

// enlist counts a vertex that becomes due in its job.
func (js *Jobs) enlist(s *Share, m *Message) *Job {
	j := js.find(s.ring)
	if j == nil {
		j = &Job{Message: m.Number, ring: s.ring}
		*js = append(*js, j)
	}
	j.share = s // another one after a reload that changes the keyword
	if j.due == 0 {
		j.size, j.key, j.avail = 0, m.key(), 0
		s.ring.queue.mail.EachInRing(m.Number, s.ring, func(Vertex) { j.size++ })
	}
	j.due++
	return j
}

// leaveList takes a job without due vertices off the job list.
func (j *Job) leaveList() {
	j.share = nil
	j.dropAside()
}

// SetAside hides a queued vertex from picks, because its message may not take a new session. The
// message must have others.
func (r *Ring) SetAside(v Vertex) {
	q := r.queue
	f := q.flows.At(q.mail.Place(v).flow)
	key := f.keyOf(v)
	f.remove(v)
	f.relink()
	q.obtainExtras(f).aside.Put(key, v)
	f.thread.aside++
	j := q.jobOf(v, r)
	if len(j.aside) == 0 {
		r.aside = append(r.aside, j)
	}
	j.aside = append(j.aside, v)
}

// IsAside reports whether a vertex is queued and set aside.
func (q *Queue) IsAside(v Vertex) bool {
	ref := q.mail.Place(v).flow
	return ref != 0 && q.flows.At(ref).hasAside(v)
}

// Aside returns the jobs with vertices that are set aside.
func (r *Ring) Aside() []*Job { return slices.Clone(r.aside) }

// WakeAside tells the rings in which vertices of the message are set aside.
func (js Jobs) WakeAside() {
	for _, j := range js {
		if len(j.aside) > 0 {
			j.ring.wake()
		}
	}
}

// Release lets picks find the vertex again that was set aside first. It returns it, or 0 if there
// is none.
func (j *Job) Release() Vertex {
	for len(j.aside) > 0 {
		v := j.aside[0]
		if j.aside = j.aside[1:]; len(j.aside) == 0 {
			j.dropAside()
		}
		if j.isAside(v) {
			q := j.ring.queue
			f := q.flows.At(q.mail.Place(v).flow)
			key := f.keyOf(v)
			f.extras.aside.Remove(v)
			f.thread.aside--
			q.put(f, key, v)
			f.relink()
			return v
		}
	}
	return 0
}

// isAside reports whether a vertex that was set aside still is. Its number may be that of another
// by now.
func (j *Job) isAside(v Vertex) bool {
	q := j.ring.queue
	return q.IsAside(v) && q.mail.Message(v).Number == j.Message && q.flows.At(q.mail.Place(v).flow).share.ring == j.ring
}

// dropAside forgets which vertices were set aside.
func (j *Job) dropAside() {
	j.aside = nil
	if i := slices.Index(j.ring.aside, j); i >= 0 {
		j.ring.aside = store.Delete(j.ring.aside, i)
	}
}
