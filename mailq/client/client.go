package client

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"os"
	"strings"
	"time"

	"zsched/mailq"
)

// Client is one dialogue with a server, of either version:
//
//	S: version zmailer 1.0            S: version zmailer 2.0
//	S: Vertices:                      S: 220 MAILQ-V2-CHALLENGE: 795233126.898330.1
//	S: ...                            C: AUTH nobody 1304725670c8069b18abb3e3eafa7f8f
//	S: End:                           S: +OK
//	S: ...                            C: SHOW SNMP
//	                                  S: +OK until LF.LF
//	                                  S: Kids: 6 ...
//	                                  S: .
//	                                  C: QUIT
//	                                  S: +Bye bye
//
// In version 1 the server talks and the client is silent. Several commands
// may be sent before the first answer is read. A Client is used by one
// goroutine at a time, but may be closed by another.
type Client struct {
	// Version is 1 or 2.
	Version int

	conn      net.Conn
	in        *bufio.Reader
	server    string // for messages
	challenge string
	patience  time.Duration
	trace     io.Writer
	broken    error // why the dialogue cannot go on
}

// Dialogue says how a Client behaves.
type Dialogue struct {
	Server   string        // its name in messages
	Patience time.Duration // how long the server may be silent; 0: for ever
	Trace    io.Writer     // gets every line received as "- line"; nil: none
}

// maxReply is how long one line from the server may be, in bytes. Long are
// those of version 1 that list the messages of a channel.
const maxReply = 64 << 20

// NewClient begins a dialogue: it reads the greeting. The connection is the
// Client's, also when there is an error.
func New(conn net.Conn, how Dialogue) (*Client, error) {
	c := &Client{
		conn: conn, in: bufio.NewReaderSize(patient{conn, how.Patience}, 64<<10),
		server: how.Server, patience: how.Patience, trace: how.Trace,
	}
	if err := c.greet(); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return c, nil
}

func (c *Client) greet() error {
	line, err := c.line()
	if errors.Is(err, io.EOF) {
		return fault(Unavailable, "%s hung up without a word: it has too many sessions", c.server)
	}
	if err != nil {
		return err
	}
	switch {
	case strings.HasPrefix(line, mailq.GreetingV1):
		c.Version = 1
		return nil
	case strings.HasPrefix(line, mailq.GreetingV2):
		c.Version = 2
	case strings.HasPrefix(line, "5"):
		return fault(Refused, "%s refuses us: %q", c.server, line)
	default:
		return fault(Garbled, "version mismatch, input is %q", line)
	}
	if c.challenge, err = c.line(); err != nil {
		return c.cut(err)
	}
	if strings.HasPrefix(c.challenge, "5") {
		return fault(Refused, "%s refuses us: %q", c.server, c.challenge)
	}
	return nil
}

// Close ends the dialogue without a good-bye.
func (c *Client) Close() error { return c.conn.Close() }

// Quit says good-bye and ends the dialogue.
func (c *Client) Quit() error {
	if c.Version == 2 && c.broken == nil && c.Send("QUIT") == nil {
		_, _ = c.line()
	}
	return c.conn.Close()
}

// Login tells the server who is asking (scheduler(8), "MAILQv2 PROTOCOL").
func (c *Client) Login(user, password string) error {
	if strings.ContainsAny(user, " \t\r\n") || user == "" {
		return fault(Refused, "user %q: a user is one word", user)
	}
	if err := c.Send("AUTH " + user + " " + mailq.Digest(c.challenge, password)); err != nil {
		return err
	}
	if _, err := c.Answer(); err != nil {
		if FaultOf(err) == Refused {
			return fault(Refused, "user %q not accepted by %s: %w", user, c.server, err)
		}
		return err
	}
	return nil
}

// Send sends a command without waiting for its answer.
func (c *Client) Send(command string) error {
	if c.broken != nil {
		return c.broken
	}
	if strings.ContainsAny(command, "\r\n") {
		return fmt.Errorf("command %q is more than a line", command)
	}
	if c.patience > 0 {
		_ = c.conn.SetWriteDeadline(time.Now().Add(c.patience))
	}
	if _, err := io.WriteString(c.conn, command+"\n"); err != nil {
		c.broken = fault(Unavailable, "writing to %s: %w", c.server, cause(err))
		return c.broken
	}
	return nil
}

