package scheduler

// Records: messages beyond the limits on memory (PARAMactive-limit,
// PARAMrecipient-limit). memory.go says which messages these are.

// record is a vertex of a message that is on record: its control file is read
// again (Load) before the vertex can be fed. A message is either wholly in memory
// or wholly on record. A record takes the place of its vertex in the list of the
// thread, so that all lists and counts have it. It has no pointers (see slab).
//
// Its state is due, waiting, blocked or poisoned, as in a vertex. Nobody works
// on its files until it has been read again.
type record struct {
	id               MessageID
	modifiedAt       date
	wakeAt           second // of a waiting record, rounded up
	lookAt           second // its time in the calendar; 0: none
	logHash          uint32 // of the log identity; 0: none
	thread           threadRef
	links[vertexRef]                  // in the thread
	looks            links[recordRef] // in a second of the calendar
	queued           links[recordRef] // in a queue of its thread, or in memory.urgent
	byID, byLog      recordRef        // next in a chain of recordIndex; only in a message's first record
	next             recordRef        // of the message, in the order of its vertices; 0: none
	more             recipientsRef    // as in the vertex
	first            recipient
	fedAt            second // the last time; 0: never
	// suspensionsWhenDue is as in the vertex.
	suspensionsWhenDue uint32
	flags              recordFlags
	state              vertexState
	retry              uint8 // as in the vertex
}

type (
	recordRef   uint32
	recordFlags uint16
)

const (
	// The message's flags, and how deep its path is.
	recordNullSender recordFlags = 1 << iota
	recordOneLevel               // the path has one hash level
	recordTwoLevels              // the path has two
	recordDestinationFailed
	recordInRetryStep
	// recordNextRun says that a due record is in the queue with index 1 of its
	// thread.
	recordNextRun
	recordQueued  // in a queue of its thread
	recordUrgent  // in memory.urgent
	recordLoading // the control file is being read
	// recordReadAtLook says that the file must be read at lookAt, because there
	// is something to write: a notice, a deadline, or a read that failed.
	recordReadAtLook
	// recordCrash is the unit of the two bits that count the agents in a row that
	// died on it, as in the vertex: 0 to maxCrashes.
	recordCrash
	recordCrashes = maxCrashes * recordCrash
)

// recordBit distinguishes records from vertices in the list of a thread.
const recordBit vertexRef = 1 << 31

func (ref recordRef) inThread() vertexRef { return vertexRef(ref) | recordBit }

func (ref vertexRef) record() recordRef { return recordRef(ref &^ recordBit) }

func (ref vertexRef) isRecord() bool { return ref&recordBit != 0 }

// recordExtras has the fields that few messages on record need.
type recordExtras struct {
	path               string  // if the number and the levels do not give it
	recipients, failed int32   // as in message
	noticeAt           instant // of the planned notice; 0: none
	deadlineAt         instant // of the next deadline (DELIVERBY); 0: none
	orders             []*recordedOrder
	obsoletedBy        []obsoletion
}

// recordBook has the records of all messages that are on record.
type recordBook struct {
	items  slab[recordRef, record]
	byID   recordIndex // the first record of each message
	byLog  recordIndex // the same, by the hash of the log identity
	extras map[MessageID]*recordExtras
}

func (b *recordBook) init() {
	b.extras = make(map[MessageID]*recordExtras)
	b.byID = recordIndex{
		hash: func(n recordRef) uint64 { return mix(uint64(b.items.at(n).id)) },
		next: func(n recordRef) *recordRef { return &b.items.at(n).byID },
	}
	b.byLog = recordIndex{
		hash: func(n recordRef) uint64 { return mix(uint64(b.items.at(n).logHash)) },
		next: func(n recordRef) *recordRef { return &b.items.at(n).byLog },
	}
}

// add puts a message on record into the indexes, by its first record.
func (b *recordBook) add(first recordRef) {
	b.byID.add(first)
	if b.items.at(first).logHash != 0 {
		b.byLog.add(first)
	}
}

// remove takes a message on record out of the indexes and frees its records.
func (b *recordBook) remove(first recordRef) {
	rec := b.items.at(first)
	b.byID.remove(first)
	if rec.logHash != 0 {
		b.byLog.remove(first)
	}
	delete(b.extras, rec.id)
	b.each(first, func(n recordRef, _ *record) { b.items.release(n) })
}

// find returns the first record of a message, or 0.
func (b *recordBook) find(id MessageID) recordRef {
	for n := b.byID.chain(mix(uint64(id))); n != 0; n = b.items.at(n).byID {
		if b.items.at(n).id == id {
			return n
		}
	}
	return 0
}

// eachWithLog calls f with the first record of each message that may have the
// log identity. A false match is possible, because the hash has 32 bits.
func (b *recordBook) eachWithLog(logID string, f func(recordRef)) {
	hash := shortHash(hashLogID(logID))
	var found []recordRef
	for n := b.byLog.chain(mix(uint64(hash))); n != 0; n = b.items.at(n).byLog {
		if b.items.at(n).logHash == hash {
			found = append(found, n)
		}
	}
	for _, n := range found {
		f(n)
	}
}

