package server

// The sessions that are open, and how many a peer may have.

import (
	"net"
	"slices"
	"sync"
	"time"
)

const (
	// maxSessions is the maximum number of sessions. Root and the server's own user
	// may have as many again on UNIX sockets. At the limit, a new connection replaces
	// one that has not logged in. If there is none, it is closed without an answer.
	maxSessions = 40
	// maxOrdinary is how many sessions of users without KILL may be logged in, so that
	// other users can still log in. maxOrdinaryOfPeer is how many of them one address
	// or uid may have.
	maxOrdinary       = maxSessions / 2
	maxOrdinaryOfPeer = maxOrdinary / 2
)

// stallTime is how long a session without KILL may be silent before another may replace it.
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
	if len(s.slots) >= limit {
		victim, _ := s.victim(func(sl *slot) bool { return !sl.admitted })
		if victim == nil {
			return nil, &peer
		}
		s.end(victim)
		refused = &victim.peer
	}
	opened = &slot{all: s, conn: conn, peer: peer, trusted: trusted, admitted: trusted, activeAt: time.Now()}
	s.slots = append(s.slots, opened)
	return opened, refused
}

// victim returns a session of the peer that has the most of those that match: the one that has
// been silent for longest. most is how many that peer has.
func (s *sessions) victim(matches func(*slot) bool) (found *slot, most int) {
	count := make(map[string]int)
	for _, sl := range s.slots {
		if matches(sl) {
			count[sl.peer.group()]++
		}
	}
	for _, sl := range s.slots {
		n := count[sl.peer.group()]
		if matches(sl) && (n > most || n == most && sl.activeAt.Before(found.activeAt)) {
			found, most = sl, n
		}
	}
	return found, most
}

// end takes the place of a session and closes its connection.
func (s *sessions) end(sl *slot) {
	s.remove(sl)
	_ = sl.conn.Close()
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
// none of them can be closed: one that is silent, or one of a peer that has at least two
// more than this one.
func (sl *slot) admit(ordinary bool) bool {
	sl.all.mu.Lock()
	defer sl.all.mu.Unlock()
	if ordinary && !sl.ordinary && !sl.all.makeRoom(sl.peer.group()) {
		return false
	}
	sl.admitted, sl.ordinary = true, ordinary
	return true
}

// makeRoom closes an ordinary session if there are as many as there may be, in all or of one
// peer. It returns false if none can be closed.
func (s *sessions) makeRoom(group string) bool {
	all, same := 0, 0
	for _, sl := range s.slots {
		if sl.ordinary {
			all++
			if sl.peer.group() == group {
				same++
			}
		}
	}
	full := same >= maxOrdinaryOfPeer
	if !full && all < maxOrdinary {
		return true
	}
	victim, most := s.victim(func(sl *slot) bool { return sl.ordinary && (!full || sl.peer.group() == group) })
	if (full || most < same+2) && time.Since(victim.activeAt) < stallTime {
		return false
	}
	s.end(victim)
	return true
}
