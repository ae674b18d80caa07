package scheduler

import (
	"cmp"
	"maps"
	"slices"
)

// Counts are kept as things change, so that reading them costs nothing.
type Counts struct {
	Messages     int // in memory, those being removed included
	Vertices     int
	Recipients   int // not done
	Threads      int
	States       StateCounts
	FailedWrites int // writes that failed and will be tried again

	Agents        int // processes, starting and leaving ones too
	AgentsIdle    int
	AgentsClosing int
	Sessions      int // busy

	// Taken, and gone from memory: done, held, sent elsewhere or lost. The
	// difference is what is there.
	MessagesIn, MessagesOut     uint64
	RecipientsIn, RecipientsOut uint64
	BytesIn                     uint64 // sizes of the message files taken
	AgentsStarted               uint64
}

// Counts returns the counters as they are now.
func (s *Scheduler) Counts() Counts {
	c := s.counts
	c.States = stateCounts(s.states)
	return c
}

// agentsInOrder returns all agents by age; what walks them must not depend on
// a map's order.
func (s *Scheduler) agentsInOrder() []*agent {
	return slices.SortedFunc(maps.Values(s.agents), func(a, b *agent) int { return cmp.Compare(a.id, b.id) })
}

// threadsInOrder returns all threads in the order of their seats.
func (s *Scheduler) threadsInOrder() []*thread {
	return slices.SortedFunc(maps.Values(s.threads), func(a, b *thread) int {
		return cmp.Compare(a.sequence, b.sequence)
	})
}
