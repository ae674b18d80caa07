package smtpserver

// The connection between the client and go-smtp: it sees commands before go-smtp, and
// replies before the client.

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxCommand bounds the length of a command line in bytes, with its end.
	maxCommand = 4096
	// writeTimeout is how long a client may take to receive replies.
	writeTimeout = time.Minute
	// handshakeTimeout bounds a TLS handshake.
	handshakeTimeout = 30 * time.Second
	// minRate is the slowest transfer of a message that is tolerated after
	// Options.DataTimeout, in bytes a second.
	minRate = 1024
	// extraCommands is how many commands a client may send between two messages, in
	// addition to one for each possible recipient.
	extraCommands = 100
)

// errBareNewline says that a message has a CR or an LF that is not part of a
// CRLF.
var errBareNewline = errors.New("bare CR or LF")

// connection is a client's connection as go-smtp sees it. It passes one command line
// at a time to go-smtp, and the next one only when that one is answered, so that both
// always agree on what is a command and what is a message. It implements STARTTLS,
// ETRN and XCLIENT itself.
//
// One goroutine uses it, except for stop and Close.
type connection struct {
	net.Conn          // the client's; TLS after STARTTLS
	raw      net.Conn // without TLS
	server   *Server
	config   *config // in force when it was accepted
	lmtp     bool
	in       *bufio.Reader

	sending sync.Mutex // go-smtp may close the connection from another goroutine
	out     *bufio.Writer

	pending  []byte // the rest of a command line, which go-smtp has not read yet
	verb     string // of the last command that went to go-smtp
	last     bool   // the last command is BDAT with LAST
	code     int    // of the last reply; 0 until the command is answered
	chunk    uint64 // bytes of a BDAT chunk that are still to come
	chunks   int64  // bytes of the complete chunks of the current message, 0 for none
	data     dataState
	began    time.Time   // of the message or chunk
	received int64       // bytes of that message or chunk
	ended    atomic.Bool // nothing more is read from the client

	key   netip.Prefix // addressKey of the address that connected
	local bool         // counted in Server.local
	uid   int          // of the client's process on this machine; -1 unless it is known and passwords are used

	// client is given by XCLIENT or by the connection itself.
	client  client
	greeted string // HELO, EHLO or LHLO; "" before, and after STARTTLS
	// deliverBy is the value of the last MAIL command's BY parameter, or "".
	deliverBy string
	quietAt   time.Time // of the last accepted message, or the start
	errors    int       // replies of class 4 and 5 since quietAt
	commands  int       // since quietAt

	idle, stopping atomic.Bool
}

// client is the client of a session.
type client struct {
	addr    netip.Addr // the zero value for a UNIX socket or a pipe
	trusted bool       // may send anywhere
}

// dataState is the state of reading a message after DATA.
type dataState int

const (
	noData dataState = iota
	lineStart
	dot     // after a dot at the start of a line
	dotCR   // after such a dot and a CR
	text    // within a line
	textCR  // after a CR
	dataEnd // after the line with a dot
)

func newConnection(s *Server, config *config, conn net.Conn, lmtp bool) *connection {
	c := &connection{raw: conn, server: s, config: config, lmtp: lmtp, uid: -1, quietAt: time.Now()}
	c.use(conn)
	c.client.addr = remoteAddr(conn)
	c.client.trusted = config.o.trusts(c.client.addr)
	return c
}

func (c *connection) use(conn net.Conn) {
	c.sending.Lock()
	defer c.sending.Unlock()
	c.Conn = conn
	c.in = bufio.NewReaderSize(conn, maxCommand)
	c.out = bufio.NewWriterSize(timedWriter{conn}, 1024)
}

// timedWriter bounds the time of each write to a client.
type timedWriter struct{ net.Conn }

func (w timedWriter) Write(p []byte) (int, error) {
	if err := w.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return w.Conn.Write(p)
}

