package smtpserver

// Listeners: who the client of a connection is, and how many sessions there may be.

import (
	"net"
	"net/netip"
	"time"

	"zsched/ctlfile"
	"zsched/internal/listen"
	"zsched/internal/process"
)

// Protocol is what the clients of a listener speak.
type Protocol struct {
	TLS         bool // from the start (RFC 8314)
	RequireAuth bool // all clients have to log in, also those that may send anywhere elsewhere
}

// SMTP and SMTPS are protocols for everybody.
var (
	SMTP  = Protocol{}
	SMTPS = Protocol{TLS: true}
)

// client is the client of a session.
type client struct {
	addr    netip.Addr   // the zero value for a UNIX socket or a pipe
	key     netip.Prefix // addressKey of it
	block   string       // its address block, or its user on this machine, as ctlfile.Source names it
	local   bool         // it is on this machine
	trusted bool         // it may send anywhere
}

func (c client) String() string {
	if !c.addr.IsValid() {
		return "local"
	}
	return c.addr.String()
}

// thisMachine is the address block of the clients on this machine whose user is not known.
const thisMachine = "local"

// clientOf returns the client of a connection. One on this machine has a loopback address,
// the address that it connects to, or none, as at a UNIX socket.
func clientOf(conn net.Conn, o *Options) client {
	addr := ipOf(conn.RemoteAddr())
	c := client{
		addr: addr, key: addressKey(addr), trusted: o.trusts(addr),
		local: !addr.IsValid() || addr.IsLoopback() || addr == ipOf(conn.LocalAddr()),
	}
	if !c.local {
		c.block = ctlfile.ClientSource(addr)
	} else if uid, err := process.PeerUID(conn); err == nil {
		c.block = ctlfile.UserSource(process.UserOf(uid))
	} else { // it has closed its connection, or is a pipe
		c.block = thisMachine
	}
	return c
}

// ipOf returns an IP address, or the zero value if the connection is not a TCP connection.
func ipOf(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

// addressKey returns the key by which sessions and wrong passwords are counted: an
// IPv4 address, or the 64-bit network of an IPv6 address.
func addressKey(addr netip.Addr) netip.Prefix {
	bits := 64
	if addr.Is4() {
		bits = 32
	}
	prefix, _ := addr.Prefix(bits)
	return prefix
}

// Serve accepts mail at a listener until accepting fails or the server is closed.
func (s *Server) Serve(l net.Listener, p Protocol) error {
	return listen.Accept(l, func(conn net.Conn) {
		if c := s.begin(conn, p); c != nil {
			go c.run()
		}
	})
}

// ServeConn accepts mail from one connection, such as standard input and output, and
// returns when it is closed.
func (s *Server) ServeConn(conn net.Conn, p Protocol) error {
	if c := s.begin(conn, p); c != nil {
		c.run()
	}
	return nil
}

// begin begins a session. If there are too many, it closes the connection and returns nil.
func (s *Server) begin(conn net.Conn, p Protocol) *session {
	c := newSession(s, conn, p)
	if s.enter(c) {
		c.unlogged, c.logged = s.ended.Take(c.client.block, c.began)
		return c
	}
	c.unlogged, c.logged = s.crowded.Take(c.client.block, c.began)
	_ = c.refuse(errTooManySessions)
	if !p.TLS {
		// The reply fits into the socket's buffer, so this does not block.
		c.told.Store(errTooManySessions)
		_ = c.out.Flush()
	}
	_ = conn.Close()
	return nil
}

// enter registers a session. It returns false if there may not be one more.
func (s *Server) enter(c *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.stopped:
		return false
	default:
	}
	// Any user of this machine may be the client. They leave sessions to others.
	localFull := c.client.local && s.local >= (c.o.MaxSessions+1)/2
	if !c.client.trusted && s.from[c.client.key] >= c.o.MaxFromAddress ||
		(localFull || len(s.sessions) >= c.o.MaxSessions) && !s.makeRoom(c.client.block, localFull) {
		return false
	}
	if c.client.local {
		s.local++
	}
	s.sessions[c] = true
	s.from[c.client.key]++
	s.ending.Add(1)
	s.counts.Sessions++
	return true
}

// maxRoundTrip is how long the next command of a client may be on its way.
const maxRoundTrip = time.Second

// makeRoom ends a session of the address block that has most, if the block of a newcomer has
// fewer: of those that wait for their clients, the one that has waited longest or, if none has
// for a round trip, the one that has gone longest without a message, because a client could send a
// byte more often than honest ones can send commands. If local is set, it looks only at the
// sessions of clients on this machine.
func (s *Server) makeRoom(newcomer string, local bool) bool {
	number := make(map[string]int)
	for c := range s.sessions {
		if !local || c.client.local {
			number[c.client.block]++
		}
	}
	var last *session
	var lastSince int64
	most, lastIdle, now := number[newcomer]+1, false, time.Now().UnixNano()
	for c := range s.sessions {
		n, since := number[c.client.block], c.waitsSince.Load()
		if since == 0 || n < most {
			continue
		}
		idle := now-since >= int64(s.roundTrip)
		if !idle {
			since = c.quietAt.Load()
		}
		if last == nil || n > most || idle && !lastIdle || idle == lastIdle && since < lastSince {
			last, most, lastIdle, lastSince = c, n, idle, since
		}
	}
	if last == nil {
		return false
	}
	s.remove(last)
	last.stop(errIdle)
	return true
}

// leave removes a session whose connection is closed.
func (s *Server) leave(c *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(c)
	s.ending.Done()
}

// remove gives the place of a session to others, if it has one.
func (s *Server) remove(c *session) {
	if !s.sessions[c] {
		return
	}
	delete(s.sessions, c)
	if c.client.local {
		s.local--
	}
	if s.from[c.client.key]--; s.from[c.client.key] == 0 {
		delete(s.from, c.client.key)
	}
}
