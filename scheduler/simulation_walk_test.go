package scheduler

import "slices"

// The simulation's walks through the queue: a walk shows all that was there from its beginning
// to its end, once.

// simWalk is a walk and what was in the queue when it began.
type simWalk struct {
	walk     *Walk
	threads  map[threadKey]*thread
	vertices []simVertex
	shown    map[Target]int // threads have no message
}

// simVertex is the mail of a message in a thread when the walk began.
type simVertex struct {
	message MessageID
	arrival int // harness.arrivals
	key     threadKey
}

// continueWalk begins a walk, or takes the next slice of one.
func (h *harness) continueWalk() {
	if !h.faultless && len(h.orders.walks) < 3 && h.rand.IntN(4) == 0 {
		h.orders.walks = append(h.orders.walks, h.beginWalk())
		return
	}
	if len(h.orders.walks) == 0 {
		return
	}
	i := h.rand.IntN(len(h.orders.walks))
	walk := h.orders.walks[i]
	if h.chance(2) {
		h.orders.walks = slices.Delete(h.orders.walks, i, i+1)
		return
	}
	if h.nextSlice(walk) {
		return
	}
	h.compareWalk(walk)
	h.orders.walks = slices.Delete(h.orders.walks, i, i+1)
}

func (h *harness) beginWalk() *simWalk {
	walk := &simWalk{walk: h.s.Walk(Vertices), threads: make(map[threadKey]*thread), shown: make(map[Target]int)}
	for key, t := range h.s.threads.byKey {
		walk.threads[key] = t
		for _, id := range h.messagesIn(t) {
			walk.vertices = append(walk.vertices, simVertex{id, h.arrivals[id], key})
		}
	}
	return walk
}

func (h *harness) nextSlice(walk *simWalk) (more bool) {
	items, more := walk.walk.Next(1 + h.rand.IntN(4))
	for _, item := range items {
		switch {
		case item.Thread != nil:
			walk.shown[Target{0, item.Thread.Channel, item.Thread.Host}]++
		case item.JobLine != nil:
			walk.shown[Target{MessageID(item.JobLine.Message), item.JobLine.Channel, item.JobLine.Host}]++
		}
	}
	return more
}

// compareWalk: what was there all the time was returned once.
func (h *harness) compareWalk(walk *simWalk) {
	if walk.walk.Interrupted() {
		return
	}
	for key, t := range walk.threads {
		if n := walk.shown[Target{0, key.channel, key.host}]; h.s.threads.byKey[key] == t && n != 1 {
			h.t.Fatalf("thread %v was returned %d times", key, n)
		}
	}
	for _, v := range walk.vertices {
		if h.arrivals[v.message] != v.arrival || !h.isIn(v.message, v.key) {
			continue
		}
		if n := walk.shown[Target{v.message, v.key.channel, v.key.host}]; n != 1 {
			h.t.Fatalf("message %d in %v was returned %d times", v.message, v.key, n)
		}
	}
}
