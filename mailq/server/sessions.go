package server

import (
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	// maxSessions is the maximum number of sessions. Root and the server's own user
	// may have as many again on UNIX sockets. At the limit, a new connection replaces
	// one that has not logged in, or else an ordinary session that has been idle for
	// stallTime. If there is none, the new connection is closed without an answer.
	maxSessions = 40
	// maxOrdinary is how many sessions of users without KILL may be logged in, so that
	// other users can still log in. maxOrdinaryOfPeer is how many of them one address
	// or uid may have.
	maxOrdinary       = maxSessions / 2
	maxOrdinaryOfPeer = maxOrdinary / 2
)

// stallTime is how long a session may be idle before another may replace it.
const stallTime = 10 * time.Second

// sessions are the sessions that are open.
type sessions struct {
	mu    sync.Mutex
	slots []*slot // the oldest first
}

// slot is the place of one session.
type slot struct {
	all     *sessions // its mu guards admitted and activeAt
	conn    net.Conn
	peer    Peer
	trusted bool

	admitted bool // logged in, or needs no login
	ordinary bool // admitted without KILL
	activeAt time.Time
}

// open returns a slot for a connection, or nil if there is none. refused is the
// peer that gets no session or loses its session, or nil.
func (s *sessions) open(conn net.Conn, peer Peer, trusted bool) (opened *slot, refused *Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := maxSessions
	if trusted {
		limit += maxSessions
	}
	now := time.Now()
	if len(s.slots) >= limit {
		victim := s.victim(now)
		if victim == nil {
			return nil, &peer
		}
		s.remove(victim)
		_ = victim.conn.Close()
		refused = &victim.peer
	}
	opened = &slot{all: s, conn: conn, peer: peer, trusted: trusted, admitted: trusted, activeAt: now}
	s.slots = append(s.slots, opened)
	return opened, refused
}

// victim returns the session to close for a new one, or nil. Sessions without a login
// come first: victim picks one at random among those of the peer that has the most. If
// it picked the oldest, a flood of connections would end every login before it is
// complete. Among idle sessions it picks the oldest of the peer that has the most.
func (s *sessions) victim(now time.Time) *slot {
	var notAdmitted, idle []*slot
	for _, sl := range s.slots {
		switch {
		case sl.trusted:
		case !sl.admitted:
			notAdmitted = append(notAdmitted, sl)
		case sl.ordinary && now.Sub(sl.activeAt) >= stallTime:
			idle = append(idle, sl)
		}
	}
	if len(notAdmitted) > 0 {
		of, _ := oldestOfBusiestPeer(notAdmitted)
		busiest := of.peer.group()
		notAdmitted = slices.DeleteFunc(notAdmitted, func(sl *slot) bool { return sl.peer.group() != busiest })
		return notAdmitted[rand.IntN(len(notAdmitted))]
	}
	found, _ := oldestOfBusiestPeer(idle)
	return found
}

// oldestOfBusiestPeer returns the oldest session of the peer that has the most, and how
// many it has.
func oldestOfBusiestPeer(slots []*slot) (found *slot, most int) {
	count := make(map[string]int)
	for _, sl := range slots {
		count[sl.peer.group()]++
	}
	for _, sl := range slots {
		if found == nil || count[sl.peer.group()] > count[found.peer.group()] {
			found, most = sl, count[sl.peer.group()]
		}
	}
	return found, most
}

func (s *sessions) remove(sl *slot) {
	s.slots = slices.DeleteFunc(s.slots, func(other *slot) bool { return other == sl })
}

func (s *sessions) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.slots)
}

// close frees the slot, unless another session has replaced this one.
func (sl *slot) close() {
	sl.all.mu.Lock()
	defer sl.all.mu.Unlock()
	sl.all.remove(sl)
}

// active records that the peer sent a line or read a part of an answer.
func (sl *slot) active() {
	sl.all.mu.Lock()
	defer sl.all.mu.Unlock()
	sl.activeAt = time.Now()
}

// admit records that the peer has logged in or needs no login; ordinary says that it
// may not give orders. It returns false if there are too many ordinary sessions and
// none of them can be closed: one that is idle, or one of a peer that has at least two
// more than this one.
func (sl *slot) admit(ordinary bool) bool {
	sl.all.mu.Lock()
	defer sl.all.mu.Unlock()
	if ordinary && !sl.ordinary {
		var all, same []*slot
		for _, other := range sl.all.slots {
			if other.ordinary {
				all = append(all, other)
				if other.peer.group() == sl.peer.group() {
					same = append(same, other)
				}
			}
		}
		if len(same) >= maxOrdinaryOfPeer {
			all = same
		}
		if len(same) >= maxOrdinaryOfPeer || len(all) >= maxOrdinary {
			isBusy := func(other *slot) bool { return time.Since(other.activeAt) < stallTime }
			busiest, most := oldestOfBusiestPeer(all)
			victim, _ := oldestOfBusiestPeer(slices.DeleteFunc(all, isBusy))
			if victim == nil && most >= len(same)+2 && len(same) < maxOrdinaryOfPeer {
				victim = busiest
			}
			if victim == nil {
				return false
			}
			sl.all.remove(victim)
			_ = victim.conn.Close()
		}
	}
	sl.admitted, sl.ordinary = true, ordinary
	return true
}
