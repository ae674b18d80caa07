// Package client asks our server of MAILQ (package mailq), and prints what it
// answers (mailq(1)).
//
//	Dialer ──► net.Conn ──► Client ──► Threads, Show, Order ──► Printer
//
// A Client is one session of version 2, in which the lists are JSON. A Printer
// writes them as ZMailer's client wrote its lists, and adds what it can read in the
// Postoffice.
package client

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"zsched/mailq"
)

// Client is one session with a server:
//
//	S: version zmailer 2.0
//	S: 220 MAILQ-V2-CHALLENGE: 795233126.898330.1
//	C: AUTH nobody 1304725670c8069b18abb3e3eafa7f8f
//	S: +OK
//	C: SHOW SNMP
//	S: +OK until LF.LF
//	S: Kids: 6 ...
//	S: .
//	C: QUIT
//	S: +Bye bye
//
// One goroutine at a time uses a Client; another may close it.
type Client struct {
	conn      net.Conn
	in        *bufio.Reader
	options   Options
	challenge string
	broken    error // why the session cannot continue
}

// Options are the options of a Client.
type Options struct {
	Server  string        // its name in error messages
	Timeout time.Duration // how long the server may be silent; 0: forever
	Trace   io.Writer     // gets every line received as "- line"; nil: no trace
}

// Kind is the kind of an Error.
type Kind int

const (
	// Unavailable: no server answers at the address, or what it answers is not MAILQ or breaks
	// off.
	Unavailable Kind = iota + 1
	// Refused: the server refuses the login or the command.
	Refused
	// NotDone: the server understood the command and could not execute it. There
	// is no such message, for example.
	NotDone
)

// Error is an error of a session with a server.
type Error struct {
	Kind Kind
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of an error that this package returned, or 0 for any
// other error.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return 0
}

func errorf(kind Kind, format string, args ...any) error {
	return &Error{kind, fmt.Errorf(format, args...)}
}

// New begins a session: it reads the greeting. It closes the connection if there
// is an error.
func New(conn net.Conn, options Options) (*Client, error) {
	in := bufio.NewReaderSize(deadlineReader{conn, options.Timeout}, 64<<10)
	c := &Client{conn: conn, in: in, options: options}
	if err := c.greet(); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return c, nil
}

func (c *Client) greet() error {
	server := c.options.Server
	line, err := c.line()
	if errors.Is(err, io.EOF) {
		return errorf(Unavailable, "%s closed the connection without a greeting: it has too many sessions", server)
	}
	if err != nil {
		return err
	}
	switch {
	case strings.HasPrefix(line, mailq.GreetingV1):
		return errorf(Unavailable, "%s speaks version 1 of MAILQ, and mailq needs version 2: start its scheduler with -M 2 (scheduler(8))", server)
	case strings.HasPrefix(line, mailq.GreetingV2):
	case strings.HasPrefix(line, "5"):
		return errorf(Refused, "%s refuses the connection: %q", server, line)
	default:
		return errorf(Unavailable, "version mismatch, input is %q", line)
	}
	if c.challenge, err = c.line(); err != nil {
		return c.unexpectedEnd(err)
	}
	if strings.HasPrefix(c.challenge, "5") {
		return errorf(Refused, "%s refuses the connection: %q", server, c.challenge)
	}
	return nil
}

// Postoffice returns the identity of the server's postoffice, if it is on this machine and says
// so.
func (c *Client) Postoffice() string {
	_, text, _ := strings.Cut(c.challenge, mailq.PostofficeWord)
	identity, _ := mailq.CutRaw(text)
	return identity
}

// unknownCommand is how a server refuses a command that it does not know, or that the user may
// not give. It names the words of the protocol.
const unknownCommand = "MAILQ2 Unknown command, or refused by access control;"

// RefusalOf returns the error of a command that the server has refused in the words of the
// protocol, in words that name what the user asked for, such as an option. Any other error is
// returned as it is.
func RefusalOf(err error, what string) error {
	if KindOf(err) != Refused {
		return err
	}
	switch text := err.Error(); {
	case strings.HasPrefix(text, unknownCommand):
		return errorf(Refused, "the server does not know %s, or does not allow it to this user", what)
	case strings.HasPrefix(text, "No ") && strings.HasSuffix(text, " allowed for you."):
		return errorf(Refused, "the server does not allow %s to this user", what)
	}
	return err
}

// Close ends the session at once.
func (c *Client) Close() error { return c.conn.Close() }

// Quit ends the session with QUIT.
func (c *Client) Quit() error {
	if c.broken == nil && c.Send("QUIT") == nil {
		_, _ = c.line()
	}
	return c.conn.Close()
}

// Login logs a user in (mailq(1), PROTOCOL, Version 2).
func (c *Client) Login(user, password string) error {
	if strings.ContainsAny(user, " \t\r\n") || user == "" {
		return errorf(Refused, "user %q: a user name is one word", user)
	}
	_, err := c.Ask("AUTH " + user + " " + mailq.Digest(c.challenge, password))
	if KindOf(err) == Refused {
		return errorf(Refused, "user %q not accepted by %s: %w", user, c.options.Server, err)
	}
	return err
}

// Send sends a command and does not wait for its answer.
func (c *Client) Send(command string) error {
	if c.broken != nil {
		return c.broken
	}
	if strings.ContainsAny(command, "\r\n") {
		return fmt.Errorf("command %q is longer than one line", command)
	}
	if c.options.Timeout > 0 {
		_ = c.conn.SetWriteDeadline(time.Now().Add(c.options.Timeout))
	}
	if _, err := io.WriteString(c.conn, command+"\n"); err != nil {
		return c.breakOff(errorf(Unavailable, "writing to %s: %w", c.options.Server, cause(err)))
	}
	return nil
}

// Ask sends a command and reads its answer of one line.
func (c *Client) Ask(command string) (string, error) {
	if err := c.Send(command); err != nil {
		return "", err
	}
	return c.Answer()
}

// breakOff records why the session cannot continue, and returns err.
func (c *Client) breakOff(err error) error {
	c.broken = err
	return err
}

// deadlineReader gives the other end of a connection a limited time for each
// read.
type deadlineReader struct {
	net.Conn
	timeout time.Duration
}

func (r deadlineReader) Read(b []byte) (int, error) {
	if r.timeout > 0 {
		_ = r.SetReadDeadline(time.Now().Add(r.timeout))
	}
	return r.Conn.Read(b)
}
