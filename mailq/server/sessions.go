package server

// How many sessions there may be.

import "sync"

const (
	// maxSessions is the maximum number of sessions. Root and the server's own user
	// may have as many again on UNIX sockets.
	maxSessions = 40
	// maxOfPeer is how many of them one address or uid may have.
	maxOfPeer = maxSessions / 4
)

// sessions counts the sessions that are open.
type sessions struct {
	mu     sync.Mutex
	all    int
	byPeer map[string]int // those of peers that are not trusted, by Peer.group
}

// open counts a session of a peer. It returns false if there are too many.
func (s *sessions) open(peer Peer, trusted bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := maxSessions
	if trusted {
		limit += maxSessions
	}
	if s.all >= limit || !trusted && s.byPeer[peer.group()] >= maxOfPeer {
		return false
	}
	s.all++
	if s.byPeer == nil {
		s.byPeer = make(map[string]int)
	}
	if !trusted {
		s.byPeer[peer.group()]++
	}
	return true
}

// close ends the count of a session.
func (s *sessions) close(peer Peer, trusted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if trusted {
		return
	}
	if s.byPeer[peer.group()]--; s.byPeer[peer.group()] == 0 {
		delete(s.byPeer, peer.group())
	}
}
