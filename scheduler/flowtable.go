package scheduler

import "math/bits"

// flowTable finds the flows of a thread by their shares. It is a hash table with linear
// probing. Its order depends only on what was added and removed. A search touches one
// cache line or two.
//
// The first bits of a hash select the slot. So the entries of a table stay in nearly the
// same order when it becomes larger, and a million of them move in a few milliseconds.
type flowTable struct {
	slots []flowSlot // their number is 0 or a power of two
	n     int32      // flows
}

// flowSlot is empty if its flow is 0.
type flowSlot struct {
	share shareRef
	flow  flowRef
}

const (
	minSlots = 2
	// keptSlots is how many slots a table keeps, however few flows it has.
	keptSlots = 8
)

func (ft *flowTable) len() int { return int(ft.n) }

// first returns the slot in which a search for the share begins.
func (ft *flowTable) first(s shareRef) int {
	const golden = 0x9E3779B9 // 2³² divided by the golden ratio spreads numbers that are close together
	return int(uint64(uint32(s)*golden) * uint64(len(ft.slots)) >> 32)
}

func (ft *flowTable) next(slot int) int { return (slot + 1) & (len(ft.slots) - 1) }

// slot returns the slot of a share, or the empty one where its search ends. There must be
// slots.
func (ft *flowTable) slot(s shareRef) *flowSlot {
	i := ft.first(s)
	for ft.slots[i].flow != 0 && ft.slots[i].share != s {
		i = ft.next(i)
	}
	return &ft.slots[i]
}

// find returns the flow of a share, or 0.
func (ft *flowTable) find(s shareRef) flowRef {
	if ft.n == 0 {
		return 0
	}
	return ft.slot(s).flow
}

// put adds the flow of a share, or replaces it.
func (ft *flowTable) put(s shareRef, f flowRef) {
	if len(ft.slots) > 0 {
		if slot := ft.slot(s); slot.flow != 0 {
			slot.flow = f
			return
		}
	}
	ft.n++
	if int(ft.n) > len(ft.slots)*3/4 {
		ft.resize(max(minSlots, 2*len(ft.slots)))
	}
	*ft.slot(s) = flowSlot{s, f}
}

// remove removes the flow of a share, which must have one.
func (ft *flowTable) remove(s shareRef) {
	i := ft.first(s)
	for ft.slots[i].share != s || ft.slots[i].flow == 0 {
		i = ft.next(i)
	}
	ft.n--
	// A flow behind it that would not be found any more moves to the empty slot, and
	// leaves its own empty.
	for next := ft.next(i); ft.slots[next].flow != 0; next = ft.next(next) {
		mask := len(ft.slots) - 1
		if first := ft.first(ft.slots[next].share); (next-first)&mask >= (next-i)&mask {
			ft.slots[i] = ft.slots[next]
			i = next
		}
	}
	ft.slots[i] = flowSlot{}
	if len(ft.slots) > keptSlots && int(ft.n) < len(ft.slots)/8 {
		ft.resize(1 << bits.Len32(uint32(ft.n)*2))
	}
}

func (ft *flowTable) resize(slots int) {
	old := ft.slots
	ft.slots = make([]flowSlot, slots)
	for _, s := range old {
		if s.flow != 0 {
			*ft.slot(s.share) = s
		}
	}
}

// all yields the flows. The table must not change meanwhile.
func (ft *flowTable) all(yield func(flowRef) bool) {
	for i := range ft.slots {
		if f := ft.slots[i].flow; f != 0 && !yield(f) {
			return
		}
	}
}
