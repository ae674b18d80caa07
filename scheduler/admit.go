package scheduler

import (
	"fmt"

	"zsched/ctlfile"
)

// Admission: whether a message may be loaded, by PARAMthread-limit. Most of the memory of a
// queue is that of its threads, and mail on record needs its threads too, so the other limits do
// not bound it: a message to many hosts has a thread for each of its recipients.

// smallMessage is how many recipients a message may have to pass large ones that wait for
// threads to end.
const smallMessage = 100

// Refuses returns why a message may not be loaded now; "": it may. One that adds threads
// beyond the limit has to wait until others end. A large message counts as no more than half
// the limit, so that one with more hosts than that can be loaded at all. Small messages may
// take as much again, so that a few large ones, whose hosts may be down for days, do not keep
// the mail of others from being read.
func (s *Scheduler) Refuses(recipients []ctlfile.OpenRecipient) string {
	limit := s.config.ThreadLimit
	if limit == 0 {
		return ""
	}
	room, most := limit-s.counts.Threads, max(1, limit/2)
	if len(recipients) <= smallMessage {
		room += limit
	}
	if room >= most || room >= len(recipients) || s.addsAtMost(recipients, max(0, room)) {
		return ""
	}
	return fmt.Sprintf("it is for more hosts than may be added to the %d threads, of which PARAMthread-limit allows %d", s.counts.Threads, limit)
}

// addsAtMost reports whether these recipients need at most so many threads that there are not yet.
func (s *Scheduler) addsAtMost(recipients []ctlfile.OpenRecipient, most int) bool {
	added := map[threadKey]struct{}{}
	for i := range recipients {
		key := threadKey{recipients[i].Channel, recipients[i].Host}
		if s.threads[key] == nil {
			if added[key] = struct{}{}; len(added) > most {
				return false
			}
		}
	}
	return true
}
