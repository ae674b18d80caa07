package mailbox

// This file limits the share of the sessions that one user can occupy.

import (
	"slices"
	"sync"
	"time"
)

// slowAfter is how long a delivery takes before it counts as slow.
const slowAfter = 10 * time.Second

// shares keeps one user from occupying all sessions. A user can make deliveries
// slow, with a command that sleeps or by stopping the delivery helper. If a user
// has maxSlow slow deliveries under way, a further one is deferred. A burst of
// fast deliveries is never deferred.
type shares struct {
	maxSlow int // slow deliveries that a user may have under way
	now     func() time.Time

	mu    sync.Mutex
	began map[int][]time.Time // by uid: the deliveries under way
}

// begin begins a delivery if the user may have one more, and returns its start
// time.
func (s *shares) begin(uid int) (began time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, slow := s.now(), 0
	for _, began := range s.began[uid] {
		if now.Sub(began) >= slowAfter {
			slow++
		}
	}
	if slow >= s.maxSlow {
		return now, false
	}
	if s.began == nil {
		s.began = map[int][]time.Time{}
	}
	s.began[uid] = append(s.began[uid], now)
	return now, true
}

// end ends a delivery that begin has allowed.
func (s *shares) end(uid int, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	times := s.began[uid]
	if i := slices.Index(times, began); i >= 0 {
		times = slices.Delete(times, i, i+1)
	}
	if len(times) == 0 {
		delete(s.began, uid)
	} else {
		s.began[uid] = times
	}
}
