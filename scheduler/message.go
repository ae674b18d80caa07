package scheduler

import (
	"strconv"

	"zsched/ctlfile"
)

// message is one control file. The first vertex lives inside it, because
// nearly all messages have one; so a waiting message is one object.
type message struct {
	id         MessageID
	log        uint64 // hash of the log identity, 0: none
	order      int64  // place in the order of taking
	sender     string
	modifiedAt instant // mtime of the message file
	changedAt  second  // ctime of the control file when taken
	owner      uint32  // uid of the message file
	recipients int32   // open ones when taken
	// open counts recipients that are not done.
	// Invariant: the sum of the vertices' open counts.
	open   int32
	failed int32
	stores int16 // marks under way; the message is not finished before
	flags  messageFlags
	levels uint8 // hash levels of the path, where it is the usual one
	vertex vertex
	extras *extras // nil for most
}

// extras holds what few messages have.
type extras struct {
	path     string // when it cannot be told from id and levels
	errorTo  string // when it is not the sender
	vertices []*vertex
	sets     []*exclusiveSet
	reroutes map[*vertex]threadKey // where vertices are ordered to be sent
	// Neighbours in the chain of a log identity: those taken before and after.
	older, newer *message
}

type messageFlags uint8

const (
	nullSender messageFlags = 1 << iota
	owes                    // the file may hold diagnostics to report
	leaving                 // Finish is under way
	moving                  // Hold is under way
	holding                 // ordered to be held
	obsoleted               // replaced by a later message
	errorToSet              // extras.errorTo counts, even when empty
)

// vertex is one message's recipients for one channel and host: one job line.
// Its life is drawn in the package comment.
type vertex struct {
	message       *message
	thread        *thread
	links[vertex]              // in the thread
	wakeAt        instant      // when waiting, and kept when resting
	rest          *[]recipient // by offset, like first; nil: there is but one
	first         recipient
	agent         AgentID // fed last, 0: none
	fedAt         second  // last, 0: never
	// joined is the thread's suspension count when the vertex became due; a
	// suspension it waits through counts as an attempt (scheduler.cf(5),
	// expiry).
	joined uint32
	// open counts recipients that are not done, dormant ones included.
	open      int32
	wakeSeat  int32
	queueSeat int32
	queue     uint8 // of the thread's two, the one it is or was in
	state     vertexState
	why       reason
	retry     uint8 // index in Retries of the next step
	deaths    uint8 // agents lost on it running
	// ordered is what is to be done with it when nobody is at work on it, and
	// with alternatives of it whose turn comes later; 0: nothing.
	ordered Verb
}

type vertexState uint8

const (
	due     vertexState = iota + 1 // in its thread's queue
	waiting                        // until wakeAt
	fed                            // with an agent
	reading                        // its file is being read again
	poisoned
	dormant // nothing of it can be fed: alternatives wait, outcomes are written
	resting // to be held, until all of its message is
	vertexStates
)

// become moves a vertex to another state. wakeAt is the end of its wait; a
// resting one keeps it.
func (s *Scheduler) become(v *vertex, state vertexState, wakeAt instant) {
	t := v.thread
	if v.state == waiting {
		t.wakes.remove(v.wakeAt.second())
	}
	t.states[v.state]--
	s.states[v.state]--
	v.state, v.wakeAt = state, wakeAt
	t.states[state]++
	s.states[state]++
	if state == waiting {
		t.wakes.add(wakeAt.second())
	}
}

// reason is why a vertex is not due, beyond its state.
type reason uint8

const (
	noReason     reason = iota
	untouched           // reading: nothing was tried
	killedAgent         // reading: its agent died on it
	foundNothing        // reading: the agent found nothing to do
)

// recipient is one r or X line.
type recipient struct {
	offset   uint32 // identity in the control file, below 1 GiB
	attempts uint16 // stops counting at its limit
	flags    recipientFlags
	state    recipientState
	last     *diagnostic // what was said of it last, nil: nothing
}

type recipientFlags uint8

const (
	tellSuccess recipientFlags = 1 << iota // NOTIFY of its DSN line
	tellFailure
	// spared: it was held, and must have an attempt before it can expire.
	spared
)

type recipientState uint8

