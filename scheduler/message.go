package scheduler

import (
	"slices"

	"zsched/scheduler/fair"
	"zsched/scheduler/store"
)

// Messages, vertices and recipients, with their states.

// message is one control file. It has no pointers (see package store).
type message struct {
	id         MessageID
	sequence   int64  // place in the order of loading; not reused
	modifiedAt date   // mtime of the message file
	changedAt  second // ctime of the control file when loaded
	// open counts recipients that are not done.
	// Invariant: it is the sum of the vertices' open.
	open   int32
	ref    messageRef
	sender senderRef
	first  vertexRef // nearly all messages have only this one; 0: none
	// pendingWrites counts actions on the file that have no answer yet. The
	// message is not finished before all of them are answered.
	pendingWrites int16
	flags         messageFlags
}

// extras has the fields that few messages need.
type extras struct {
	path     string      // if id and levels do not give it
	vertices []vertexRef // after the first
	sets     []*exclusiveSet
	jobs     fair.Jobs
	sessions int32 // how many sessions work on the message
}

// messageFlags has in its two highest bits the hash levels of the path, if the path has the
// usual form.
type messageFlags uint16

const levelsShift = 14

func (m *message) levels() int { return int(m.flags >> levelsShift) }

const (
	nullSender messageFlags = 1 << iota
	owesNotice              // the file may have diagnostics that have not been reported yet
	noticeDue               // its notice is to be written as soon as no outcome is being written
	removing                // Finish is pending
	moving                  // Hold or Release is pending
	hasExtras               // mail.extras has some for it
	underHold               // its files lie under hold/, not in transport/ and queue/
)

// vertex is the recipients of one message for one channel and host: one job
// line. It has no pointers (see package store).
//
//	          wake time, ETRN, retry order
//	   ┌────────────────┐
//	   │                ▼   picked           every recipient done: removed
//	waiting            due ────────► fed ──────────────────────────────────►
//	   ▲                ▲             │
//	   │                │  untouched  ├──► agent died, or asked for a resync
//	   │                └── reading ◄─┘    │
//	   └────────────────────┴──────────────┘ deferred: one retry step
//
//	any      ► blocked: nothing can be fed; alternatives wait, or outcomes are
//	           being written
//	blocked  ► due: an alternative has its turn, outcomes are on disk, or a Resubmit has failed
//	any      ► held: VerbHold, when no agent has it; or its files lie under hold/
//	held     ► due or blocked: Release, or Hold is not wanted any more
type vertex struct {
	ref                    vertexRef
	message                messageRef
	thread                 threadRef     // 0 when it is removed
	store.Links[vertexRef]               // in the thread
	more                   recipientsRef // recipients after first, by offset; 0: none
	first                  recipient
	agent                  AgentID // the last one that it was fed to; 0: none
	// place is where it is if it is due and does not wait for the next run. Its index is
	// in thread.waiting if it waits.
	place fair.Place
	fedAt second // the last time; 0: never
	// ordinal is its place among the vertices of the message, up to fair.MaxOrdinal.
	ordinal uint16
	retry   uint8 // index in Retries of the next step
	state   vertexState
}

// vertexState is 0 when all recipients are done.
type vertexState uint8

const (
	due     vertexState = iota + 1 // in the thread's queue
	waiting                        // until a time (thread.waiting)
	fed                            // with an agent
	reading                        // its file is being read again
	blocked                        // none of its recipients can be fed
	held                           // its message is under hold/, or is to be moved there
	vertexStates
)

// setState moves a vertex to another state. wakeAt is the end of its wait.
func (ts *threads) setState(v *vertex, state vertexState, wakeAt instant) {
	t := ts.s.mail.threadOf(v)
	if v.state == waiting {
		ts.endWait(t, v)
	}
	if v.state == fed {
		ts.s.rings.countMessageSession(ts.s.mail.messageOf(v), -1)
	}
	if state == fed {
		ts.s.rings.countMessageSession(ts.s.mail.messageOf(v), 1)
	}
	if t.barred && v.state == due {
		ts.s.mail.barred--
	}
	if t.barred && state == due {
		ts.s.mail.barred++
	}
	t.states[v.state]--
	ts.s.mail.states[v.state]--
	v.state = state
	t.states[state]++
	ts.s.mail.states[state]++
	if state == waiting {
		ts.beginWait(t, v, wakeAt)
	}
}

