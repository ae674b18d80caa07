package receiver

// The limits on connections whose node is not known yet: everybody who reaches the port
// can open these.

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// maxStrangers is how many connections may be open whose node is not known yet,
	// and maxOfAddress how many of them may come from one address. A further one
	// closes one of these; a node that has introduced itself loses no connection.
	maxStrangers = 50
	maxOfAddress = 10
	// introductionTimeout is how long a node may take for TLS and LHLO.
	introductionTimeout = time.Minute
)

// Why a connection is closed before its node is known.
var (
	errReplaced = errors.New("closed for a newer one: too many connections have not introduced themselves")
	errSilent   = errors.New("it has not introduced itself in time")
)

// strangers are the open connections whose node is not known yet.
type strangers struct {
	mu   sync.Mutex
	open []*stranger
}

// stranger is a connection whose node is not known yet.
type stranger struct {
	all     *strangers // its mu guards closed
	conn    net.Conn
	address netip.Prefix // an IPv4 address or a 64-bit network; the zero value: a UNIX socket
	timer   *time.Timer
	closed  error // why it was closed here
}

// enter adds a connection, and closes another one if there are too many.
func (s *strangers) enter(conn net.Conn) *stranger {
	entered := &stranger{all: s, conn: conn, address: addressOf(conn)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if entered.address.IsValid() { // who may use a UNIX socket is known at once
		if victim := s.victim(entered.address); victim != nil {
			victim.close(errReplaced)
		}
		s.open = append(s.open, entered)
	}
	entered.timer = time.AfterFunc(introductionTimeout, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		entered.close(errSilent)
	})
	return entered
}

func addressOf(conn net.Conn) netip.Prefix {
	tcp, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	prefix, _ := ip.Prefix(bits)
	return prefix
}

// victim returns the connection to close for one from an address, or nil: one of that
// address if it has as many as it may have, and otherwise one of an address that has the
// most. It is drawn at random. If it were the oldest, a flood of connections would end
// each introduction before it is complete.
func (s *strangers) victim(address netip.Prefix) *stranger {
	count := make(map[netip.Prefix]int)
	most := 0
	for _, one := range s.open {
		count[one.address]++
		most = max(most, count[one.address])
	}
	var candidates []*stranger
	for _, one := range s.open {
		switch {
		case count[address] >= maxOfAddress && one.address == address,
			count[address] < maxOfAddress && len(s.open) >= maxStrangers && count[one.address] == most:
			candidates = append(candidates, one)
		}
	}
	if len(candidates) == 0 {
		return nil
	}
	return candidates[rand.IntN(len(candidates))]
}

// close closes the connection. The caller holds all.mu.
func (s *stranger) close(why error) {
	if s.remove() {
		s.closed = why
		_ = s.conn.Close()
	}
}

// remove reports whether the connection was still one of a stranger. The caller holds
// all.mu.
func (s *stranger) remove() bool {
	if s.timer == nil {
		return false
	}
	s.timer.Stop()
	s.timer = nil
	s.all.open = slices.DeleteFunc(s.all.open, func(other *stranger) bool { return other == s })
	return true
}

// leave ends the limits on a connection: its node is known, or it is closed. It returns
// why it was closed here, or nil, and may be called repeatedly.
func (s *stranger) leave() error {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	s.remove()
	return s.closed
}
