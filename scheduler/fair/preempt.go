package fair

// Preemption: a job with few vertices overtakes one with many (slotcost,
// slotdiscount, slotloan, minslots).
//
// Each pick of a job earns it a part of a slot: slotcost picks earn one slot.
// Another job that needs no more slots than the first has earned may overtake it.
// So the delivery of a big job takes longer by a factor of at most
// slotcost/(slotcost-1), however many small jobs overtake it and each other, and
// small jobs need not wait for its end. The rules are those of Postfix's queue
// manager.

// Preempt returns the pick of the job that preempts that of the vertex, which Next has
// returned: the job with the greatest age for its size. If no job may preempt it, that is the
// vertex itself. may says whether the message of a vertex may take a new session.
func (r *Ring) Preempt(v Vertex, may func(Vertex) bool) Pick {
	cur := r.queue.jobOf(v, r)
	if cur == nil || !cur.preemptible() {
		return Pick{Vertex: v}
	}
	rules := &r.Params.Preemption
	cost := rules.SlotCost
	most := (int(cur.due) + cur.avail) / cost // slots that it can earn in total
	var best contender
	for i := range cur.share.sizes {
		f := cur.share.sizes[i].first()
		if f == nil {
			continue
		}
		c := contender{vertex: f.vertex, job: r.queue.jobOf(f.vertex, r), size: float64(f.size), key: f.key, need: 1}
		c.age = 1 + max(0, r.queue.mail.Age(f.vertex))
		if c.job != nil {
			c.need = int(c.job.due)
		}
		if c.job == cur || c.need > most {
			continue
		}
		if best.vertex == 0 || c.before(&best) {
			best = c
		}
	}
	if best.vertex == 0 || cur.avail/cost+rules.SlotLoan < best.need*(100-rules.SlotDiscount)/100 ||
		!may(best.vertex) {
		return Pick{Vertex: v}
	}
	p := Pick{Vertex: best.vertex, preempted: cur, need: best.need}
	if best.job != nil {
		key, ok := cur.keyBefore()
		if !ok {
			return Pick{Vertex: v}
		}
		p.key = key
	}
	return p
}

// contender is the first vertex of a job that may preempt another.
type contender struct {
	vertex Vertex
	job    *Job // nil: its message has no other vertex
	size   float64
	age    float64 // in seconds, and one more, so that the smaller of two new jobs is first
	key    Key
	need   int // slots
}

// before reports whether a contender has the greater age for its size.
func (c *contender) before(other *contender) bool {
	left, right := c.age*other.size, other.age*c.size
	return left > right || left == right && c.key < other.key
}

// preemptible reports whether a job has earned slots and is large enough. If
// each pick earns a slot, preemption goes one level deep only.
func (j *Job) preemptible() bool {
	p := &j.ring.Params.Preemption
	return p.SlotCost > 0 && !j.ring.Params.AgeOrder && j.avail > 0 && int(j.size) >= p.MinSlots*p.SlotCost &&
		(p.SlotCost > 1 || !j.hasOvertaken())
}

// overtake moves the job of the pick ahead of the one that it preempts, and
// reserves the slots.
func (r *Ring) overtake(p *Pick) {
	q, cur, cost := r.queue, p.preempted, r.Params.Preemption.SlotCost
	j := q.jobOf(p.Vertex, r)
	if j == nil {
		cur.avail -= cost
		return
	}
	cur.avail -= p.need * cost
	j.key = p.key
	q.mail.EachInRing(j.Message, r, func(v Vertex) {
		place := q.mail.Place(v)
		if place.flow == 0 {
			return
		}
		f, m := q.flows.At(place.flow), q.mail.Message(v)
		key := r.key(&m, j)
		if f.hasAside(v) {
			f.extras.aside.Put(key, v)
			return
		}
		q.put(f, key, v)
		f.relink()
	})
}

// keyBefore returns a key between the job and the message before it, if there is room. Jobs that
// have overtaken the same one may have the same key.
func (j *Job) keyBefore() (Key, bool) {
	low := (j.key - 1) >> keyBits << keyBits
	key := (low + (j.key-low)/2) >> ordinalBits << ordinalBits
	return key, key > low
}

// hasOvertaken reports whether the job comes before its message's place in the job list.
func (j *Job) hasOvertaken() bool { return j.key&(1<<keyBits-1) != 0 }
