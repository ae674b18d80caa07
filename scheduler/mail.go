package scheduler

import (
	"cmp"
	"sort"
	"strings"

	"zsched/ctlfile"
	"zsched/scheduler/fair"
	"zsched/scheduler/store"
	"zsched/scheduler/view"
)

// The mail in memory: messages, vertices, recipients and what they share.

// mail has the messages and their vertices. They refer to each other by number (slab), so that the
// garbage collector need not scan them.
//
// A message and its vertices keep their numbers until the message leaves. A
// vertex without open recipients has state 0 until then.
type mail struct {
	byID           store.SlabIndex[messageRef]
	messages       store.Slab[messageRef, message]
	logHashes      store.Column[messageRef, uint64] // hashMessageID of the Message-ID; 0: none
	vertices       store.Slab[vertexRef, vertex]
	moreRecipients store.Slab[recipientsRef, moreRecipients] // of vertices with several
	extras         map[messageRef]*extras                    // of few messages
	senders        store.Pool[senderRef, sender]
	byAddress      map[string]senderRef
	quiet          [1000]senderRef // some that had no messages when they came here; each place is a user
	nextQuiet      int             // place, counted on and on
	paths          strings.Builder // the last names of files, so that each need not be allocated
	reported       int64           // sequence of the message that was reported on last
	reportedPath   string          // its path: it is probably finished next
	diagnostics    store.Pool[diagnosticRef, diagnostic]
	threadTable    store.Slab[threadRef, *thread]
	loaded         int64 // last message.sequence that was given
	// Where a vertex keeps its place in a heap and the list of its thread.
	heapIndex   func(vertexRef) *int32
	threadLinks func(vertexRef) *store.Links[vertexRef]
	counts      view.Counts
	states      [vertexStates]int // vertices by state
	barred      int               // due vertices of threads that are barred
}

type (
	messageRef    uint32
	vertexRef     = fair.Vertex
	recipientsRef uint32
	senderRef     uint32
	diagnosticRef uint32
	threadRef     uint32
)

// moreRecipients is the recipients of a vertex after the first.
type moreRecipients struct {
	list []recipient // by offset
	open int32       // recipients of the vertex, the first included, that are not done
}

// diagnostic is the text of the last report on a recipient.
type diagnostic struct {
	notary string
	text   string
}

// message returns the message with that number, or nil if it is not in the
// queue.
func (ml *mail) message(id MessageID) *message { return ml.messages.Get(ml.byID.Find(uint64(id))) }

func (ml *mail) messageOf(v *vertex) *message { return ml.messages.At(v.message) }

// threadOf returns the thread of a vertex that is not removed.
func (ml *mail) threadOf(v *vertex) *thread { return *ml.threadTable.At(v.thread) }

// recipient returns the i-th recipient in file order.
func (ml *mail) recipient(v *vertex, i int) *recipient {
	if i == 0 {
		return &v.first
	}
	return &ml.moreRecipients.At(v.more).list[i-1]
}

// lenOf is how many recipients a vertex has, those done included.
func (ml *mail) lenOf(v *vertex) int {
	if v.more == 0 {
		return 1
	}
	return 1 + len(ml.moreRecipients.At(v.more).list)
}

// openOf is how many of them are not done.
func (ml *mail) openOf(v *vertex) int32 {
	switch {
	case v.more != 0:
		return ml.moreRecipients.At(v.more).open
	case v.first.state == done:
		return 0
	}
	return 1
}

// findRecipient returns the index of the recipient at offset, or -1.
func (ml *mail) findRecipient(v *vertex, offset int64) int {
	if int64(v.first.offset) == offset {
		return 0
	}
	order := func(i int) int { return cmp.Compare(offset, int64(ml.recipient(v, i).offset)) }
	if i, found := sort.Find(ml.lenOf(v), order); found {
		return i
	}
	return -1
}

// feedable counts the recipients that an agent would find open.
func (ml *mail) feedable(v *vertex) int {
	n := 0
	for i := range ml.lenOf(v) {
		if ml.recipient(v, i).isOpen() {
			n++
		}
	}
	return n
}

// anyOf reports whether something holds for a recipient of a vertex.
func (ml *mail) anyOf(v *vertex, holds func(*recipient) bool) bool {
	for i := range ml.lenOf(v) {
		if holds(ml.recipient(v, i)) {
			return true
		}
	}
	return false
}

// canBeFed reports whether an agent would find something open in a vertex, and nothing that is done
// but not tagged yet.
func (ml *mail) canBeFed(v *vertex) bool {
	return ml.feedable(v) > 0 && !ml.anyOf(v, (*recipient).isWriting)
}

// eachVertex calls f for each vertex of the message, removed ones included.
func (ml *mail) eachVertex(m *message, f func(*vertex)) {
	if m.first == 0 {
		return
	}
	f(ml.vertices.At(m.first))
	if x := ml.extrasOf(m); x != nil {
		for _, ref := range x.vertices {
			f(ml.vertices.At(ref))
		}
	}
}

