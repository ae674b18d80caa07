package scheduler

import (
	"hash/fnv"
	"strconv"
)

// obsolete drops messages that the new one says it replaces: those with that
// log identity, the same error address and the same owner.
func (s *Scheduler) obsolete(by *message, logIDs []string) {
	for _, id := range logIDs {
		next := s.messages.get(s.byLog[logHash(id)])
		for m := next; m != nil; m = next {
			next = s.older(m)
			if m == by || m.flags&(leaving|moving|obsoleted) != 0 || m.open == 0 ||
				s.errorTo(m) != s.errorTo(by) || m.owner != by.owner {
				continue
			}
			m.flags |= obsoleted
			s.do(Note{Message: m.id, Text: "obsoleted by " + strconv.FormatUint(uint64(by.id), 10)})
			s.obey(&Ordered{Verb: VerbKill}, m, s.linked(m))
		}
	}
}

// logHash stands for a log identity in memory. Two identities that share a
// hash would still need the same error address and owner to be mistaken.
func logHash(id string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(id))
	return max(1, h.Sum64())
}

// linkLog makes the message known by its log identity.
func (s *Scheduler) linkLog(m *message) {
	if head := s.messages.get(s.byLog[m.log]); head != nil {
		s.extra(m).older, s.extra(head).newer = head.ref, m.ref
	}
	s.byLog[m.log] = m.ref
}

// older is the message with that log identity that was taken before.
func (s *Scheduler) older(m *message) *message {
	if m.extras == 0 {
		return nil
	}
	return s.messages.get(s.extras.at(m.extras).older)
}

// unlinkLog takes the message out of the chain of its log identity.
func (s *Scheduler) unlinkLog(m *message) {
	if m.log == 0 {
		return
	}
	older := s.older(m)
	head := s.byLog[m.log] == m.ref
	switch {
	case head && older == nil:
		delete(s.byLog, m.log)
		return
	case head:
		s.byLog[m.log] = older.ref
		s.extra(older).newer = 0
		return
	}
	newer := s.extra(m).newer
	s.extra(s.messages.at(newer)).older = s.extra(m).older
	if older != nil {
		s.extra(older).newer = newer
	}
}
