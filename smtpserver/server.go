// Package smtpserver takes mail by SMTP (RFC 5321) and LMTP (RFC 2033) and gives
// it to the router.
//
//	client ─► connection ─► go-smtp ─► session ─► queue ─► $POSTOFFICE/router/
//	          (one command  (syntax,   (policy)   (group
//	          at a time)    states)               commit)
//
// github.com/emersion/go-smtp implements the protocol: it parses MAIL and RCPT with
// their parameters, enforces the order of commands, and handles DATA, BDAT and AUTH.
// The connection that it reads from adds what go-smtp does not have, or does too late:
//
//   - The connection passes on one command at a time, and the next one when that one
//     is answered. So both always agree on where a message ends, and a message with
//     a bare CR or LF ends the session before anything after it is read.
//   - The connection handles STARTTLS itself, so that commands sent before the
//     handshake never count after it, and ETRN and XCLIENT, which go-smtp refuses.
//   - Command lines are bounded before they are read into memory. The deadline
//     of a message is extended while it arrives at a tolerable rate; go-smtp sets
//     one deadline for the complete message.
//   - Errors, commands without a message and the time without one are counted.
//
// The reply 250 to a message is sent when the message and its name in router/
// are on disk. A crash before that leaves either nothing in router/, or a
// complete message that the client sends again.
//
// The envelope has a rcvdfrom and a with line, from which the router writes the
// Received field. The server adds no field to the message.
package smtpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"zsched/ctlfile"
	"zsched/internal/listen"
	"zsched/internal/process"
	"zsched/internal/throttle"
)

// Options are the settings of a server: smtpserver(8).
type Options struct {
	Hostname   string
	Router     ctlfile.Router // where messages go
	NotifySock string         // of the scheduler, for ETRN
	TLS        *tls.Config    // nil: no STARTTLS and no AUTH
	Passwords  string         // file; "": no AUTH

	Domains  []string       // anybody may send to them: "example.org", or ".example.org" for all below it
	Networks []netip.Prefix // networks whose clients may send anywhere
	XCLIENT  []netip.Prefix // networks whose clients may use XCLIENT
	// CheckRecipient says whether the router would fail an address; nil: every
	// address is accepted. It must be safe for concurrent use.
	CheckRecipient func(address string) RecipientFault
	// Backlog asks the scheduler about the mail in transport/. It is called when
	// there are TransportMax files or more; nil: all files count.
	Backlog func() (Backlog, error)

	MaxSize        int64 // of a message, in bytes
	MaxRecipients  int   // of a message
	MaxSessions    int   // at once
	MaxFromAddress int   // sessions at once from an address outside Networks
	MaxErrors      int   // replies of class 4 and 5 between two messages, outside Networks

	MinFree        int64         // bytes of disk that are left free; 0: none
	RouterMax      int           // number of files in router/ at which mail is delayed; 0: no limit
	TransportMax   int           // the same for transport/, without mail that is deferred
	CommandTimeout time.Duration // without a byte
	DataTimeout    time.Duration // for a message, plus a second for each 1024 bytes received
	SessionTimeout time.Duration // without a message

	Log zerolog.Logger
}

// RecipientFault is why the router would fail an address.
type RecipientFault int

const (
	NoFault     RecipientFault = iota
	UnknownUser                // 5.1.1
	NoRoute                    // 5.1.2
)

// Default returns the default options.
func Default() Options {
	return Options{
		Hostname: "localhost",
		Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")},
		MaxSize:  50 << 20, MaxRecipients: 1000, MaxSessions: 500, MaxFromAddress: 50, MaxErrors: 30,
		MinFree: 64 << 20, RouterMax: 1000, TransportMax: 1000000,
		CommandTimeout: 5 * time.Minute, DataTimeout: 10 * time.Minute, SessionTimeout: time.Hour,
		Log: zerolog.Nop(),
	}
}

// Server accepts mail at any number of listeners.
type Server struct {
	queue     *queue
	envelopes atomic.Int64 // bytes of recipients in memory
	stopped   chan struct{}
	triggers  throttle.Throttle // ETRNs for each host
	logins    *logins
	guesses   *guesses

	mu       sync.Mutex
	config   *config          // of sessions that begin now
	configs  map[*config]bool // that and earlier ones that have sessions
	sessions map[*connection]bool
	from     map[netip.Prefix]int // sessions, by addressKey
	local    int                  // sessions of clients on this machine
	ending   sync.WaitGroup       // one for each session
}

// triggerPeriod is how often all clients together may start the delivery of a host's mail.
const triggerPeriod = time.Minute

// New returns a server for a postoffice. Close ends it.
func New(o Options) (*Server, error) {
	q, err := openQueue(o.Router, o.NotifySock, o.Log)
	if err != nil {
		return nil, err
	}
	known := newLogins(o.Router.Postoffice, o.Log)
	s := &Server{
		queue: q, stopped: make(chan struct{}), logins: known, guesses: newGuesses(known.has),
		triggers: throttle.Throttle{Period: triggerPeriod},
		sessions: make(map[*connection]bool), from: make(map[netip.Prefix]int), configs: make(map[*config]bool),
	}
	s.use(o)
	return s, nil
}

