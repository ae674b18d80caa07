package mailbox

// This file limits the share of the sessions that one user can occupy.

import (
	"slices"
	"sync"
	"time"
)

const (
	// slowAfter is how long a delivery takes before it counts as slow.
	slowAfter = 2 * time.Second
	// maxShareWait is how long a delivery waits until the user has fewer under
	// way. It occupies a session meanwhile.
	maxShareWait = time.Second
)

// shares keeps one user from occupying all sessions. A user can make deliveries
// slow, with a command that sleeps or by stopping the delivery helper. A user has
// at most limit deliveries under way. A further one waits for one of them to end;
// it is deferred if all of them are slow, or after maxShareWait. So a burst of
// fast deliveries waits a little, and is not deferred.
type shares struct {
	limit int // deliveries that a user may have under way

	mu    sync.Mutex
	users map[int]*userShare // by uid: those with deliveries under way
}

// userShare is the deliveries of one user that are under way.
type userShare struct {
	began []time.Time
	ended chan struct{} // closed when one of them ends
}

// begin begins a delivery if the user may have one more, and returns its start
// time.
func (s *shares) begin(uid int) (began time.Time, ok bool) {
	timeout := time.After(maxShareWait)
	for {
		now := time.Now()
		ended, mayWait := s.tryBegin(uid, now)
		if ended == nil {
			return now, true
		}
		if !mayWait {
			return now, false
		}
		select {
		case <-ended:
		case <-timeout:
			return now, false
		}
	}
}

// tryBegin begins a delivery and returns nil. If the user has too many, it returns
// a channel that is closed when one of them ends, and whether one is fast enough
// to wait for.
func (s *shares) tryBegin(uid int, now time.Time) (ended <-chan struct{}, mayWait bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.users[uid]
	if u == nil {
		u = &userShare{ended: make(chan struct{})}
		if s.users == nil {
			s.users = map[int]*userShare{}
		}
		s.users[uid] = u
	}
	if len(u.began) < s.limit {
		u.began = append(u.began, now)
		return nil, false
	}
	fast := func(began time.Time) bool { return now.Sub(began) < slowAfter }
	return u.ended, slices.ContainsFunc(u.began, fast)
}

// end ends a delivery that begin has allowed.
func (s *shares) end(uid int, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.users[uid]
	i := slices.Index(u.began, began)
	u.began = slices.Delete(u.began, i, i+1)
	close(u.ended)
	u.ended = make(chan struct{})
	if len(u.began) == 0 {
		delete(s.users, uid)
	}
}
