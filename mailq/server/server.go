package server

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"zsched/internal/process"
	"zsched/mailq"
)

const (
	// MaxSessions is how many sessions a server has at most; a connection
	// beyond is closed without a byte. For root and the server's own user on
	// UNIX sockets it has as many more: strangers cannot keep them out.
	MaxSessions = 20
	// IdleTime is how long a session may be silent after its last command,
	// and how long a peer may take over 64 KiB of an answer.
	IdleTime = 90 * time.Second

	outBuffer = 64 << 10
	// lastWords is how long a peer may take over the rest of an answer when
	// the server stops.
	lastWords = time.Second
	// maxStrikes is how many wrong answers to the challenge, and commands
	// without a login, a session may give.
	maxStrikes = 10
)

// Settings are what a server is told. All may change while it runs.
type Settings struct {
	// Version is the protocol spoken, 1 or 2 (scheduler(8), -M).
	Version int
	// Brief leaves the jobs out of the pictures of v1 (scheduler(8), -Q).
	Brief bool
	// AuthFile says who may ask what of v2. "": nobody over TCP.
	AuthFile string
	// UID is the user that the server runs as. He and root have every right
	// on UNIX sockets and may own the auth file.
	UID int
	// HostsAllow and HostsDeny are TCP-wrappers' files, for v1. "": none.
	HostsAllow, HostsDeny string
	// Extra gives more lines of SHOW COUNTERS, without their meaning being
	// known (zmailer.conf(5), SCHEDULER_M_EXTRA). nil: none.
	Extra func(ctx context.Context) []byte
	// Alive says whether a process exists. nil: the system is asked.
	Alive func(pid int) bool
	// Note is told what ought to be logged, by any goroutine. nil: nobody.
	Note func(Note)
}

// trust says whether a peer is root or the server's own user.
func (s *Settings) trust(p Peer) bool {
	return p.unix() && (p.UID == 0 || p.UID == s.UID)
}

// NoteKind is what a Note is about.
type NoteKind string

const (
	NoteOrder   NoteKind = "order"         // an acting verb: Order, Outcome, Err
	NoteTrigger NoteKind = "etrn"          // ETRN: Host, Text, Started, Err
	NoteLogin   NoteKind = "login refused" // AUTH failed: User, Err
	NoteAccess  NoteKind = "access"        // no line of the auth file is for the peer
	NoteAuth    NoteKind = "auth file"     // it cannot be used: Err
	NoteWrapper NoteKind = "tcp-wrapper"   // v1 was refused: Err if the files could not be read
	NoteFull    NoteKind = "too many sessions"
	NoteGarbage NoteKind = "garbage" // the session was closed for what it sent: Err
	NoteQueue   NoteKind = "queue"   // the queue could not be read: Err
	NoteFault   NoteKind = "fault"   // a fault of this program closed the session: Err
)

// Note is something that ought to be logged.
type Note struct {
	Kind       NoteKind
	User, Peer string
	Order      *mailq.Order
	Outcome    mailq.Outcome
	Host, Text string
	Started    bool
	Err        error
}

// Server answers connections from a Queue. What it counts is kept over all of
// them.
type Server struct {
	queue    Queue
	settings atomic.Pointer[Settings]
	sessions atomic.Int64
	accepted atomic.Uint64 // the last number in a challenge
	counts   counts
}

// NewServer makes a server that answers from a queue.
func New(queue Queue, settings Settings) *Server {
	s := &Server{queue: queue}
	s.Configure(settings)
	return s
}

// Configure changes the settings, for sessions that begin later.
func (s *Server) Configure(settings Settings) {
	if settings.Alive == nil {
		settings.Alive = processExists
	}
	if settings.Note == nil {
		settings.Note = func(Note) {}
	}
	s.settings.Store(&settings)
}

// Serve has one session on an accepted connection and closes it. It returns
// when the session is over, which is soon after ctx is done. Nothing that a
// peer sends has an effect on other sessions.
func (s *Server) Serve(ctx context.Context, conn net.Conn, peer Peer) {
	defer conn.Close()
	settings := s.settings.Load()
	defer func() {
		if fault := recover(); fault != nil {
			settings.Note(Note{Kind: NoteFault, Peer: peer.String(), Err: fmt.Errorf("%v", fault)})
		}
	}()
	defer s.sessions.Add(-1)
	most := int64(MaxSessions)
	if settings.trust(peer) {
		most += MaxSessions
	}
	if s.sessions.Add(1) > most {
		settings.Note(Note{Kind: NoteFull, Peer: peer.String()})
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := bufio.NewWriterSize(&timedWriter{ctx, conn}, outBuffer)
	if settings.Version == 1 {
		s.picture(ctx, out, peer, settings)
		return
	}
	// One byte more than a line and its CR and LF is enough to see that a
	// line is too long.
	in := bufio.NewReaderSize(conn, mailq.MaxLine+3)
	one := &session{server: s, settings: settings, conn: conn, peer: peer, in: in, out: out}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Now()) })
	defer stop()
	one.run(ctx)
}

// timedWriter writes to a connection whose peer has some time for each write.
type timedWriter struct {
	ctx  context.Context
	conn net.Conn
}

func (p *timedWriter) Write(b []byte) (int, error) {
	patience := IdleTime
	if p.ctx.Err() != nil {
		patience = lastWords
	}
	_ = p.conn.SetWriteDeadline(time.Now().Add(patience))
	return p.conn.Write(b)
}

// picture is a whole connection of v1.
func (s *Server) picture(ctx context.Context, out *bufio.Writer, peer Peer, settings *Settings) {
	if !peer.unix() {
		ok, err := wrappersAdmit(settings.HostsAllow, settings.HostsDeny, peer.Addr)
		if !ok {
			s.counts.add("TcpWrapRej")
			settings.Note(Note{Kind: NoteWrapper, Peer: peer.String(), Err: err})
			_, _ = out.WriteString("500 TCP-WRAPPER refusing 'mailq' query from your whereabouts\r\n")
			_ = out.Flush()
			return
		}
	}
	if dump(ctx, out, s.queue, settings.Brief) != nil || out.Flush() != nil {
		s.counts.add("WriteFails")
	}
}

// processExists says whether there is a process with this number.
func processExists(pid int) bool {
	return process.Exists(pid)
}

// isTimeout says whether a deadline passed.
func isTimeout(err error) bool { return os.IsTimeout(err) }