// vertexCount is how many vertices the message has, removed ones included.
func (ml *mail) vertexCount(m *message) int {
	if m.first == 0 {
		return 0
	}
	x := ml.extrasOf(m)
	if x == nil {
		return 1
	}
	return 1 + len(x.vertices)
}

// openVertices returns the vertices of the message that are not removed.
func (ml *mail) openVertices(m *message) []*vertex {
	var found []*vertex
	ml.eachVertex(m, func(v *vertex) {
		if v.state != 0 {
			found = append(found, v)
		}
	})
	return found
}

// path returns the name of the control file below transport/.
func (ml *mail) path(m *message) string {
	if m.sequence == ml.reported {
		return ml.reportedPath
	}
	if x := ml.extrasOf(m); x != nil && x.path != "" { // an unusual name
		return x.path
	}
	if ml.paths.Cap()-ml.paths.Len() < longestPath {
		ml.paths = strings.Builder{}
		ml.paths.Grow(pathsPage)
	}
	var buffer [longestPath]byte
	begin := ml.paths.Len()
	ml.paths.Write(usualPath(&buffer, m.id, m.levels()))
	return ml.paths.String()[begin:]
}

const (
	longestPath = len("A/B/") + 20
	pathsPage   = 4096 // bytes
)

// file returns the name of the control file for actions: with underHoldPrefix, it lies below
// hold/transport/.
func (ml *mail) file(m *message) string {
	if m.flags&underHold != 0 {
		return underHoldPrefix + ml.path(m)
	}
	return ml.path(m)
}

// underHoldPrefix begins the Path of actions on files under hold/.
const underHoldPrefix = "hold/"

// usualPath returns the usual name of a control file below transport/, which it writes at the end of
// a buffer.
func usualPath(buffer *[longestPath]byte, id MessageID, levels int) []byte {
	begin := len(buffer)
	for n := id; n > 0; n /= 10 {
		begin--
		buffer[begin] = '0' + byte(n%10)
	}
	if levels > 0 {
		dir := ctlfile.HashDir(uint64(id), levels)
		begin -= len(dir)
		copy(buffer[begin:], dir)
	}
	return buffer[begin:]
}

// sender is where messages come from. Those that agree in all of it share it.
type sender struct {
	origin
	lower string // the address in lower case
}

type origin struct {
	address string
	errorTo string // where reports about the message go
	source  string // of the submission, "" if unknown
	owner   uint32 // uid of the owner of the message file
}

// obtainSender finds or makes a sender, and adds a user.
func (ml *mail) obtainSender(from origin) senderRef {
	n := ml.byAddress[from.address]
	if known := ml.senders.Get(n); known != nil && known.origin == from {
		return ml.senders.Retain(n)
	}
	n = ml.senders.Add(sender{from, strings.ToLower(from.address)})
	ml.byAddress[from.address] = n // later messages do not find one with the same address any more
	return n
}

// releaseSender removes a user of a sender. One without messages probably sends more soon, so it
// stays in the place of one that was left without messages longer ago.
func (ml *mail) releaseSender(n senderRef) {
	if ml.senders.Users(n) == 1 {
		place := &ml.quiet[ml.nextQuiet%len(ml.quiet)]
		ml.nextQuiet++
		n, *place = *place, n
		if n != 0 && ml.senders.Users(n) == 1 && ml.byAddress[ml.senders.At(n).address] == n {
			delete(ml.byAddress, ml.senders.At(n).address)
		}
	}
	ml.senders.Release(n)
}

func (ml *mail) origin(m *message) *origin { return &ml.senders.At(m.sender).origin }

// extrasOf returns the message's extras, or nil.
func (ml *mail) extrasOf(m *message) *extras {
	if m.flags&hasExtras == 0 {
		return nil
	}
	return ml.extras[m.ref]
}

// obtainExtras returns the message's extras, and makes them if there are none.
func (ml *mail) obtainExtras(m *message) *extras {
	if m.flags&hasExtras == 0 {
		m.flags |= hasExtras
		ml.extras[m.ref] = new(extras)
	}
	return ml.extrasOf(m)
}

// clearDiagnostic forgets the last report on a recipient.
func (ml *mail) clearDiagnostic(r *recipient) {
	ml.diagnostics.Release(r.diagnostic)
	r.diagnostic = 0
}

// freeMessage frees a message and its vertices.
func (ml *mail) freeMessage(m *message) {
	ml.eachVertex(m, func(v *vertex) {
		for i := range ml.lenOf(v) {
			ml.clearDiagnostic(ml.recipient(v, i))
		}
		if v.more != 0 {
			ml.moreRecipients.Release(v.more)
		}
		ml.vertices.Release(v.ref)
	})
	if m.flags&hasExtras != 0 {
		delete(ml.extras, m.ref)
	}
	ml.releaseSender(m.sender)
	ml.logHashes.Set(m.ref, 0)
	ml.messages.Release(m.ref)
}