func shortHash(logHash uint64) uint32 {
	if logHash == 0 {
		return 0
	}
	return max(1, uint32(logHash>>32)^uint32(logHash))
}

// each calls f for the records of a message, given by the first of them.
func (b *recordBook) each(first recordRef, f func(recordRef, *record)) {
	for n := first; n != 0; {
		rec := b.items.at(n)
		next := rec.next
		f(n, rec)
		n = next
	}
}

// obtainExtras returns the extras of a message on record.
func (b *recordBook) obtainExtras(id MessageID) *recordExtras {
	x := b.extras[id]
	if x == nil {
		x = new(recordExtras)
		b.extras[id] = x
	}
	return x
}

// recordIndex finds records by a hash, in chains that are linked through the
// records (linear hashing). It takes four bytes for each record. It grows by one
// bucket at a time, so that no insertion takes long.
type recordIndex struct {
	hash    func(recordRef) uint64
	next    func(recordRef) *recordRef
	pages   [][]recordRef // the heads of the chains
	buckets uint64
	level   uint // buckets is at least 1<<level and below 2<<level
	n       uint64
}

const indexPage = 1024

func (x *recordIndex) bucket(hash uint64) *recordRef {
	i := hash & (2<<x.level - 1)
	if i >= x.buckets {
		i &= 1<<x.level - 1
	}
	return &x.pages[i/indexPage][i%indexPage]
}

// chain returns the head of the chain with the records that have the hash.
func (x *recordIndex) chain(hash uint64) recordRef {
	if x.buckets == 0 {
		return 0
	}
	return *x.bucket(hash)
}

func (x *recordIndex) add(n recordRef) {
	x.n++
	if x.n > x.buckets {
		x.grow()
	}
	head := x.bucket(x.hash(n))
	*x.next(n), *head = *head, n
}

func (x *recordIndex) remove(n recordRef) {
	at := x.bucket(x.hash(n))
	for *at != n {
		at = x.next(*at)
	}
	*at = *x.next(n)
	*x.next(n) = 0
	x.n--
}

// grow adds a bucket and divides the chain of another between the two.
func (x *recordIndex) grow() {
	if x.buckets%indexPage == 0 {
		x.pages = append(x.pages, make([]recordRef, indexPage))
	}
	x.buckets++
	if x.buckets == 1 {
		return
	}
	if x.buckets > 2<<x.level {
		x.level++
	}
	from := &x.pages[(x.buckets-1-1<<x.level)/indexPage][(x.buckets-1-1<<x.level)%indexPage]
	chain := *from
	*from = 0
	for chain != 0 {
		n := chain
		chain = *x.next(n)
		head := x.bucket(x.hash(n))
		*x.next(n), *head = *head, n
	}
}

// mix spreads the bits of a number.
func mix(n uint64) uint64 {
	n = (n ^ n>>32) * 0x9e3779b97f4a7c15
	return n ^ n>>29
}

// recordedRecipient returns the i-th recipient of a record in file order.
func (ml *mail) recordedRecipient(rec *record, i int) *recipient {
	if i == 0 {
		return &rec.first
	}
	return &(*ml.moreRecipients.at(rec.more))[i-1]
}

func (ml *mail) recordLen(rec *record) int {
	if rec.more == 0 {
		return 1
	}
	return 1 + len(*ml.moreRecipients.at(rec.more))
}

// recordOpen counts the recipients of a record that are not done.
func (ml *mail) recordOpen(rec *record) int {
	n := 0
	for i := range ml.recordLen(rec) {
		if ml.recordedRecipient(rec, i).state != done {
			n++
		}
	}
	return n
}

func (ml *mail) recordThread(rec *record) *thread { return *ml.threadTable.at(rec.thread) }

// levels is how many hash levels the path has.
func (rec *record) levels() int {
	switch {
	case rec.flags&recordTwoLevels != 0:
		return 2
	case rec.flags&recordOneLevel != 0:
		return 1
	}
	return 0
}

// replace puts an item, which is in no list, into the place of another.
func (l *list[H]) replace(old, item H) {
	var none H
	own := l.of(item)
	*own = *l.of(old)
	*l.of(old) = links[H]{}
	if own.prev == none {
		l.head = item
	} else {
		l.of(own.prev).next = item
	}
	if own.next == none {
		l.tail = item
	} else {
		l.of(own.next).prev = item
	}
}

// undoRetryStep does for a record what undoRetryStep of vertex does for a vertex.
func (rec *record) undoRetryStep() {
	if rec.flags&recordInRetryStep != 0 && rec.retry > 0 {
		rec.retry--
	}
	rec.flags &^= recordInRetryStep
}
