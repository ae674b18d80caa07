package scheduler

import (
	"hash/fnv"
	"strconv"
)

// obsolete drops messages that the new one says it replaces: those with that
// log identity, the same error address and the same owner.
func (s *Scheduler) obsolete(by *message, logIDs []string) {
	for _, id := range logIDs {
		next := s.byLog[logHash(id)]
		for m := next; m != nil; m = next {
			next = m.older()
			if m == by || m.flags&(leaving|moving|obsoleted) != 0 || m.open == 0 ||
				m.errorTo() != by.errorTo() || m.owner != by.owner {
				continue
			}
			m.flags |= obsoleted
			s.do(Note{Message: m.id, Text: "obsoleted by " + strconv.FormatUint(uint64(by.id), 10)})
			s.obey(&Ordered{Verb: VerbKill}, m, m.linked())
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
	if head := s.byLog[m.log]; head != nil {
		m.extra().older, head.extra().newer = head, m
	}
	s.byLog[m.log] = m
}

// older is the message with that log identity that was taken before.
func (m *message) older() *message {
	if m.extras == nil {
		return nil
	}
	return m.extras.older
}

// unlinkLog takes the message out of the chain of its log identity.
func (s *Scheduler) unlinkLog(m *message) {
	if m.log == 0 {
		return
	}
	older := m.older()
	head := s.byLog[m.log] == m
	switch {
	case head && older == nil:
		delete(s.byLog, m.log)
		return
	case head:
		s.byLog[m.log] = older
		older.extras.newer = nil
		return
	}
	newer := m.extras.newer
	newer.extras.older = older
	if older != nil {
		older.extras.newer = newer
	}
}
