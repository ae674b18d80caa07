package mailbox

// This file limits the share of the sessions that one user can occupy.

import (
	"maps"
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
	// slowMemory is how long a user counts as slow after a slow delivery.
	slowMemory = 10 * time.Minute
)

// shares keeps a few users from occupying all sessions. A user can make deliveries
// slow, with a command that sleeps, a locked mailbox, or by stopping the delivery
// helper. A user has at most limit deliveries under way. A further one waits for one of
// them to end; it is deferred if all of them are slow, or after maxShareWait. So a burst
// of fast deliveries waits a little, and is not deferred. All users who are slow, or were
// lately, have at most slowLimit deliveries under way; the rest is for the others.
type shares struct {
	limit     int // deliveries that a user may have under way
	slowLimit int // deliveries that all slow users together may have under way

	mu    sync.Mutex
	users map[int]*userShare // by uid: those with deliveries under way, and slow ones
	swept time.Time          // when users was last looked through for those to forget
}

func newShares(sessions int) shares {
	return shares{limit: max(sessions/2, 1), slowLimit: max(sessions-max(sessions/4, 1), 1)}
}

// userShare is the deliveries of one user that are under way.
type userShare struct {
	began     []time.Time
	ended     chan struct{} // closed when one of them ends
	slowUntil time.Time     // slowMemory after the end of the last slow one
}

func (u *userShare) isSlow(now time.Time) bool {
	return now.Before(u.slowUntil) || slices.ContainsFunc(u.began, func(began time.Time) bool { return now.Sub(began) >= slowAfter })
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

// tryBegin begins a delivery and returns nil. If the user has too many, or slow users
// have, it returns a channel that is closed when one of the user's ends, and whether one
// of these is fast enough to wait for.
func (s *shares) tryBegin(uid int, now time.Time) (ended <-chan struct{}, mayWait bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep(now)
	u := s.users[uid]
	if u == nil {
		u = &userShare{ended: make(chan struct{})}
		if s.users == nil {
			s.users = map[int]*userShare{}
		}
		s.users[uid] = u
	}
	if u.isSlow(now) && s.slow(now) >= s.slowLimit {
		return u.ended, false
	}
	if len(u.began) < s.limit {
		u.began = append(u.began, now)
		return nil, false
	}
	fast := func(began time.Time) bool { return now.Sub(began) < slowAfter }
	return u.ended, slices.ContainsFunc(u.began, fast)
}

// slow returns the number of deliveries under way to slow users.
func (s *shares) slow(now time.Time) (n int) {
	for _, u := range s.users {
		if len(u.began) > 0 && u.isSlow(now) {
			n += len(u.began)
		}
	}
	return n
}

// sweep forgets, at most once in slowMemory, the users who are slow no longer.
func (s *shares) sweep(now time.Time) {
	if now.Sub(s.swept) < slowMemory {
		return
	}
	s.swept = now
	maps.DeleteFunc(s.users, func(_ int, u *userShare) bool { return len(u.began) == 0 && !u.isSlow(now) })
}

// end ends a delivery that begin has allowed.
func (s *shares) end(uid int, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, u := time.Now(), s.users[uid]
	if now.Sub(began) >= slowAfter {
		u.slowUntil = now.Add(slowMemory)
	}
	i := slices.Index(u.began, began)
	u.began = slices.Delete(u.began, i, i+1)
	close(u.ended)
	u.ended = make(chan struct{})
	if len(u.began) == 0 && !u.isSlow(now) {
		delete(s.users, uid)
	}
}