// Answer reads the answer to a command that has one line: the text after "+".
// A refusal is an error. Empty lines before it are those that the old server
// sends after KILL.
func (c *Client) Answer() (string, error) {
	line, err := "", error(nil)
	for line == "" {
		if line, err = c.line(); err != nil {
			return "", c.cut(err)
		}
	}
	switch text := line[1:]; line[0] {
	case '+':
		return text, nil
	case '-':
		if why, ok := strings.CutPrefix(text, "ERR; "); ok {
			return "", fault(NotDone, "%s", Plain(why))
		}
		return "", fault(Refused, "%s", Plain(text))
	}
	return "", c.spoil(fault(Garbled, "%s answers %q, neither yes nor no", c.server, line))
}

// Ask sends a command and reads its answer of one line.
func (c *Client) Ask(command string) (string, error) {
	if err := c.Send(command); err != nil {
		return "", err
	}
	return c.Answer()
}

// Lines reads the answer to a command that has many lines. A client that
// stops before the last one can only be closed.
func (c *Client) Lines() iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if _, err := c.Answer(); err != nil {
			yield("", err)
			return
		}
		for first := true; ; first = false {
			line, err := c.line()
			if err != nil {
				yield("", c.cut(err))
				return
			}
			if line == "." {
				return
			}
			line = strings.TrimPrefix(line, ".")
			if why, ok := strings.CutPrefix(line, mailq.Incomplete); ok {
				if end, err := c.line(); err != nil || end != "." {
					_ = c.spoil(fault(Garbled, "%s goes on after the end", c.server))
				}
				yield("", notWhole(first, why))
				return
			}
			if !yield(line, nil) {
				_ = c.spoil(errors.New("the last answer was not read to its end"))
				return
			}
		}
	}
}

// notWhole is the error of a list that broke off, perhaps before its first
// line.
func notWhole(first bool, why string) error {
	if first {
		return fault(NotDone, "%s", Plain(why))
	}
	return fault(Unavailable, "the list is not whole: %s", Plain(why))
}

// Show sends a command and reads its answer of many lines.
func (c *Client) Show(command string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := c.Send(command); err != nil {
			yield("", err)
			return
		}
		c.Lines()(yield)
	}
}

// line reads a line without its end. Its error is io.EOF where the server
// closed the connection between two lines.
func (c *Client) line() (string, error) {
	if c.broken != nil {
		return "", c.broken
	}
	var long []byte
	for {
		piece, err := c.in.ReadSlice('\n')
		switch {
		case err == nil && long == nil:
			return c.traced(string(piece)), nil
		case len(long)+len(piece) > maxReply:
			return "", c.spoil(fault(Garbled, "%s sends a line of more than %d bytes", c.server, maxReply))
		}
		long = append(long, piece...)
		switch {
		case err == nil:
			return c.traced(string(long)), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(long) == 0:
			c.broken = io.EOF
			return "", err
		case errors.Is(err, io.EOF):
			return "", c.spoil(fault(Garbled, "%s hung up in the middle of a line", c.server))
		case errors.Is(err, os.ErrDeadlineExceeded):
			return "", c.spoil(fault(Unavailable, "%s said nothing for %v", c.server, c.patience))
		default:
			return "", c.spoil(fault(Unavailable, "reading from %s: %w", c.server, cause(err)))
		}
	}
}

func (c *Client) traced(line string) string {
	line = strings.TrimSuffix(line, "\n")
	if c.trace != nil {
		fmt.Fprintf(c.trace, "- %s\n", Plain(line))
	}
	return line
}

// cut is the error of a line that should have come: an end of file is none
// that the protocol knows there.
func (c *Client) cut(err error) error {
	if errors.Is(err, io.EOF) {
		return c.spoil(fault(Garbled, "%s hung up in the middle of its answer", c.server))
	}
	return err
}

func (c *Client) spoil(err error) error {
	c.broken = err
	return err
}

// patient is a connection whose other end has some time for each read.
type patient struct {
	net.Conn
	time.Duration
}

func (p patient) Read(b []byte) (int, error) {
	if p.Duration > 0 {
		_ = p.SetReadDeadline(time.Now().Add(p.Duration))
	}
	return p.Conn.Read(b)
}
