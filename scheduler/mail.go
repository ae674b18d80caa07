package scheduler

import (
	"strconv"

	"zsched/ctlfile"
)

// mail is what waits: messages, their vertices, and what these share or few of
// them have. They name each other by number.
//
// A message and its vertices keep their places until the message leaves; a
// vertex whose recipients are done has state 0 until then.
type mail struct {
	byID           map[MessageID]messageRef
	byLogHash      map[uint64]messageRef // heads of the chains by log identity
	messages       slab[messageRef, message]
	vertices       slab[vertexRef, vertex]
	moreRecipients slab[recipientsRef, []recipient] // beyond the first
	extras         slab[extrasRef, extras]
	senders        pool[senderRef, string]
	diagnostics    pool[diagnosticRef, diagnostic]
	threadTable    slab[threadRef, *thread] // whose the vertices are
	loaded         int64
	queueIndex     func(vertexRef) *int32
	threadLinks    func(vertexRef) *links[vertexRef]
	counts         Counts
	states         [vertexStates]int // vertices by state
	walks          []*Walk           // open
}

type (
	messageRef    uint32
	vertexRef     uint32
	recipientsRef uint32
	extrasRef     uint32
	senderRef     uint32
	diagnosticRef uint32
	threadRef     uint32
)

// message returns the message of that number, nil if it is not in the queue.
func (ml *mail) message(id MessageID) *message { return ml.messages.get(ml.byID[id]) }

func (ml *mail) messageOf(v *vertex) *message { return ml.messages.at(v.message) }

// threadOf returns the thread of a vertex that is not gone.
func (ml *mail) threadOf(v *vertex) *thread { return *ml.threadTable.at(v.thread) }

// recipient returns the i-th recipient in file order.
func (ml *mail) recipient(v *vertex, i int) *recipient {
	if i == 0 {
		return &v.first
	}
	return &(*ml.moreRecipients.at(v.more))[i-1]
}

// find returns the index of the recipient at offset, or -1.
func (ml *mail) findRecipient(v *vertex, offset int64) int {
	low, high := 0, v.len()
	for low < high {
		mid := (low + high) / 2
		if int64(ml.recipient(v, mid).offset) < offset {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low < v.len() && int64(ml.recipient(v, low).offset) == offset {
		return low
	}
	return -1
}

// openNow counts the recipients an agent would find open.
func (ml *mail) feedable(v *vertex) int {
	n := 0
	for i := range v.len() {
		if ml.recipient(v, i).isOpen() {
			n++
		}
	}
	return n
}

// nthVertex returns the i-th vertex of a message, nil past the last.
func (ml *mail) nthVertex(m *message, i int) *vertex {
	switch {
	case i == 0:
		return ml.vertices.get(m.first)
	case m.extras == 0 || i > len(ml.extras.at(m.extras).vertices):
		return nil
	}
	return ml.vertices.at(ml.extras.at(m.extras).vertices[i-1])
}

// verticesOf calls f for each vertex of the message, gone ones included.
func (ml *mail) eachVertex(m *message, f func(*vertex)) {
	for i := 0; ; i++ {
		v := ml.nthVertex(m, i)
		if v == nil {
			return
		}
		f(v)
	}
}

// path returns the control file's name below transport/.
func (ml *mail) path(m *message) string {
	if m.extras != 0 {
		if path := ml.extras.at(m.extras).path; path != "" {
			return path
		}
	}
	return ctlfile.HashDir(uint64(m.id), int(m.levels)) + strconv.FormatUint(uint64(m.id), 10)
}

func (ml *mail) sender(m *message) string { return *ml.senders.at(m.sender) }

// errorTo returns where reports about the message go.
func (ml *mail) errorTo(m *message) string {
	if m.flags&ownErrorTo != 0 {
		return ml.extras.at(m.extras).errorTo
	}
	return ml.sender(m)
}

// extra returns the message's extras, new ones if it has none.
func (ml *mail) obtainExtras(m *message) *extras {
	if m.extras == 0 {
		m.extras, _ = ml.extras.alloc()
	}
	return ml.extras.at(m.extras)
}

// unsay forgets what was said of a recipient.
func (ml *mail) clearDiagnostic(r *recipient) {
	ml.diagnostics.release(r.diagnostic)
	r.diagnostic = 0
}

// free gives up the places of a message and its vertices.
func (ml *mail) freeMessage(m *message) {
	ml.eachVertex(m, func(v *vertex) {
		for i := range v.len() {
			ml.clearDiagnostic(ml.recipient(v, i))
		}
		if v.more != 0 {
			ml.moreRecipients.release(v.more)
		}
		ml.vertices.release(v.ref)
	})
	if m.extras != 0 {
		ml.extras.release(m.extras)
	}
	ml.senders.release(m.sender)
	ml.messages.release(m.ref)
}
