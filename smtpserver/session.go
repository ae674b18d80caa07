package smtpserver

// A session: reading commands, answering them, and what has been agreed on meanwhile.

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// maxCommand bounds the length of a command line in bytes, with its end.
	maxCommand = 4096
	// writeTimeout is how long a client may take to receive replies.
	writeTimeout = time.Minute
	// lastWriteTimeout is how long it may take when the session is to end.
	lastWriteTimeout = time.Second
	// handshakeTimeout bounds a TLS handshake.
	handshakeTimeout = 30 * time.Second
	// extraCommands is how many commands a client may send between two messages, in
	// addition to one for each possible recipient.
	extraCommands = 100
)

// errEnded says that the session has ended, and that nothing is left to be said.
var errEnded = errors.New("the session has ended")

// session is a client's connection. One goroutine runs it; others only call stop, or
// close raw.
type session struct {
	server   *Server
	o        *Options // in force when it was accepted
	raw      net.Conn // without TLS
	conn     net.Conn // raw, or TLS
	in       *bufio.Reader
	out      *bufio.Writer
	client   client
	listener Protocol

	greeted string     // HELO or EHLO; "" before, and after STARTTLS
	helo    string     // the name that the client gave with it
	user    string     // who has authenticated, or ""
	login   credential // of the user
	// loginFile is what stat said of the password file before the login was read.
	loginFile os.FileInfo
	fails     int          // passwords that were refused
	mail      *transaction // nil between two messages

	began    time.Time
	messages int     // accepted
	refusals int     // replies of class 4 and 5
	received int64   // bytes
	about    subject // of the command in hand
	reason   string  // why the session ends
	logged   bool    // false: its address block has too many sessions for the log
	unlogged int     // sessions of its address block that were not logged since the last one that was

	errors   int // replies of class 4 and 5 since quietAt
	commands int // since quietAt

	idle atomic.Bool // it waits for a command
	// waitsSince is when it began to wait for its client, or to check a password, in nanoseconds
	// since 1970; 0: it does neither.
	waitsSince atomic.Int64
	quietAt    atomic.Int64            // time of the last accepted message, or of the start, in the same unit
	told       atomic.Pointer[refusal] // with what another goroutine ends it; nil: not yet
}

func newSession(s *Server, conn net.Conn, p Protocol) *session {
	o := &s.config.Load().Options
	c := &session{server: s, o: o, raw: conn, listener: p, began: time.Now(), reason: "closed"}
	c.quietAt.Store(c.began.UnixNano())
	c.client = clientOf(conn, o)
	c.use(countingConn{conn, c})
	return c
}

// countingConn counts the bytes that come from a client.
type countingConn struct {
	net.Conn
	session *session
}

func (c countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.session.received += int64(n)
	return n, err
}

func (s *session) use(conn net.Conn) {
	s.conn = conn
	s.in = bufio.NewReaderSize(conn, maxCommand)
	s.out = bufio.NewWriterSize(timedWriter{conn, s}, 1024)
}

// timedWriter bounds the time of each write to a client, which is a wait for the client.
type timedWriter struct {
	net.Conn
	session *session
}

func (w timedWriter) Write(p []byte) (int, error) {
	if w.session.waitsSince.CompareAndSwap(0, time.Now().UnixNano()) { // session.wait has not set it
		defer w.session.waitsSince.Store(0)
	}
	if err := w.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	// This comes second: stop may have set its deadline just before the one above.
	if w.session.told.Load() != nil {
		_ = w.SetWriteDeadline(time.Now().Add(lastWriteTimeout))
	}
	return w.Conn.Write(p)
}

// run speaks with the client until the session ends, and closes the connection.
func (s *session) run() {
	defer s.server.leave(s)
	defer func() {
		if fault := recover(); fault != nil { // of one session, which must not end the others
			s.o.Log.Error().Interface("panic", fault).Bytes("stack", debug.Stack()).Msg("session ended")
			_ = s.refuse(errFault)
		}
		s.reset()
		if s.out.Flush() != nil {
			_ = s.raw.Close() // TLS would wait five seconds more for a client that does not read
		}
		_ = s.conn.Close()
		s.logEnd()
	}()
	if s.listener.TLS && (s.o.TLS == nil || s.handshake() != nil) { // it was turned off after the listener was opened
		return
	}
	s.reply("220 %s ESMTP", s.o.Hostname)
	for s.step() == nil {
	}
}

