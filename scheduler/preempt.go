package scheduler

import "slices"

// Preemption: a job with few vertices overtakes one with many (slotcost,
// slotdiscount, slotloan, minslots).
//
// Each pick of a job earns it a part of a slot: slotcost picks earn one slot.
// Another job that needs no more slots than the first has earned may overtake it.
// So the delivery of a big job takes longer by a factor of at most
// slotcost/(slotcost-1), however many small jobs overtake it and each other, and
// small jobs need not wait for its end. The rules are those of Postfix's queue
// manager.

// preempt returns the pick of the job that preempts the current one: the job
// with the greatest age for its size. The current job is the first in list order
// that can be picked. If no job may preempt it, preempt returns p.
func (d *dispatch) preempt(p pick) pick {
	v := p.vertex
	cur := d.jobOf(v)
	if cur == nil || !cur.preemptible() {
		return p
	}
	params := cur.ring.params
	cost := params.SlotCost
	most := (int(cur.due) + cur.avail) / cost // slots that it can earn in total
	var best *vertex
	bestNeed := 0
	for i := range cur.share.sizes {
		sz := &cur.share.sizes[i]
		f := sz.first()
		if f == nil {
			continue
		}
		other := d.vertices.At(f.vertex)
		j, need := d.jobOf(other), 1
		if j != nil {
			need = int(j.due)
		}
		if j == cur || need > most || j != nil && len(j.children) > 0 {
			continue
		}
		if best == nil || d.before(other, int(sz.size), best, int(d.sizeOf(best))) {
			best, bestNeed = other, need
		}
	}
	if best == nil || cur.avail/cost+params.SlotLoan < bestNeed*(100-params.SlotDiscount)/100 ||
		!d.maySpread(best, cur.ring) {
		return p
	}
	return pick{vertex: best, preempted: cur, need: bestNeed}
}

// preemptible reports whether a job has earned slots and is large enough. If
// each pick earns a slot, preemption goes one level deep only.
func (j *job) preemptible() bool {
	p := j.ring.params
	return p.SlotCost > 0 && !p.AgeOrder && j.avail > 0 && int(j.size) >= p.MinSlots*p.SlotCost &&
		(p.SlotCost > 1 || j.parent == nil)
}

// before reports whether vertex a has the greater age for the size of its job.
// A second is added to each age, so that the smaller of two new jobs is first.
func (d *dispatch) before(a *vertex, sizeA int, b *vertex, sizeB int) bool {
	age := func(v *vertex) float64 { return 1 + max(0, d.date.since(d.messageOf(v).modifiedAt).Seconds()) }
	left, right := age(a)*float64(sizeB), age(b)*float64(sizeA)
	return left > right || left == right && d.keyOf(a) < d.keyOf(b)
}

// overtake moves the job of the pick ahead of the one that it preempts, and
// reserves the slots. It reports whether there was room between the keys.
func (d *dispatch) overtake(p pick) bool {
	cur, j := p.preempted, d.jobOf(p.vertex)
	cost := cur.ring.params.SlotCost
	if j == nil {
		cur.avail -= cost
		return true
	}
	key, ok := cur.keyBefore()
	if !ok {
		return false
	}
	d.leaveStack(j)
	j.parent, j.reserved, j.used = cur, p.need, 0
	cur.children = append(cur.children, j)
	cur.avail -= p.need * cost
	j.key = key
	j.share.moved = append(j.share.moved, j)
	d.eachVertex(d.messages.At(j.message), func(v *vertex) {
		if v.flow == 0 || d.jobOf(v) != j {
			return
		}
		f, key := d.flows.At(v.flow), d.queueKey(d.threadOf(v), v)
		if v.aside {
			f.extras.limited.Put(key, v.ref)
			return
		}
		d.put(f, key, v.ref)
		d.relink(f)
	})
	return true
}

// keyBefore returns a key between the job and the one before it, if there is
// room.
func (j *job) keyBefore() (instant, bool) {
	low := (j.key - 1) >> keyBits << keyBits
	for _, other := range j.share.moved {
		if other.key < j.key {
			low = max(low, other.key)
		}
	}
	key := (low + (j.key-low)/2) >> ordinalBits << ordinalBits
	return key, key > low
}

// countSlots counts a pick of a job: from the job list, or for a session that
// stays on its thread. The latter is not charged to the parent.
func (j *job) countSlots(staying bool) {
	j.avail++
	if !staying {
		j.used++
	}
}

// leaveStack removes a job from the children of the job that it has preempted.
// The parent gets back the slots that the job did not use, and pays for those
// that it used in addition.
func (q *queue) leaveStack(j *job) {
	if j.share != nil {
		if i := slices.Index(j.share.moved, j); i >= 0 {
			j.share.moved = slices.Delete(j.share.moved, i, i+1)
		}
	}
	parent := j.parent
	if parent == nil {
		return
	}
	parent.avail += (j.reserved - j.used) * j.ring.params.SlotCost
	i := slices.Index(parent.children, j)
	parent.children = slices.Delete(parent.children, i, i+1)
}