// recipient is one r or X line.
type recipient struct {
	offset     uint32 // in the control file, below 1 GiB
	attempts   uint16 // stops at the maximum
	flags      recipientFlags
	state      recipientState
	diagnostic diagnosticRef // of the last report; 0: none
}

type recipientFlags uint8

const (
	notifySuccess recipientFlags = 1 << iota // NOTIFY of the DSN line
	notifyFailure
	notifyDelay
	mustAttempt // it was held and must have an attempt before it can expire
	triedBefore // all its attempts were made by an earlier process
	hasFailed   // it is done, or about to be, and has failed
)

// recipientState:
//
//	standby ► open: the alternative before it has failed, and no agent has the vertex
//	open ► reported ► open: deferred; the line has ended
//	open, reported, standby ► writing ► done: it has an outcome
type recipientState uint8

const (
	open     recipientState = iota + 1
	reported                // open, and the agent has reported on it in this line
	standby                 // an alternative whose turn has not come
	writing                 // the outcome is being written
	done
)

// tried reports whether there was an attempt since the process was started.
func (r *recipient) tried() bool { return r.attempts > 0 && r.flags&triedBefore == 0 }

func (r *recipient) isOpen() bool { return r.state == open || r.state == reported }

func (r *recipient) isReported() bool { return r.state == reported }

// isWriting reports whether the outcome of the recipient is being written.
func (r *recipient) isWriting() bool { return r.state == writing }

// isUndelivered reports whether the recipient has no outcome yet: it is open, or waits for its turn.
func (r *recipient) isUndelivered() bool { return r.state != writing && r.state != done }

// advance does what must wait until no outcome of a message is being written: it
// finishes a message without open recipients, writes a notice that is due, and
// moves a message to hold/ once all its vertices are held, or back from there.
func (wr *writes) advance(m *message) {
	switch {
	case m.pendingWrites > 0 || m.flags&(removing|moving) != 0:
	case m.open == 0:
		wr.finish(m, 0, 0)
	case m.flags&noticeDue != 0:
		wr.s.notices.report(m)
	case wr.s.orders.isToBeMoved(m):
		wr.s.orders.moveFiles(m)
	default:
		wr.s.notices.planInterimNotice(m)
	}
}

// fileMissing drops a message whose control file is gone.
func (wr *writes) fileMissing(m *message) {
	wr.s.agenda.do(Note{Severity: Warning, Message: m.id, Text: "its control file is gone, dropped: " + wr.s.mail.path(m)})
	wr.s.log.record(Condition{State: "gone", Message: m.id})
	m.flags |= removing // so that later orders do not apply
	wr.s.mail.eachVertex(m, func(v *vertex) {
		if v.state == fed { // its job line ends without any result
			lines := wr.s.agents.byID[v.agent].lines
			lines[slices.IndexFunc(lines, func(l *line) bool { return l.vertex == v })].vertex = nil
		}
		if v.state != 0 {
			wr.s.threads.removeVertex(v)
		}
	})
	wr.s.mail.counts.Recipients -= int(m.open)
	wr.s.mail.counts.RecipientsOut += uint64(m.open)
	wr.removeMessage(m)
}

// removeMessage frees a message whose vertices are removed.
func (wr *writes) removeMessage(m *message) {
	delete(wr.s.orders.heldMessages, m.ref)
	wr.s.mail.counts.Messages--
	wr.s.mail.counts.MessagesOut++
	wr.s.mail.byID.Remove(m.ref)
	wr.s.mail.freeMessage(m)
}

// removeVertex takes a vertex out of everything that is planned for it and of its thread, and ends
// the recipients that are still open.
func (ts *threads) removeVertex(v *vertex) {
	t := ts.s.mail.threadOf(v)
	if open := ts.s.mail.openOf(v); open > 0 {
		t.recipients -= int(open)
		for i := range ts.s.mail.lenOf(v) {
			ts.s.mail.recipient(v, i).state = done
		}
		if v.more != 0 {
			ts.s.mail.moreRecipients.At(v.more).open = 0
		}
	}
	wasFed := v.state == fed
	ts.fair.Remove(v.ref)
	delete(ts.s.orders.waiting, v.ref)
	delete(ts.s.notices.delays, v.ref)
	ts.setState(v, 0, 0)
	ts.unlinkVertex(v)
	if t.updates != 0 {
		ts.planResume(t) // the bulk updates may have no vertex left
	}
	ts.s.mail.states[0]--
	ts.s.mail.counts.Vertices--
	v.thread = 0
	if !wasFed { // otherwise this is done when its session ends
		ts.updateThread(t)
	}
}