// step reads a command and answers it. Any error ends the session.
func (s *session) step() error {
	line, err := s.readLine()
	if err == nil {
		err = s.answer(line)
	}
	if r, ok := errors.AsType[*refusal](err); ok {
		return s.refuse(r)
	}
	return err
}

// reply sends a reply, or a line of one, before the session waits for the client again.
func (s *session) reply(format string, args ...any) {
	fmt.Fprintf(s.out, format+"\r\n", args...) // s.out keeps the error
}

// refuse sends a reply of class 4 or 5: all of them are sent here. A session that ends
// does so with 421 (RFC 5321 section 3.8).
func (s *session) refuse(r *refusal) error {
	s.errors++
	s.refusals++
	s.server.count(func(c *Counts) { c.Refused[r.reason]++ })
	s.logRefusal(r)
	if r.ends || r.code == 421 {
		s.reason = r.reason
	}
	if r.code == 421 {
		s.reply("%d %s %s %s", r.code, r.status, s.o.Hostname, r.text)
		return errEnded
	}
	s.reply("%d %s %s", r.code, r.status, r.text)
	if r.ends {
		s.reply("421 4.7.0 %s Closing the connection", s.o.Hostname)
		return errEnded
	}
	return nil
}

// readLine reads a line from the client, without its end.
func (s *session) readLine() (string, error) {
	deadline := time.Now().Add(s.o.CommandTimeout)
	if total := time.Unix(0, s.quietAt.Load()).Add(s.o.SessionTimeout); total.Before(deadline) {
		deadline = total
	}
	s.idle.Store(true)
	var line []byte
	err := s.wait(deadline, func() (err error) {
		line, err = s.in.ReadSlice('\n')
		return err
	})
	s.idle.Store(false)
	return strings.TrimSuffix(strings.TrimSuffix(string(line), "\n"), "\r"), err
}

// wait reads from the client until a deadline. Where nothing has come yet, it sends all pending
// replies first. The error is a refusal or errEnded.
func (s *session) wait(deadline time.Time, read func() error) error {
	s.waitsSince.Store(time.Now().UnixNano())
	defer s.waitsSince.Store(0)
	var err error
	if s.in.Buffered() == 0 {
		err = s.out.Flush()
	}
	_ = s.conn.SetReadDeadline(deadline)
	told := func() *refusal {
		if r := s.told.Load(); r == errIdle || s.idle.Load() {
			return r
		}
		return nil
	}
	if r := told(); r != nil {
		return r
	}
	if err == nil {
		err = read()
	}
	switch r := told(); {
	case err == nil:
		return nil
	case errors.Is(err, bufio.ErrBufferFull):
		return errLongCommand
	case r != nil:
		return r
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errTimeout
	}
	return errEnded
}

// stop ends the session at once or, with errStopping while it is receiving a message, after
// that message. A client that is not reading a reply has lastWriteTimeout to do so. Any goroutine
// may call it.
func (s *session) stop(r *refusal) {
	s.told.Store(r)
	_ = s.raw.SetWriteDeadline(time.Now().Add(lastWriteTimeout))
	if r == errIdle || s.idle.Load() {
		_ = s.raw.SetReadDeadline(time.Now())
	}
}

// tls returns the state of the TLS connection, nil for none.
func (s *session) tls() *tls.ConnectionState {
	if conn, ok := s.conn.(*tls.Conn); ok {
		state := conn.ConnectionState()
		return &state
	}
	return nil
}

// handshake begins TLS.
func (s *session) handshake() error {
	conn := tls.Server(s.conn, s.o.TLS)
	deadline := time.Now().Add(handshakeTimeout)
	_ = s.conn.SetWriteDeadline(deadline)
	s.idle.Store(true)
	err := s.wait(deadline, func() error {
		s.about.err = conn.Handshake()
		return s.about.err
	})
	s.idle.Store(false)
	if err != nil {
		s.reason = "tls"
		return errEnded
	}
	s.use(conn)
	s.server.count(func(c *Counts) { c.TLS++ })
	return nil
}

// pause waits for a time, or until the server stops.
func (s *Server) pause(d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-s.stopped:
	}
}
