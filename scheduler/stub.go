package scheduler

import "zsched/scheduler/store"

// Stubs: what stays in memory of a message that is not loaded (PARAMactive-limit,
// PARAMrecipient-limit). unload.go says when a message is unloaded, load.go when it is loaded
// again.

// stub stands for a vertex of a message whose control file must be read before the vertex can
// be fed. A message is either wholly loaded or wholly stubs. A stub has no pointers (see package store).
//
// A stub is due (threadStubs.due), or it waits (threadStubs.times): until its retry, or without an
// end if it is the turn of another alternative, or if it waits for the next run of a queueonly
// thread. While its file is being read, it is in neither.
type stub struct {
	id                   MessageID
	modifiedAt           date // mtime of the message file
	thread               threadRef
	store.Links[stubRef]           // in the thread
	next                 stubRef   // of the message, in the order of its vertices; 0: none
	index                int32     // in threadStubs.due or times; 0: it is being read
	offset               uint32    // of the first recipient, for the saved state
	open                 int32     // recipients that are not done
	history                        // as in vertex
	attempts             uint8     // the fewest of its recipients; stops at the maximum
	flags                stubFlags // and how many hash levels the path has
}

type (
	stubRef   uint32
	stubFlags uint8
)

const (
	stubLevels      stubFlags = 3         // two bits: 0 to 2 levels
	stubTried       stubFlags = 2 << iota // each recipient had an attempt since the process was started
	stubMustAttempt                       // it was held, and must have an attempt before it can expire
	stubDue                               // it is in threadStubs.due
)

// unloaded has all mail that is not loaded.
type unloaded struct {
	stubs     store.Slab[stubRef, stub]
	byID      store.SlabIndex[stubRef]      // the first stub of each message
	logHashes store.Column[stubRef, uint32] // of the Message-ID, for the first stub of a message
	looks     watch[stubRef]                // when something must be written: an expiry, a notice
	lastDue   instant                       // last key in a threadStubs.due
	loading   map[MessageID]*load           // being read
	urgent    []MessageID                   // to be loaded because something must be written, in order
	isUrgent  map[MessageID]bool            // of those in urgent
	writes    int                           // loads of urgent mail under way
	filling   store.List[*thread]           // with due stubs, and little mail that is loaded
	// What is not loaded. Messages that are being read count as loaded.
	messages, recipients int
	candidates           []candidate // messages that may be unloaded at the end of the Step

	// Where a stub keeps its places in its thread.
	links func(stubRef) *store.Links[stubRef]
	index func(stubRef) *int32
}

// threadStubs is the stubs of a thread.
type threadStubs struct {
	all   store.List[stubRef]
	due   store.Heap[instant, stubRef] // in the order in which they became due
	times store.Heap[instant, stubRef] // by the end of their wait; never: something else must happen
	wake  timer                        // at the first of times
	// loading is how many of those that are due are being read.
	loading int
	// hungry says that it is in ring.hungry, and filling that it is in unloaded.filling.
	hungry, filling           bool
	hungryLinks, fillingLinks store.Links[*thread]
}

func (u *unloaded) init() {
	u.byID = store.NewSlabIndex(func(n stubRef) uint64 { return uint64(u.stubs.At(n).id) })
	u.loading, u.isUrgent = make(map[MessageID]*load), make(map[MessageID]bool)
	u.links = func(n stubRef) *store.Links[stubRef] { return &u.stubs.At(n).Links }
	u.index = func(n stubRef) *int32 { return &u.stubs.At(n).index }
	u.looks.first = noLook
	u.filling.Of = func(t *thread) *store.Links[*thread] { return &t.stubs.fillingLinks }
}

// find returns the first stub of a message, or 0.
func (u *unloaded) find(id MessageID) stubRef { return u.byID.Find(uint64(id)) }

// of returns the stubs of a message, by the first of them.
func (u *unloaded) of(first stubRef) (all []stubRef) {
	for n := first; n != 0; n = u.stubs.At(n).next {
		all = append(all, n)
	}
	return all
}

// openOf counts the recipients of a message that are not done.
func (u *unloaded) openOf(first stubRef) (open int) {
	for n := first; n != 0; n = u.stubs.At(n).next {
		open += int(u.stubs.At(n).open)
	}
	return open
}

