package scheduler

// message is one control file. It has no pointers (slab).
type message struct {
	id         MessageID
	logHash    uint64  // hash of the log identity, 0: none
	sequence   int64   // place in the order of taking, never used again
	modifiedAt instant // mtime of the message file
	changedAt  second  // ctime of the control file when taken
	owner      uint32  // uid of the message file
	recipients int32   // open ones when taken
	// open counts recipients that are not done.
	// Invariant: the sum of the vertices' open counts.
	open          int32
	failed        int32
	ref           messageRef
	sender        senderRef
	first         vertexRef // nearly all messages have one, 0: none
	extras        extrasRef // 0 for most
	pendingWrites int16     // marks under way; the message is not finished before
	flags         messageFlags
	levels        uint8 // hash levels of the path, where it is the usual one
}

// extras holds what few messages have.
type extras struct {
	path     string      // when it cannot be told from id and levels
	errorTo  string      // when it is not the sender
	vertices []vertexRef // beyond the first
	sets     []*exclusiveSet
	reroutes map[vertexRef]threadKey // where vertices are ordered to be sent
	// Neighbours in the chain of a log identity: those taken before and after.
	older, newer messageRef
}

type messageFlags uint8

const (
	nullSender  messageFlags = 1 << iota
	owesNotice               // the file may hold diagnostics to report
	removing                 // Finish is under way
	moving                   // Hold is under way
	holdOrdered              // ordered to be held
	obsoleted                // replaced by a later message
	ownErrorTo               // extras.errorTo counts, even when empty
)

// vertex is one message's recipients for one channel and host: one job line.
// Its life is drawn in the package comment. It has no pointers (slab).
type vertex struct {
	ref              vertexRef
	message          messageRef
	thread           threadRef     // 0 when it is gone
	links[vertexRef]               // in the thread
	more             recipientsRef // recipients by offset, like first; 0: there is but one
	wakeAt           instant       // when waiting, and kept when resting
	first            recipient
	agent            AgentID // fed last, 0: none
	fedAt            second  // last, 0: never
	count            int32   // recipients, done ones included
	// joined is the thread's suspension count when the vertex became due; a
	// suspension it waits through counts as an attempt (scheduler.cf(5),
	// expiry).
	suspensionsWhenDue uint32
	// open counts recipients that are not done, dormant ones included.
	open       int32
	wakeIndex  int32
	queueIndex int32
	queue      uint8 // of the thread's two, the one it is or was in
	state      vertexState
	readReason readReason
	retry      uint8 // index in Retries of the next step
	crashes    uint8 // agents lost on it running
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
	blocked // nothing of it can be fed: alternatives wait, outcomes are written
	holding // to be held, until all of its message is
	vertexStates
)

// become moves a vertex to another state. wakeAt is the end of its wait; a
// resting one keeps it.
func (q *queue) setState(v *vertex, state vertexState, wakeAt instant) {
	t := q.threadOf(v)
	if v.state == waiting {
		t.wakeTimes.remove(v.wakeAt.second())
	}
	t.states[v.state]--
	q.states[v.state]--
	v.state, v.wakeAt = state, wakeAt
	t.states[state]++
	q.states[state]++
	if state == waiting {
		t.wakeTimes.add(wakeAt.second())
	}
}

// reason is why a vertex is not due, beyond its state.
type readReason uint8

const (
	noReason     readReason = iota
	untouched               // reading: nothing was tried
	agentCrashed            // reading: its agent died on it
	foundNothing            // reading: the agent found nothing to do
)

// recipient is one r or X line.
type recipient struct {
	offset     uint32 // identity in the control file, below 1 GiB
	attempts   uint16 // stops counting at its limit
	flags      recipientFlags
	state      recipientState
	diagnostic diagnosticRef // what was said of it last, 0: nothing
}

type recipientFlags uint8

const (
	notifySuccess recipientFlags = 1 << iota // NOTIFY of its DSN line
	notifyFailure
	// spared: it was held, and must have an attempt before it can expire.
	mustAttempt
	// accounted: its outcome is in the counters of its channel.
	counted
)

type recipientState uint8

const (
	open     recipientState = iota + 1
	reported                // open, and its agent has spoken in this line
	standby                 // dormant until the alternative before it fails
	promoted                // its turn came while its vertex is with an agent
	writing                 // its outcome is being written
	done
)

func (r *recipient) isOpen() bool { return r.state == open || r.state == reported }

// diagnostic is the last word about a recipient.
type diagnostic struct {
	notary string
	text   string
}

func (v *vertex) len() int { return int(v.count) }

// advance does what can only be done when nothing of a message is being
// written: it is finished when its last recipient is done, or moved away when
// it is to be held and all of it rests.
func (dv *delivery) advance(m *message) {
	switch {
	case m.pendingWrites > 0 || m.flags&(removing|moving) != 0:
	case m.open == 0:
		dv.finish(m)
	case m.flags&holdOrdered != 0 && dv.allHolding(m):
		dv.issueHold(m)
	}
}

// forget drops a message from memory without touching its files.
func (dv *delivery) dropMessage(m *message) {
	m.flags |= removing // what is asked of it on the way is too late
	dv.eachVertex(m, func(v *vertex) {
		if v.state == fed {
			dv.detachLine(v)
		}
		if v.state != 0 {
			dv.removeVertex(v)
		}
	})
	dv.counts.Recipients -= int(m.open)
	dv.counts.RecipientsOut += uint64(m.open)
	dv.removeMessage(m)
}

// remove takes a message out of memory of which no vertex is linked.
func (ml *mail) removeMessage(m *message) {
	ml.unlinkLogID(m)
	delete(ml.byID, m.id)
	ml.counts.Messages--
	ml.counts.MessagesOut++
	for _, w := range ml.walks {
		w.messageLeaves(m)
	}
	ml.freeMessage(m)
}

// withdraw ends the job line of a vertex without a word about it.
func (dv *delivery) detachLine(v *vertex) {
	a := dv.agents[v.agent]
	for i := range a.lines {
		if a.lines[i].vertex == v {
			a.lines[i].vertex = nil
		}
	}
}

// leave unlinks a vertex from everything. What is still open of it leaves
// without an outcome.
func (q *queue) removeVertex(v *vertex) {
	t := q.threadOf(v)
	t.dequeueVertex(v)
	q.wakes.remove(v.ref)
	q.setState(v, 0, 0)
	for _, w := range q.walks {
		w.vertexLeaves(v)
	}
	q.unlinkVertex(v)
	if t.updates != 0 {
		q.planResume(t) // they may be at their end
	}
	q.states[0]--
	if m := q.messageOf(v); m.flags&(holdOrdered|removing) == holdOrdered {
		q.refreshHoldOrder(m)
	}
	if v.open > 0 {
		for i := range v.len() {
			q.countOut(t, q.recipient(v, i))
		}
	}
	q.counts.Vertices--
	v.thread = 0
	q.updateThread(t)
}
