package fair

// Picks: which vertex of a ring is fed next.

// Pick is a vertex chosen for a session. It is valid until something is put, removed or taken.
type Pick struct {
	Vertex Vertex
	// preempted is the job that the vertex's job preempts; nil: none. need is
	// how many slots that takes, and key is the new place of the vertex's job.
	preempted *Job
	need      int
	key       Key
	Staying   bool // the session stays on its thread
}

// Preempts reports whether the job of the vertex overtakes another.
func (p *Pick) Preempts() bool { return p.preempted != nil }

// Next returns the vertex that is next: in the share whose turn it is, the first of the job list
// whose thread is open. It returns 0 if there is none. The caller feeds it, or what preempts it,
// or closes its thread, or sets it aside.
func (r *Ring) Next() Vertex {
	if f := r.turn(); f != nil {
		return f.vertex
	}
	return 0
}

// Stay returns the next vertex for a session that stays on its thread, which has mail:
// the thread's first in the share whose turn it is. There is none if that share
// has none in the thread, or if its threads take turns and this one has used up
// its quantum. If no vertex of the ring can use a new session, any vertex of the
// thread can ride. While a reload moves mail to other shares, there may be none.
func (t *Thread) Stay() (Pick, bool) {
	next := t.ring.turn()
	if next == nil {
		_, v := firstOf(t.withoutTurn)
		return Pick{Vertex: v, Staying: true}, v != 0
	}
	s := next.share
	f, v := firstOf(t.eachOf(s))
	if v == 0 {
		return Pick{}, false
	}
	if !f.hasQuantum() {
		if s.firstOpen() != nil {
			return Pick{}, false
		}
		s.newRound()
	}
	return Pick{Vertex: v, Staying: true}, true
}

// Take removes a pick, and counts it against its share, its thread's quantum and its job.
func (r *Ring) Take(p Pick) {
	q := r.queue
	if p.preempted != nil {
		r.overtake(&p)
	}
	place, j := q.mail.Place(p.Vertex), q.jobOf(p.Vertex, r)
	f := q.flows.At(place.flow)
	f.charge(1 + q.mail.Message(p.Vertex).Recipients/recipientsAsVertex)
	if j != nil {
		j.avail++
	}
	q.unlink(p.Vertex, f, j)
	place.flow = 0
}
