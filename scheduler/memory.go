package scheduler

import (
	"fmt"
	"time"
)

// Limits on memory: PARAMactive-limit, PARAMrecipient-limit and
// PARAMring-reserve.
//
// A message is in memory, or on record (record.go). It is put on record
//
//	when it is deferred, or its threads may not be fed for now, and more than
//	half of a limit is used (overHalf)
//	when it arrives and may not come into memory (mayEnter)
//
// A message that an agent has, or has not answered completely, stays in memory; so
// does one that has a recipient which is done according to a report and is not
// tagged in the file (readTags).
//
// Its file is read again (Load) when it is due, or when something must be
// written: it expires, a notice is due, or an order concerns it. A message may
// come into memory
//
//	if no limit is reached, and more than half of each is free or one of its
//	threads has fewer than ring-reserve recipients in memory
//	if one of its rings has fewer than ring-reserve recipients in memory
//	if something must be written
//
// The last two apply up to the limit plus ring-reserve for each ring. So there
// are never more recipients in memory than recipient-limit, plus ring-reserve
// for each ring, plus those of the largest message (Postfix, Dealing with memory
// resource limits). The new and the deferred messages of a ring take turns to
// come into memory, and so do the rings. Something that must be written may use the
// room of the largest message. recordturns.go says whose turn it is, and makeroom.go what
// is put on record to make room.

// memory is the state of the limits.
type memory struct {
	// What is on record. Messages that are being read count as in memory.
	messages, recipients int
	loading              int             // messages that are being read
	urgent               list[recordRef] // to be read, because something must be written
	wanting              list[*ring]     // rings with threads that want to read records
	urgentHadTurn        bool            // the next one read is not from urgent
	candidates           []candidate     // messages that may be put on record at the end of the Step
	changed              bool            // a record may be read that could not be before
	largest              int             // recipients of the largest message so far
	room                 roomSearch
	calendar             calendar
}

// candidate is a message, if it is still there.
type candidate struct {
	message  messageRef
	sequence int64
}

// threadRecords is the records of a thread.
type threadRecords struct {
	count      int // records, those being read included
	recipients int // on record
	// due has the due records that may be read: for each queue of the thread (0,
	// 1; see thread.queues) the new ones and the deferred ones.
	due     [2][2]list[recordRef]
	loading int // records that are being read, for a thread that may be fed
	wants   [2]links[*thread]
	wanted  [2]bool // is in ring.wanting
}

// A message is put on record only if its next attempt is at least minIdle away,
// plus idlePerRecipient for each open recipient (isIdle).
const (
	minIdle          = time.Second
	idlePerRecipient = 10 * time.Millisecond
)

func (mem *memory) init(ml *mail) {
	mem.calendar.init(func(n recordRef) *links[recordRef] { return &ml.records.items.at(n).looks })
	mem.urgent.of = func(n recordRef) *links[recordRef] { return &ml.records.items.at(n).queued }
	mem.wanting.of = func(r *ring) *links[*ring] { return &r.ringRecords.links }
}

// Kinds of due records.
const (
	newMail = iota
	deferredMail
)

// limited reports whether there is a limit on memory.
func (q *queue) limited() bool { return q.config.ActiveLimit > 0 || q.config.RecipientLimit > 0 }

func (q *queue) inMemory() (messages, recipients int) {
	return q.counts.Messages - q.memory.messages, q.counts.Recipients - q.memory.recipients
}

// The following functions do not count the given numbers of messages and
// recipients: those of a message that has just arrived.

// hasRoom reports whether no limit is reached.
func (q *queue) hasRoom(messages, recipients int) bool {
	m, r := q.inMemory()
	return below(m-messages, q.config.ActiveLimit) && below(r-recipients, q.config.RecipientLimit)
}

// overHalf reports whether more than half of a limit is used.
func (q *queue) overHalf(messages, recipients int) bool {
	m, r := q.inMemory()
	return !below(2*(m-messages)-1, q.config.ActiveLimit) || !below(2*(r-recipients)-1, q.config.RecipientLimit)
}

// belowBound reports whether usage is below the limits plus the reserves of all
// rings.
func (q *queue) belowBound(messages, recipients int) bool {
	m, r := q.inMemory()
	return q.withinBound(m-messages, r-recipients)
}

// withinBound reports whether so many messages and recipients in memory are below the
// limits plus the reserves of all rings.
func (q *queue) withinBound(messages, recipients int) bool {
	reserves := q.ringOrder.len * q.config.RingReserve
	return below(messages, limitWith(q.config.ActiveLimit, reserves)) && below(recipients, limitWith(q.config.RecipientLimit, reserves))
}

