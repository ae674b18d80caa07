package server

// A session of version 2: greeting, login, commands.

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"zsched/internal/process"
	"zsched/mailq"
)

// session is one session of v2: greeting, login, commands. Its goroutine owns it.
type session struct {
	server   *Server
	settings *Settings
	conn     net.Conn
	peer     Peer
	in       *bufio.Reader
	out      *bufio.Writer

	challenge string
	admitted  bool   // logged in, or known by the credentials of a UNIX socket
	user      string // for the log
	rights    rights // once admitted
	failures  int    // see maxFailures
}

func (s *session) run(ctx context.Context) {
	defer func() { _ = s.out.Flush() }()
	if !s.greet() {
		return
	}
	for {
		line, err := s.readLine(ctx)
		if errors.Is(err, errLongLine) {
			s.note(Note{Kind: NoteGarbage, Err: err})
		}
		if err != nil {
			return
		}
		if !s.obey(ctx, line) {
			return
		}
	}
}

// greet writes the greeting. It returns false for a peer that could not log in
// anyway.
func (s *session) greet() bool {
	list := s.readAuthFile()
	s.useCredentials(list)
	s.reply(mailq.GreetingV2)
	if !s.admitted && !list.mayConnect(s.peer) {
		s.note(Note{Kind: NoteAccess})
		s.reply("550 NO ACCESS FOR YOU")
		return false
	}
	// In ZMailer's program, the numbers are the time in seconds and microseconds and a
	// counter. Clients take any numbers; nobody can guess the last one here.
	var random [16]byte
	_, _ = rand.Read(random[:]) // it never fails
	s.challenge = fmt.Sprintf("220 MAILQ-V2-CHALLENGE: %d.%d.%d", time.Now().Unix(),
		binary.BigEndian.Uint64(random[:])%1e6, binary.BigEndian.Uint64(random[8:])>>1)
	if dir := s.settings.Postoffice; dir != "" && (s.peer.unix() || s.peer.Addr.IsLoopback()) {
		s.challenge += mailq.PostofficeWord + process.Identity(dir)
	}
	s.reply(s.challenge)
	return true
}

// useCredentials logs peers on UNIX sockets in: root and the server's own user
// with every right, other local users with the rights of user nobody on this
// host.
func (s *session) useCredentials(list accounts) {
	if !s.peer.unix() {
		return
	}
	s.user = s.peer.name()
	if s.settings.trusts(s.peer) {
		s.admitted, s.rights = true, rightsAll
	} else if a, ok := list.find("nobody", s.peer); ok {
		s.admitted, s.rights = true, a.rights
	}
}

// readAuthFile reads the auth file. A file that cannot be used counts as empty.
func (s *session) readAuthFile() accounts {
	if s.settings.AuthFile == "" {
		return nil
	}
	list, _, err := readAccounts(s.settings.AuthFile, s.settings.UID)
	if err != nil {
		s.note(Note{Kind: NoteAuth, Err: err})
	}
	return list
}

var errLongLine = fmt.Errorf("a line of more than %d bytes", mailq.MaxLine)

// readLine returns the next line. Before it waits for the peer it sends what was
// written so far.
func (s *session) readLine(ctx context.Context) (string, error) {
	buffered, _ := s.in.Peek(s.in.Buffered())
	if bytes.IndexByte(buffered, '\n') < 0 {
		if err := s.out.Flush(); err != nil {
			return "", errWrite
		}
		timeout := idleTimeout
		if !s.admitted {
			timeout = loginTimeout
		}
		_ = s.conn.SetReadDeadline(time.Now().Add(timeout))
	}
	// This check comes after the deadline is set: otherwise this deadline could
	// replace the one that Serve sets when ctx is done.
	if err := ctx.Err(); err != nil {
		return "", err
	}
	line, err := s.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return "", errLongLine
	}
	if err != nil {
		return "", err
	}
	line = bytes.ReplaceAll(line[:len(line)-1], []byte{'\r'}, nil)
	if len(line) > mailq.MaxLine {
		return "", errLongLine
	}
	line, _, _ = bytes.Cut(line, []byte{0})
	return string(line), nil
}

// reply queues a line for the peer. An error is reported when the line is sent.
func (s *session) reply(line string) {
	_, _ = s.out.WriteString(line)
	_ = s.out.WriteByte('\n')
}

func (s *session) note(n Note) {
	if n.User == "" {
		n.User = s.user
	}
	n.Peer = s.peer.String()
	s.settings.Note(n)
}

// obey executes a line and reports whether the session continues.
func (s *session) obey(ctx context.Context, line string) bool {
	verb, rest := cutVerb(line)
	switch {
	case strings.EqualFold(verb, "QUIT") || strings.EqualFold(verb, "EXIT"):
		s.reply("+Bye bye")
		return false
	case verb == "AUTH" && (!s.admitted || s.peer.unix()):
		return s.auth(ctx, rest)
	case !s.admitted:
		s.reply("-BAD; USER MUST AUTHENTICATE")
		return s.countFailure()
	}
	c, arg, asJSON := findCommand(verb, rest)
	if c == nil || !s.rights.has(c.right) {
		s.refuse(c, verb, rest)
		return true
	}
	r := &request{session: s, command: c, verb: verb, rest: rest, arg: arg, asJSON: asJSON}
	return r.execute(ctx)
}

// cutVerb takes the verb off a line. Unlike mailq.CutRaw, it finds no verb in a
// line that begins with a blank.
func cutVerb(line string) (verb, rest string) {
	if i := strings.IndexAny(line, " \t"); i >= 0 {
		return line[:i], mailq.TrimBlanks(line[i:])
	}
	return line, ""
}

// refuse answers a command that is unknown or not allowed, in ZMailer's words. c
// is nil if the command is unknown.
func (s *session) refuse(c *command, verb, rest string) {
	if c != nil && (c.right == rightKILL || c.right == rightETRN) {
		s.reply("-No " + verb + " allowed for you.")
		return
	}
	if verb == "SHOW" || verb == "REROUTE" {
		rest, _ = mailq.CutRaw(rest)
	}
	s.reply("-MAILQ2 Unknown command, or refused by access control; VERB='" + verb + "' REST='" + rest + "'")
}

// auth executes AUTH user digest. Root and the server's own user on a UNIX
// socket keep all their rights; another local user may gain rights by logging in.
func (s *session) auth(ctx context.Context, rest string) bool {
	if s.settings.trusts(s.peer) {
		s.reply("+OK")
		return true
	}
	user, digest := cutVerb(rest)
	a, ok := s.readAuthFile().find(user, s.peer)
	err := errors.New("wrong password")
	if !ok { // the same reply after the same time, so that nobody learns which users exist
		a, err = new(account), errors.New("no line of the auth file is for this user and address")
	}
	if a.verify(s.challenge, digest) && ok {
		s.admitted, s.user, s.rights = true, a.user, a.rights
		s.reply("+OK")
		return true
	}
	if !s.server.delay(ctx) {
		return false
	}
	s.reply("-BAD USER OR PASSWORD")
	s.note(Note{Kind: NoteLogin, User: user, Err: err})
	return s.countFailure()
}

// countFailure counts a failed login, or a command sent before the login, and
// reports whether the session continues.
func (s *session) countFailure() bool {
	s.failures++
	return s.failures < maxFailures
}
