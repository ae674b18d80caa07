package scheduler

import (
	"hash/fnv"
	"strconv"
)

// obsolete drops messages that the new one says it replaces: those with that
// log identity, the same error address and the same owner.
func (s *Scheduler) obsolete(by *message, logIDs []string) {
	for _, id := range logIDs {
		next := s.messages.get(s.byLogHash[hashLogID(id)])
		for m := next; m != nil; m = next {
			next = s.olderWithLogID(m)
			if m == by || m.flags&(removing|moving|obsoleted) != 0 || m.open == 0 ||
				s.errorTo(m) != s.errorTo(by) || m.owner != by.owner {
				continue
			}
			m.flags |= obsoleted
			s.do(Note{Message: m.id, Text: "obsoleted by " + strconv.FormatUint(uint64(by.id), 10)})
			s.apply(&Ordered{Verb: VerbKill}, m, s.openVertices(m))
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
func (s *Scheduler) linkLogID(m *message) {
	if head := s.messages.get(s.byLogHash[m.logHash]); head != nil {
		s.obtainExtras(m).older, s.obtainExtras(head).newer = head.ref, m.ref
	}
	s.byLogHash[m.logHash] = m.ref
}

// older is the message with that log identity that was taken before.
func (s *Scheduler) olderWithLogID(m *message) *message {
	if m.extras == 0 {
		return nil
	}
	return s.messages.get(s.extras.at(m.extras).older)
}

// unlinkLog takes the message out of the chain of its log identity.
func (s *Scheduler) unlinkLogID(m *message) {
	if m.logHash == 0 {
		return
	}
	older := s.olderWithLogID(m)
	head := s.byLogHash[m.logHash] == m.ref
	switch {
	case head && older == nil:
		delete(s.byLogHash, m.logHash)
		return
	case head:
		s.byLogHash[m.logHash] = older.ref
		s.obtainExtras(older).newer = 0
		return
	}
	newer := s.obtainExtras(m).newer
	s.obtainExtras(s.messages.at(newer)).older = s.obtainExtras(m).older
	if older != nil {
		s.obtainExtras(older).newer = newer
	}
}