// remoteAddr returns the IP address of a client, or the zero value if the connection
// is not a TCP connection.
func remoteAddr(conn net.Conn) netip.Addr {
	if tcp, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

// isLocal reports whether the client is on this machine: it has a loopback address, the
// address that it connects to, or none, as at a UNIX socket.
func (c *connection) isLocal() bool {
	if addr := c.client.addr; addr.IsValid() && !addr.IsLoopback() {
		at, ok := c.raw.LocalAddr().(*net.TCPAddr)
		return ok && at.AddrPort().Addr().Unmap().WithZone("") == addr
	}
	return true
}

// tls returns the state of the TLS connection, nil for none.
func (c *connection) tls() *tls.ConnectionState {
	if conn, ok := c.Conn.(*tls.Conn); ok {
		state := conn.ConnectionState()
		return &state
	}
	return nil
}

// SetReadDeadline does nothing: the connection has deadlines of its own.
func (c *connection) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing, for the same reason.
func (c *connection) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline does nothing, for the same reason.
func (c *connection) SetDeadline(time.Time) error { return nil }

// Close sends the pending replies and closes the connection.
func (c *connection) Close() error {
	defer c.server.leave(c)
	c.ended.Store(true)
	_ = c.flush()
	c.sending.Lock()
	conn := c.Conn
	c.sending.Unlock()
	return conn.Close()
}

func (c *connection) flush() error {
	c.sending.Lock()
	defer c.sending.Unlock()
	return c.out.Flush()
}

// Write accepts a line of a reply from go-smtp. The line is sent before the connection
// waits for the client again.
func (c *connection) Write(p []byte) (int, error) {
	if len(p) >= 4 {
		if code, err := strconv.Atoi(string(p[:3])); err == nil {
			c.replied(code, p[3] == ' ')
		}
	}
	c.sending.Lock()
	defer c.sending.Unlock()
	if _, err := c.out.Write(p); err != nil {
		return 0, err
	}
	if c.code == 250 && bytes.HasPrefix(p, []byte("250-Hello ")) && c.verb != "HELO" {
		_, _ = c.out.WriteString(c.extensions())
	}
	return len(p), nil
}

// replied records the code of a line of a reply. last says that the line is the last.
func (c *connection) replied(code int, last bool) {
	c.code = code
	switch {
	case !last:
	case code >= 400:
		c.errors++
	case code == 250 && (c.verb == "DATA" || c.verb == "BDAT" && c.last):
		c.quietAt, c.errors, c.commands = time.Now(), 0, 0
	}
	if c.verb == "BDAT" {
		if code != 250 || c.last {
			c.chunks = 0
		} else {
			c.chunks += max(1, c.received)
		}
	}
	if code == 250 && (c.verb == "HELO" || c.verb == "EHLO" || c.verb == "LHLO") {
		c.greeted = c.verb
	}
}

// extensions returns the lines of the answer to EHLO that go-smtp does not write.
func (c *connection) extensions() string {
	var lines strings.Builder
	lines.WriteString("250-DELIVERBY\r\n")
	if c.config.o.TLS != nil && c.tls() == nil {
		lines.WriteString("250-STARTTLS\r\n")
	}
	if c.client.trusted && !c.lmtp {
		lines.WriteString("250-ETRN\r\n")
	}
	if c.mayXCLIENT() {
		lines.WriteString("250-XCLIENT ADDR\r\n")
	}
	return lines.String()
}

// reply answers a command that go-smtp does not see.
func (c *connection) reply(line string) {
	if line[0] >= '4' {
		c.errors++
	}
	c.sending.Lock()
	defer c.sending.Unlock()
	_, _ = c.out.WriteString(line + "\r\n") // c.out keeps the error
}

// hangUp sends a reply and ends the session.
func (c *connection) hangUp(line string) error {
	c.reply(line)
	c.ended.Store(true)
	return io.EOF
}

// Read gives go-smtp the next command line, or the next part of a message.
func (c *connection) Read(p []byte) (int, error) {
	switch {
	case c.ended.Load():
		return 0, io.EOF
	case c.chunk > 0 && len(c.pending) == 0:
		return c.readChunk(p)
	case c.verb == "DATA" && c.code == 354:
		c.code, c.data, c.began, c.received = 0, lineStart, time.Now(), 0
	}
	if c.data != noData {
		return c.readData(p)
	}
	if len(c.pending) == 0 {
		if err := c.nextCommand(); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.pending)
	c.pending = c.pending[n:]
	return n, nil
}

// readChunk reads a part of a BDAT chunk.
func (c *connection) readChunk(p []byte) (int, error) {
	if uint64(len(p)) > c.chunk {
		p = p[:c.chunk]
	}
	if err := c.awaitData(); err != nil {
		return 0, err
	}
	n, err := c.in.Read(p)
	c.chunk -= uint64(n)
	c.received += int64(n)
	return n, c.end(err)
}

// readData reads a part of a message after DATA, up to and including the line with
// the dot. A bare CR or LF ends the session, because another server may take it for
// the end of the message.
func (c *connection) readData(p []byte) (int, error) {
	if err := c.awaitData(); err != nil {
		return 0, err
	}
	if _, err := c.in.Peek(1); err != nil {
		return 0, c.end(err)
	}
	part, _ := c.in.Peek(min(len(p), c.in.Buffered()))
	n := 0
	for n < len(part) && c.data != dataEnd {
		state, ok := c.data.after(part[n])
		if !ok {
			c.ended.Store(true)
			return 0, errBareNewline
		}
		c.data = state
		n++
	}
	copy(p, part[:n])
	_, _ = c.in.Discard(n)
	c.received += int64(n)
	if c.data == dataEnd {
		c.data = noData
	}
	return n, nil
}

// after returns the state after one more byte. ok is false if there is a bare CR or LF.
func (s dataState) after(b byte) (next dataState, ok bool) {
	switch {
	case b == '\n':
		switch s {
		case dotCR:
			return dataEnd, true
		case textCR:
			return lineStart, true
		}
		return s, false
	case s == dotCR || s == textCR:
		return s, false
	case b == '\r' && s == dot:
		return dotCR, true
	case b == '\r':
		return textCR, true
	case b == '.' && s == lineStart:
		return dot, true
	}
	return text, true
}

// awaitData sends all pending replies and sets the deadline of the next read of a
// message.
func (c *connection) awaitData() error {
	if c.in.Buffered() > 0 {
		return nil
	}
	if err := c.flush(); err != nil {
		return c.end(err)
	}
	o := &c.config.o
	deadline := c.began.Add(o.DataTimeout + time.Duration(c.received/minRate)*time.Second)
	if idle := time.Now().Add(o.CommandTimeout); idle.Before(deadline) {
		deadline = idle
	}
	return c.Conn.SetReadDeadline(deadline)
}

// end marks the session as ended if there is an error, which it returns.
func (c *connection) end(err error) error {
	if err != nil {
		c.ended.Store(true)
	}
	return err
}

// stop ends the session at once or, if it is receiving a message, after that message.
// Any goroutine may call it.
func (c *connection) stop() {
	c.stopping.Store(true)
	if c.idle.Load() {
		_ = c.raw.SetReadDeadline(time.Now())
	}
}