const (
	open      recipientState = iota + 1
	reported                 // open, and its agent has spoken in this line
	alternate                // dormant until the alternative before it fails
	promoted                 // its turn came while its vertex is with an agent
	settling                 // its outcome is being written
	gone
)

func (r *recipient) isOpen() bool { return r.state == open || r.state == reported }

// diagnostic is the last word about a recipient.
type diagnostic struct {
	notary string
	text   string
}

// at returns the i-th recipient in file order.
func (v *vertex) at(i int) *recipient {
	if i == 0 {
		return &v.first
	}
	return &(*v.rest)[i-1]
}

func (v *vertex) len() int {
	if v.rest == nil {
		return 1
	}
	return 1 + len(*v.rest)
}

// find returns the index of the recipient at offset, or -1.
func (v *vertex) find(offset int64) int {
	low, high := 0, v.len()
	for low < high {
		mid := (low + high) / 2
		if int64(v.at(mid).offset) < offset {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low < v.len() && int64(v.at(low).offset) == offset {
		return low
	}
	return -1
}

// openNow counts the recipients an agent would find open.
func (v *vertex) openNow() int {
	n := 0
	for i := range v.len() {
		if v.at(i).isOpen() {
			n++
		}
	}
	return n
}

// vertexAt returns the i-th vertex, nil past the last.
func (m *message) vertexAt(i int) *vertex {
	switch {
	case i == 0 && m.vertex.message != nil:
		return &m.vertex
	case m.extras == nil || i > len(m.extras.vertices):
		return nil
	case i == 0:
		return nil
	}
	return m.extras.vertices[i-1]
}

// vertices calls f for each vertex of the message, gone ones included.
func (m *message) vertices(f func(*vertex)) {
	f(&m.vertex)
	if m.extras != nil {
		for _, v := range m.extras.vertices {
			f(v)
		}
	}
}

// path returns the control file's name below transport/.
func (m *message) path() string {
	if m.extras != nil && m.extras.path != "" {
		return m.extras.path
	}
	return ctlfile.HashDir(uint64(m.id), int(m.levels)) + strconv.FormatUint(uint64(m.id), 10)
}

// errorTo returns where reports about the message go.
func (m *message) errorTo() string {
	if m.flags&errorToSet != 0 {
		return m.extras.errorTo
	}
	return m.sender
}

func (m *message) extra() *extras {
	if m.extras == nil {
		m.extras = new(extras)
	}
	return m.extras
}

// advance does what can only be done when nothing of a message is being
// written: it is finished when its last recipient is done, or moved away when
// it is to be held and all of it rests.
func (s *Scheduler) advance(m *message) {
	switch {
	case m.stores > 0 || m.flags&(leaving|moving) != 0:
	case m.open == 0:
		s.finish(m)
	case m.flags&holding != 0 && m.rests():
		s.moveAway(m)
	}
}

// forget drops a message from memory without touching its files.
func (s *Scheduler) forget(m *message) {
	m.flags |= leaving // what is asked of it on the way is too late
	m.vertices(func(v *vertex) {
		if v.state == fed {
			s.withdraw(v)
		}
		if v.state != 0 {
			s.leave(v)
		}
	})
	s.counts.Recipients -= int(m.open)
	s.counts.RecipientsOut += uint64(m.open)
	s.remove(m)
}

// remove takes a message out of memory of which no vertex is linked.
func (s *Scheduler) remove(m *message) {
	s.unlinkLog(m)
	delete(s.messages, m.id)
	s.counts.Messages--
	s.counts.MessagesOut++
	for _, w := range s.walks {
		w.passMessage(m)
	}
}

// withdraw ends the job line of a vertex without a word about it.
func (s *Scheduler) withdraw(v *vertex) {
	a := s.agents[v.agent]
	for i := range a.lines {
		if a.lines[i].v == v {
			a.lines[i].v = nil
		}
	}
}

// leave unlinks a vertex from everything.
func (s *Scheduler) leave(v *vertex) {
	t := v.thread
	t.dequeue(v)
	s.wakes.remove(v)
	s.become(v, 0, 0)
	for _, w := range s.walks {
		w.passVertex(v)
	}
	t.unlink(v)
	if t.errands != 0 {
		s.planResume(t) // they may be at their end
	}
	s.states[0]--
	t.channel.dropped += uint64(v.open)
	s.counts.Vertices--
	s.settleThread(t)
}
