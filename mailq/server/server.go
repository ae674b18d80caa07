// Package server answers the query protocol, MAILQ v1 and v2 (package mailq), on
// connections that it is given (PARAMmailqsock in scheduler.cf(5)). It reads the
// scheduler's state from a Queue and gives orders to it.
//
//	connection ──► Server.Serve ── v1 ──► writes a dump and closes
//	                    └───────── v2 ──► session: a line, a reply, a line, …
//
// A session may do what the rights of its user allow. On TCP a user logs in with
// a password; the auth file has users, passwords, rights and addresses. On a
// UNIX socket the kernel's credentials say who the peer is. Version 1 has no
// users: peers on this machine get a dump.
package server

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"zsched/internal/logs"
	"zsched/mailq"
)

const (
	// idleTimeout is how long a session may be silent after its last command,
	// and how long a peer may take to read 64 KiB of an answer.
	idleTimeout = 90 * time.Second
	// loginTimeout is how long a session may be silent before its peer has logged in.
	loginTimeout = 10 * time.Second

	outBuffer = 64 << 10
	// closeTimeout is how long a peer may take to read the rest of an answer
	// when the server stops.
	closeTimeout = time.Second
	// maxFailures is how many failed logins, and commands without a login, end a
	// session.
	maxFailures = 10
	// triggerPeriod is the least time between two starts of a host's mail by
	// users who may not give orders.
	triggerPeriod = time.Minute
	// maxTriggers is how many ETRNs one of these users may send in a triggerPeriod.
	maxTriggers = 100
)

// Settings are the server's settings. Configure may change them at any time.
type Settings struct {
	// Version is the version of the protocol, 1 or 2 (scheduler(8), -M).
	Version int
	// Brief leaves the jobs out of the dumps of v1 (scheduler(8), -Q).
	Brief bool
	// AuthFile is the auth file of v2. "": nobody may log in over TCP.
	AuthFile string
	// UID is the user that the server runs as. This user and root have every
	// right on UNIX sockets, and may own the auth file.
	UID int
	// Postoffice is the directory of the queue, which v2 tells to local peers in its greeting.
	// "": it is not told.
	Postoffice string
	// Note receives what should be logged. It may be called from any goroutine.
	// nil: nothing is logged.
	Note func(Note)
}

// trusts reports whether a peer is root or the server's own user.
func (s *Settings) trusts(p Peer) bool {
	return p.unix() && (p.UID == 0 || p.UID == s.UID)
}

// NoteKind says what a Note is about.
type NoteKind string

const (
	NoteOrder   NoteKind = "order"            // an order was given: Order, Outcome, Err
	NoteTrigger NoteKind = "etrn"             // ETRN: Host, Text, Started, Err
	NoteLogin   NoteKind = "login refused"    // AUTH failed: User, Err
	NoteAccess  NoteKind = "access"           // the auth file has no line for the peer
	NoteAuth    NoteKind = "auth file"        // it cannot be used: Err
	NoteRemote  NoteKind = "not this machine" // v1 was refused
	NoteFull    NoteKind = "too many sessions"
	NoteGarbage NoteKind = "garbage" // what the peer sent ended the session: Err
	NoteQueue   NoteKind = "queue"   // the queue could not be read: Err
	NoteFault   NoteKind = "fault"   // a bug in this program ended the session: Err
)

// Note is something that should be logged. Kind says which of the fields after
// Peer are set.
type Note struct {
	Kind       NoteKind
	User, Peer string
	Order      *mailq.Order
	Outcome    mailq.Outcome
	Host, Text string
	Started    bool
	Err        error
}

// Server answers connections from a Queue.
type Server struct {
	queue    Queue
	settings atomic.Pointer[Settings]
	sessions sessions
	failed   chan bool // has room for one: the failed login whose answer is delayed
	// triggers and askers bound the ETRNs of users who may not give orders, for each host and for
	// each peer.
	triggers, askers logs.Throttle
}

// New returns a server that answers from a queue.
func New(queue Queue, settings Settings) *Server {
	s := &Server{
		queue: queue, failed: make(chan bool, 1), triggers: logs.Throttle{Period: triggerPeriod},
		askers: logs.Throttle{Number: maxTriggers, Period: triggerPeriod},
	}
	s.Configure(settings)
	return s
}

// Configure sets the settings of sessions that begin later.
func (s *Server) Configure(settings Settings) {
	if settings.Note == nil {
		settings.Note = func(Note) {}
	}
	s.settings.Store(&settings)
}

// Serve runs one session on an accepted connection and closes the connection. It
// returns when the session is over, which is soon after ctx is done. Nothing that
// a peer sends affects other sessions.
func (s *Server) Serve(ctx context.Context, conn net.Conn, peer Peer) {
	defer conn.Close()
	settings := s.settings.Load()
	defer func() {
		if fault := recover(); fault != nil {
			settings.Note(Note{Kind: NoteFault, Peer: peer.String(), Err: fmt.Errorf("%v", fault)})
		}
	}()
	trusted := settings.trusts(peer)
	if !s.sessions.open(peer, trusted) {
		settings.Note(Note{Kind: NoteFull, Peer: peer.String()})
		return
	}
	defer s.sessions.close(peer, trusted)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := bufio.NewWriterSize(&deadlineWriter{ctx, conn}, outBuffer)
	if settings.Version == 1 {
		s.serveV1(ctx, out, peer, settings)
		return
	}
	// Room for CR, LF and one byte more, so that a full buffer means that the
	// line is too long.
	in := bufio.NewReaderSize(conn, mailq.MaxLine+3)
	sess := &session{server: s, settings: settings, conn: conn, peer: peer, in: in, out: out}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Now()) })
	defer stop()
	sess.run(ctx)
}

// deadlineWriter gives the peer of a connection a limited time for each write.
type deadlineWriter struct {
	ctx  context.Context
	conn net.Conn
}

func (w *deadlineWriter) Write(b []byte) (int, error) {
	timeout := idleTimeout
	if w.ctx.Err() != nil {
		timeout = closeTimeout
	}
	_ = w.conn.SetWriteDeadline(time.Now().Add(timeout))
	return w.conn.Write(b)
}