// noteBeyondBound warns that agents have more than the limits and the reserves of all rings
// allow together: limits were lowered. Until the agents report, no mail on record is read.
func (s *Scheduler) noteBeyondBound() {
	seen, recipients := make(map[messageRef]bool), 0
	for _, a := range s.agentsInOrder() {
		for i := range a.lines {
			if l := &a.lines[i]; !l.ended() && !seen[l.vertex.message] {
				seen[l.vertex.message] = true
				recipients += int(s.messageOf(l.vertex).open)
			}
		}
	}
	if s.withinBound(len(seen), recipients) {
		return
	}
	s.do(Note{Severity: Warning, Text: fmt.Sprintf("agents have more than the limits on memory allow (messages: %d, recipients: %d): "+
		"until they report, no mail on record is delivered, and no ring gets its PARAMring-reserve", len(seen), recipients)})
}

// limitWith returns a limit plus the reserves; 0, none, stays 0.
func limitWith(limit, reserves int) int {
	if limit == 0 {
		return 0
	}
	return limit + reserves
}

// toBeRead reports whether due records of the current run are still to be read.
func (t *thread) toBeRead() bool {
	x := t.records
	return x != nil && x.due[t.active][newMail].len+x.due[t.active][deferredMail].len+x.loading > 0
}

// dueOf counts what is due in one of the two queues.
func (t *thread) dueOf(queue uint8) int {
	n := t.queues[queue].len()
	if x := t.records; x != nil {
		n += x.due[queue][newMail].len + x.due[queue][deferredMail].len
	}
	return n
}

// endRunOfRecords makes the due records of a queueonly thread wait for its next
// run.
func (q *queue) endRunOfRecords(t *thread) {
	if t.records == nil {
		return
	}
	for kind := range t.records.due[t.active] {
		for queue := &t.records.due[t.active][kind]; queue.len > 0; {
			n := queue.head
			q.dequeueRecord(n)
			q.setNextRun(q.records.items.at(n), true)
			q.enqueueRecord(n)
		}
	}
}

// recipientsInMemory counts the recipients of a thread that are not on record.
func (t *thread) recipientsInMemory() int {
	if t.records == nil {
		return t.recipients
	}
	return t.recipients - t.records.recipients
}

// mayEnter reports whether a message that has just arrived may stay in memory.
func (dv *delivery) mayEnter(m *message) bool {
	open, reserve := int(m.open), dv.config.RingReserve > 0
	over := dv.overHalf(1, open)
	if over && dv.isIdle(m) {
		return false
	}
	room := dv.hasRoom(1, open)
	if !room && !dv.belowBound(1, open) {
		return false
	}
	return dv.anyThread(m, func(t *thread) bool {
		switch {
		case t.records != nil && t.records.wanted[newMail]: // its records come first
			return false
		case room:
			return !over || reserve && dv.isSmall(t.recipientsInMemory()-open)
		}
		return t.mayFeed() && reserve && dv.isSmall(t.ring.recipients-open)
	})
}

func (q *queue) anyThread(m *message, holds func(*thread) bool) bool {
	for i := 0; ; i++ {
		v := q.nthVertex(m, i)
		if v == nil {
			return false
		}
		if v.state != 0 && holds(q.threadOf(v)) {
			return true
		}
	}
}

// considerRecording notes that a message may be put on record when the Step ends.
// Until then its memory is in use.
func (q *queue) considerRecording(m *message) {
	if q.limited() && q.overHalf(0, 0) {
		q.memory.candidates = append(q.memory.candidates, candidate{m.ref, m.sequence})
	}
}

// considerRecordingThread does the same, a batch at a time, for the mail of a
// thread: it may no longer be fed, or the limits on memory have changed.
func (q *queue) considerRecordingThread(t *thread) {
	if q.limited() && q.overHalf(0, 0) && t.vertices.len > 0 {
		t.updates |= putOnRecord
		t.nextUpdate = t.vertices.head
		q.planResume(t)
	}
}

// putOnRecord puts on record those candidates that are still idle.
func (dv *delivery) putOnRecord() {
	for _, c := range dv.memory.candidates {
		m := dv.messages.at(c.message)
		switch {
		case m.sequence != c.sequence || !dv.overHalf(0, 0) || !dv.isIdle(m):
		case m.flags&untagged != 0:
			dv.readTags(m)
		default:
			dv.makeRecords(m)
		}
	}
	dv.memory.candidates = dv.memory.candidates[:0]
}

func (q *queue) newThreadRecords() *threadRecords {
	x := new(threadRecords)
	for i := range x.due {
		for kind := range x.due[i] {
			x.due[i][kind].of = q.queuedLinks
		}
	}
	return x
}