// withMessageID returns the first stubs of the messages that may have the Message-ID. A false
// match is possible, because the hash has 32 bits.
func (u *unloaded) withMessageID(messageID string) (found []stubRef) {
	hash := shortHash(hashMessageID(messageID))
	for n, h := range u.logHashes.All {
		if h == hash && hash != 0 {
			found = append(found, n)
		}
	}
	return found
}

func shortHash(logHash uint64) uint32 {
	if logHash == 0 {
		return 0
	}
	return max(1, uint32(logHash>>32)^uint32(logHash))
}

// stubThread returns the thread of a stub.
func (lo *loads) stubThread(s *stub) *thread { return *lo.s.mail.threadTable.At(s.thread) }

// path returns the name of the control file below transport/.
func (s *stub) path() string { return pathOf(s.id, int(s.flags&stubLevels)) }

func (lo *loads) obtainStubs(t *thread) *threadStubs {
	if t.stubs == nil {
		x := new(threadStubs)
		x.all.Of, x.due.Index, x.times.Index = lo.unloaded.links, lo.unloaded.index, lo.unloaded.index
		x.wake.due = func() { lo.s.agenda.work += lo.wakeStubs(t) }
		t.stubs = x
	}
	return t.stubs
}

// size is how many vertices the thread has, loaded or not.
func (t *thread) size() int { return t.vertices.Len + t.notLoaded() }

// isEmpty reports whether the thread has no mail.
func (t *thread) isEmpty() bool { return t.size() == 0 }

// notLoaded is how many vertices of the thread are not loaded.
func (t *thread) notLoaded() int {
	if t.stubs == nil {
		return 0
	}
	return t.stubs.all.Len
}

// dueStubs is how many due stubs may be loaded.
func (t *thread) dueStubs() int {
	if t.stubs == nil {
		return 0
	}
	return t.stubs.due.Len()
}

// addStub makes the stub of a vertex that is unloaded, and puts it into its thread.
func (lo *loads) addStub(m *message, v *vertex) stubRef {
	t := lo.s.mail.threadOf(v)
	n, s := lo.unloaded.stubs.Alloc()
	s.id, s.modifiedAt, s.thread, s.open = m.id, m.modifiedAt, t.ref, lo.s.mail.openOf(v)
	s.history, s.flags = v.history, stubFlags(m.levels())
	lo.describeRecipients(s, v)
	lo.obtainStubs(t).all.Append(n)
	switch at := lo.s.threads.wakeAt(v); {
	case at != 0:
		lo.putStub(t, n, at)
	case v.state == due && v.place.Queued():
		lo.putStub(t, n, 0)
	default:
		lo.putStub(t, n, never)
	}
	t.modTimes.add(m.modifiedAt.second())
	t.ring.vertices++
	lo.s.mail.counts.Vertices++
	return n
}

// describeRecipients sets what a stub keeps of the recipients of its vertex.
func (lo *loads) describeRecipients(s *stub, v *vertex) {
	set := func(flag stubFlags, on bool) {
		if on {
			s.flags |= flag
		}
	}
	tried := true
	s.attempts = ^uint8(0)
	for i := range lo.s.mail.lenOf(v) {
		r := lo.s.mail.recipient(v, i)
		if r.state == done {
			continue
		}
		if s.offset == 0 {
			s.offset = r.offset
		}
		s.attempts = uint8(min(uint16(s.attempts), r.attempts))
		tried = tried && r.tried()
		set(stubMustAttempt, r.flags&mustAttempt != 0)
	}
	set(stubTried, tried)
}

// dropStub takes a stub, which has been read, out of its thread and frees it. The index of its
// message must not find it any more.
func (lo *loads) dropStub(n stubRef, at instant) {
	s := lo.unloaded.stubs.At(n)
	t := lo.stubThread(s)
	lo.countStub(t, at, -1)
	for _, w := range lo.s.mail.walks {
		w.stubLeaves(n)
	}
	t.stubs.all.Remove(n)
	t.recipients -= int(s.open)
	t.modTimes.remove(s.modifiedAt.second())
	t.ring.vertices--
	lo.s.mail.counts.Vertices--
	lo.s.mail.counts.Recipients -= int(s.open)
	lo.unloaded.looks.set(n, noDate)
	lo.unloaded.logHashes.Set(n, 0)
	lo.unloaded.stubs.Release(n)
}
