package scheduler

// Job position: where a due vertex stands in the order of picks, for queries
// (share, quantum, slotcost, msgsessions).

// PositionView is where a due vertex stands in the order of picks. Its share
// waits for its turn among the shares of the ring, and its job for its place in
// the share's job list.
type PositionView struct {
	// Share is a sender, a domain, or "" for all mail and for null senders.
	// Deficit is how many vertices the share may still pick in its turn; below 0
	// it has picked too many.
	Share           string
	Weight, Deficit int
	// Turn is the share whose turn it is, and SharesBefore is how many have
	// theirs before this one.
	Turn         string
	SharesBefore int

	// Job is what is due of the message in the ring.
	Job JobView
	// JobsBefore and PicksBefore are the jobs, and their vertices, that are
	// before it in the share's job list and could be picked now. If More is set,
	// there are more than were counted.
	JobsBefore, PicksBefore int
	More                    bool
	// QuantumUsed says that the thread has used its quantum in this round.
	QuantumUsed bool
}

// JobView is the vertices of a message in one ring, at least one of which is due
// (scheduler.cf(5), slotcost).
type JobView struct {
	Size  int // vertices that were open when the first became due
	Due   int
	Slots int // that it has earned and not used; below 0: it owes them
	// Overtook is the message that it has overtaken, and OvertakenBy the last
	// one that has overtaken it, as long as they are not done. 0: none.
	Overtook, OvertakenBy MessageID
	// Sessions is how many the whole message has, and MaxSessions how many it
	// may have now in this ring (msgsessions, msgscale). 0: no limit.
	Sessions, MaxSessions int
}

const (
	// maxExplained bounds the vertices, and the shares, that are counted for an
	// Explanation.
	maxExplained = 1000
	// maxShares bounds the shares that a view counts.
	maxShares = 20_000
)

// position returns where a due vertex stands, or nil if it is in no queue. limit
// bounds what it counts.
func (s *Scheduler) position(v *vertex, limit int) *PositionView {
	if v.flow == 0 {
		return nil
	}
	f := s.flows.At(v.flow)
	p := &PositionView{Share: f.share.name, Weight: f.share.weight, Deficit: f.share.deficit, Job: s.viewJob(v)}
	p.Turn, p.SharesBefore = f.share.turnsBefore(limit)
	p.QuantumUsed = !f.hasQuantum()
	s.countBefore(v, p, limit)
	return p
}

// turnsBefore returns the share whose turn it is, and how many shares have
// theirs before this one. A share that has used up its turn comes after those
// that have not. limit bounds the shares that it counts.
func (s *share) turnsBefore(limit int) (turn string, before int) {
	turn, first, visited := s.name, never, 0
	key := s.turnKey
	if key == 0 { // it comes last
		key = never
	}
	s.ring.turns.EachBelow(never, func(other *share) bool {
		visited++
		if other.deficit > 0 && other.hasMail() {
			if other.turnKey < first {
				turn, first = other.name, other.turnKey
			}
			if other != s && (other.turnKey < key || s.deficit <= 0) {
				before++
			}
		}
		return visited < limit
	})
	return turn, before
}

// hasMail reports whether the share has due mail whose threads were not found
// closed.
func (s *share) hasMail() bool {
	for _, sz := range s.sizes {
		if sz.open.Len()+sz.spent.Len() > 0 {
			return true
		}
	}
	return false
}

// countBefore counts the vertices that are picked before v in its share, if
// nothing arrives and no job overtakes another. A thread that has used its
// quantum comes after those that have not.
func (s *Scheduler) countBefore(v *vertex, p *PositionView, limit int) {
	key := s.keyOf(v)
	jobs := make(map[messageRef]bool)
	visited := 0
	countIn := func(n flowRef) bool {
		f := s.flows.At(n)
		visited++
		below := key
		switch used := !f.hasQuantum(); {
		case visited > 10*limit:
			p.More = true
			return false
		case !f.thread.open || used && !p.QuantumUsed:
			return true
		case p.QuantumUsed && !used:
			below = never
		}
		return f.eachBelow(below, func(ref vertexRef) bool {
			if ref == v.ref {
				return true
			}
			if p.PicksBefore == limit {
				p.More = true
				return false
			}
			p.PicksBefore++
			if m := s.messageOf(s.vertices.At(ref)); s.isMulti(m) {
				jobs[m.ref] = true
			} else {
				p.JobsBefore++
			}
			return true
		})
	}
	below := key
	if p.QuantumUsed {
		below = never
	}
	for _, sz := range s.flows.At(v.flow).share.sizes {
		if !sz.open.EachBelow(below, countIn) || !sz.spent.EachBelow(below, countIn) {
			break
		}
	}
	delete(jobs, v.message)
	p.JobsBefore += len(jobs)
}

// viewJob returns the job of a due vertex.
func (s *Scheduler) viewJob(v *vertex) JobView {
	j := s.jobOf(v)
	if j == nil {
		return JobView{Size: 1, Due: 1}
	}
	view := JobView{Size: int(j.size), Due: int(j.due)}
	if j.parent != nil {
		view.Overtook = s.messages.At(j.parent.message).id
	}
	if n := len(j.children); n > 0 {
		view.OvertakenBy = s.messages.At(j.children[n-1].message).id
	}
	m, p := s.messages.At(j.message), j.ring.params
	view.Sessions = int(s.extrasOf(m).sessions)
	if p == nil {
		return view // no clause gives a command
	}
	if p.SlotCost > 0 {
		view.Slots = j.avail / p.SlotCost
	}
	view.MaxSessions = s.messageLink(m, j.ring).Most
	return view
}

// nextVertex returns the vertex of a thread that is picked next, as far as that
// is known: the first of the first share, in the order of turns, that has some
// in the thread. It is nil if none is due.
func (s *Scheduler) nextVertex(t *thread) *vertex {
	queue := t.active
	if t.queue().len() == 0 {
		queue = 1 - queue // of a queueonly thread that is not running
	}
	dq := &t.queues[queue]
	if dq.len() == 0 {
		return nil
	}
	var next vertexRef
	var of *share
	looked := 0
	for ref := range dq.flows.all {
		if looked++; looked > maxExplained && next != 0 {
			break
		}
		f := s.flows.At(ref)
		if v, _ := f.first(); v != 0 && (of == nil || f.share.before(of)) {
			next, of = v, f.share
		}
	}
	return s.vertices.At(next)
}

// before reports whether a share has its turn before another one. A share that
// has no turnKey yet comes last.
func (s *share) before(other *share) bool {
	return s.turnKey != 0 && (other.turnKey == 0 || s.turnKey < other.turnKey)
}
