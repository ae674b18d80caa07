package cluster

import "time"

// Stats counts what passed between this node and the store.
type Stats struct {
	Calls, Batches, Failures uint64
	Losses                   uint64        // times at which the store was lost
	Lost                     bool          // it is lost now
	Epochs                   uint64        // that began or were met
	Latency                  time.Duration // of all batches together
	Slowest                  time.Duration // batch
}

// Took counts a batch.
func (s *Stats) Took(d time.Duration) {
	s.Latency += d
	s.Slowest = max(s.Slowest, d)
}

// Stats returns the counts so far.
func (n *Node) Stats() Stats { return n.stats }
