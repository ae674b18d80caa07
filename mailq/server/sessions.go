package server

import (
	"net"
	"slices"
	"sync"
	"time"
)

// maxSessions is the maximum number of sessions. Root and the server's own user
// may have as many again on UNIX sockets. At the limit, a new connection
// replaces the session of a peer that has not logged in, or else one that has
// been idle for stallTime, so that silent peers cannot keep users out. If there
// is no such session, the new connection is closed without an answer.
const maxSessions = 20

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

// victim returns the session to close for a new one, or nil. Peers that have not
// logged in come first. Among several sessions it chooses the oldest of the peer
// that has the most.
func (s *sessions) victim(now time.Time) *slot {
	var notAdmitted, idle []*slot
	for _, sl := range s.slots {
		switch {
		case sl.trusted:
		case !sl.admitted:
			notAdmitted = append(notAdmitted, sl)
		case now.Sub(sl.activeAt) >= stallTime:
			idle = append(idle, sl)
		}
	}
	if len(notAdmitted) > 0 {
		return oldestOfBusiestPeer(notAdmitted)
	}
	return oldestOfBusiestPeer(idle)
}

func oldestOfBusiestPeer(slots []*slot) (found *slot) {
	count := make(map[string]int)
	for _, sl := range slots {
		count[sl.peer.String()]++
	}
	for _, sl := range slots {
		if found == nil || count[sl.peer.String()] > count[found.peer.String()] {
			found = sl
		}
	}
	return found
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

// admit records that the peer has logged in or needs no login.
func (sl *slot) admit() {
	sl.all.mu.Lock()
	defer sl.all.mu.Unlock()
	sl.admitted = true
}