// logWriter logs what go-smtp reports: panics, and errors of accept.
type logWriter struct{ log zerolog.Logger }

func (w logWriter) Write(p []byte) (int, error) {
	w.log.Error().Msg(strings.TrimSpace(string(p)))
	return len(p), nil
}

// Protocol is the protocol of a listener.
type Protocol int

const (
	SMTP  Protocol = iota
	SMTPS          // TLS from the start (RFC 8314)
	LMTP
)

// Serve accepts mail at a listener until accepting fails or the server is closed.
func (s *Server) Serve(l net.Listener, p Protocol) error {
	pause := time.Duration(0)
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			pause = 0
			s.accept(conn, p)
		case listen.IsTemporary(err):
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			time.Sleep(pause)
		default:
			return err
		}
	}
}

// accept begins a session, unless there are too many.
func (s *Server) accept(conn net.Conn, p Protocol) {
	config := s.retain()
	c := newConnection(s, config, conn, p == LMTP)
	if !s.enter(c) {
		s.release(config)
		// The reply fits into the socket's buffer, so this does not block.
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
		if p != SMTPS {
			_, _ = fmt.Fprintf(conn, "421 4.3.2 %s Too many sessions\r\n", config.o.Hostname)
		}
		_ = conn.Close()
		return
	}
	if c.local && config.passwords.path != "" {
		// A client that closes its connection is not known any more.
		if uid, err := process.PeerUID(conn); err == nil {
			c.uid = uid
		}
	}
	if p == SMTPS {
		if config.o.TLS == nil { // it was turned off after the listener was opened
			_ = c.Close()
			return
		}
		_ = conn.SetReadDeadline(time.Now().Add(handshakeTimeout))
		c.use(tls.Server(conn, config.o.TLS))
	}
	to := config.smtpIn
	if p == LMTP {
		to = config.lmtpIn
	}
	select {
	case to.conns <- c:
	case <-to.closed:
		_ = c.Close()
	}
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

// enter registers a session. It returns false if there may not be one more.
func (s *Server) enter(c *connection) bool {
	c.key = addressKey(c.client.addr)
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.stopped:
		return false
	default:
	}
	if len(s.sessions) >= c.config.o.MaxSessions || !c.client.trusted && s.from[c.key] >= c.config.o.MaxFromAddress {
		return false
	}
	if c.isLocal() {
		// Any user of this machine may be the client. They leave sessions to others.
		if s.local >= (c.config.o.MaxSessions+1)/2 {
			return false
		}
		s.local++
		c.local = true
	}
	s.sessions[c] = true
	s.from[c.key]++
	s.ending.Add(1)
	return true
}

// leave removes a session when its connection is closed. It may be called repeatedly.
func (s *Server) leave(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.sessions[c] {
		return
	}
	delete(s.sessions, c)
	if c.local {
		s.local--
	}
	if s.from[c.key]--; s.from[c.key] == 0 {
		delete(s.from, c.key)
	}
	s.releaseLocked(c.config)
	s.ending.Done()
}

// Close ends all sessions: at once those that are not receiving a message, and the
// others after their message or when the context is done. The listeners must be closed
// first. A second call does nothing.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	select {
	case <-s.stopped:
		s.mu.Unlock()
		return nil
	default:
	}
	close(s.stopped)
	for c := range s.sessions {
		c.stop()
	}
	s.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		s.ending.Wait()
		close(ended)
	}()
	var err error
	select {
	case <-ended:
	case <-ctx.Done():
		err = ctx.Err()
		s.mu.Lock()
		for c := range s.sessions {
			_ = c.raw.Close()
		}
		s.mu.Unlock()
	}
	s.mu.Lock()
	configs := slices.Collect(maps.Keys(s.configs))
	s.mu.Unlock()
	for _, config := range configs { // the sessions have ended or are cut off
		config.end()
		_, _ = config.smtp.Close(), config.lmtp.Close()
	}
	s.queue.close()
	s.logins.save()
	return err
}

func (c client) String() string {
	if !c.addr.IsValid() {
		return "local"
	}
	return c.addr.String()
}

// ServeConn accepts mail from one connection, such as standard input and output, and
// returns when it is closed.
func (s *Server) ServeConn(conn net.Conn, p Protocol) error {
	closed := make(chan struct{})
	l := &oneConn{conn: &notifyClose{Conn: conn, closed: closed}, closed: closed}
	if err := s.Serve(l, p); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// oneConn is a listener that accepts one connection, and fails when that one is
// closed.
type oneConn struct {
	conn   net.Conn // nil once it has been accepted
	closed chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	if conn := l.conn; conn != nil {
		l.conn = nil
		return conn, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *oneConn) Close() error   { return nil }
func (l *oneConn) Addr() net.Addr { return &net.UnixAddr{Name: "stdin", Net: "unix"} }

// notifyClose is a connection whose Close also closes a channel.
type notifyClose struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (c *notifyClose) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
