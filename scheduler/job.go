package scheduler

// Jobs: the vertices of one message in one ring, and the order of the job list
// (ageorder).

// job is the vertices of one message in one ring. A message with one vertex has
// no value of this type: its job's size is 1, and its job's place is that of the
// message.
type job struct {
	message messageRef
	ring    *ring
	share   *share // while it has due vertices
	key     instant
	// size is how many vertices it had when the first of them became due. It
	// does not change until none is due.
	size int32
	open int32 // vertices that are not removed
	due  int32
	// avail is the number of slots that it has earned, times slotcost.
	avail int
	// parent is the job that it has overtaken or, if that job has left the list,
	// that job's parent; nil: none. reserved is the number of slots that it was
	// expected to use, and used the number that it has used so far.
	parent         *job
	children       []*job
	reserved, used int

	aside []vertexRef // vertices set aside, and some that no longer are
}

// A key of the job list consists of the message's place in the order of loading;
// some bits for jobs that have overtaken others, which get keys between those of
// two messages; and the ordinal of the vertex.
const (
	ordinalBits = 12
	keyBits     = ordinalBits + 12
	maxOrdinal  = 1<<ordinalBits - 1
)

func (m *message) key() instant { return instant(m.sequence) << keyBits }

// queueKey is the vertex's place in the job list. The list is in the order of
// loading and then of the control file, except that a job that has overtaken
// another comes before it. With ageorder, the list is in the order of the
// messages' ages.
func (q *queue) queueKey(t *thread, v *vertex) instant {
	m := q.messageOf(v)
	if t.params.AgeOrder {
		return instant(m.modifiedAt)
	}
	key := m.key()
	if j := q.jobOf(v); j != nil {
		key = j.key
	}
	return key + instant(v.ordinal)
}

// isMulti reports whether the message has several vertices.
func (ml *mail) isMulti(m *message) bool {
	x := ml.extrasOf(m)
	return x != nil && len(x.vertices) > 0
}

// jobOf returns the job of a vertex; nil if its message has one vertex, or if
// none of the message's vertices in the ring has been due yet.
func (ml *mail) jobOf(v *vertex) *job {
	m := ml.messageOf(v)
	if !ml.isMulti(m) {
		return nil
	}
	return ml.findJob(m, ml.threadOf(v).memberOf)
}

func (ml *mail) findJob(m *message, r *ring) *job {
	for _, j := range ml.extrasOf(m).jobs {
		if j.ring == r {
			return j
		}
	}
	return nil
}

// sizeOf returns the size of the vertex's job.
func (ml *mail) sizeOf(v *vertex) int32 {
	if j := ml.jobOf(v); j != nil {
		return j.size
	}
	return 1
}

// enlistVertex counts a vertex that becomes due in its job.
func (q *queue) enlistVertex(v *vertex, s *share) {
	m := q.messageOf(v)
	if !q.isMulti(m) {
		return
	}
	r := q.threadOf(v).memberOf
	j := q.findJob(m, r)
	if j == nil {
		j = &job{message: m.ref, ring: r}
		q.eachVertex(m, func(v *vertex) {
			if v.thread != 0 && q.threadOf(v).memberOf == r {
				j.open++
			}
		})
		x := q.obtainExtras(m)
		x.jobs = append(x.jobs, j)
	}
	if j.due == 0 {
		j.share, j.size, j.key, j.avail = s, j.open, m.key(), 0
	}
	j.due++
}

// delistVertex counts a vertex that is no longer due.
func (q *queue) delistVertex(v *vertex) {
	j := q.jobOf(v)
	if j == nil {
		return
	}
	j.due--
	if j.due == 0 {
		q.leaveList(j)
	}
}

// forgetVertex counts a vertex that is removed as no longer open in its job.
func (ml *mail) forgetVertex(v *vertex) {
	if j := ml.jobOf(v); j != nil {
		j.open--
	}
}

// moveJobs moves the counts of a thread's vertices to the jobs of another ring.
// None of the vertices may be queued.
func (q *queue) moveJobs(t *thread, from, to *ring) {
	q.eachLoaded(t, func(v *vertex) {
		m := q.messageOf(v)
		if !q.isMulti(m) {
			return
		}
		if j := q.findJob(m, from); j != nil {
			j.open--
		}
		if j := q.findJob(m, to); j != nil {
			j.open++
		}
	})
}

// leaveList takes a job without due vertices off the job list.
func (q *queue) leaveList(j *job) {
	q.leaveStack(j)
	for _, child := range j.children {
		child.parent = j.parent
		if j.parent != nil {
			j.parent.children = append(j.parent.children, child)
		}
	}
	j.parent, j.children, j.share = nil, nil, nil
	j.dropAside()
}
