package scheduler

import (
	"hash/fnv"
	"strconv"
)

// obsolete drops messages that the new one says it replaces: those with that
// log identity, the same error address and the same owner.
func (dv *delivery) obsolete(by *message, logIDs []string) {
	for _, id := range logIDs {
		next := dv.messages.get(dv.byLogHash[hashLogID(id)])
		for m := next; m != nil; m = next {
			next = dv.olderWithLogID(m)
			if m == by || m.flags&(removing|moving|obsoleted) != 0 || m.open == 0 ||
				dv.errorTo(m) != dv.errorTo(by) || m.owner != by.owner {
				continue
			}
			m.flags |= obsoleted
			dv.do(Note{Message: m.id, Text: "obsoleted by " + strconv.FormatUint(uint64(by.id), 10)})
			dv.apply(&Ordered{Verb: VerbKill}, m, dv.openVertices(m))
		}
	}
}

// logHash stands for a log identity in memory. Two identities that share a
// hash would still need the same error address and owner to be mistaken.
func hashLogID(id string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(id))
	return max(1, h.Sum64())
}

// linkLog makes the message known by its log identity.
func (ml *mail) linkLogID(m *message) {
	if head := ml.messages.get(ml.byLogHash[m.logHash]); head != nil {
		ml.obtainExtras(m).older, ml.obtainExtras(head).newer = head.ref, m.ref
	}
	ml.byLogHash[m.logHash] = m.ref
}

// older is the message with that log identity that was taken before.
func (ml *mail) olderWithLogID(m *message) *message {
	if m.extras == 0 {
		return nil
	}
	return ml.messages.get(ml.extras.at(m.extras).older)
}

// unlinkLog takes the message out of the chain of its log identity.
func (ml *mail) unlinkLogID(m *message) {
	if m.logHash == 0 {
		return
	}
	older := ml.olderWithLogID(m)
	head := ml.byLogHash[m.logHash] == m.ref
	switch {
	case head && older == nil:
		delete(ml.byLogHash, m.logHash)
		return
	case head:
		ml.byLogHash[m.logHash] = older.ref
		ml.obtainExtras(older).newer = 0
		return
	}
	newer := ml.obtainExtras(m).newer
	ml.obtainExtras(ml.messages.at(newer)).older = ml.obtainExtras(m).older
	if older != nil {
		ml.obtainExtras(older).newer = newer
	}
}
