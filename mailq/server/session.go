package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"zsched/mailq"
)

// session is one dialogue of v2. Its goroutine owns it.
type session struct {
	server   *Server
	settings *Settings
	conn     net.Conn
	peer     Peer
	in       *bufio.Reader
	out      *bufio.Writer

	challenge string
	known     bool   // may give commands, with these rights:
	user      string // for the log
	rights    Rights
	strikes   int // see maxStrikes
}

func (s *session) run(ctx context.Context) {
	count := &s.server.counts
	count.add("Connects")
	defer func() {
		if err := s.out.Flush(); err != nil {
			count.add("WriteFails")
		}
	}()
	if !s.greet() {
		return
	}
	for {
		line, err := s.next(ctx)
		if err != nil {
			s.ended(ctx, err)
			return
		}
		if !s.obey(ctx, line) {
			return
		}
	}
}

// greet says who we are. It is false for a peer who could not log in anyway.
func (s *session) greet() bool {
	list := s.accounts()
	s.byCredentials(list)
	s.say(mailq.GreetingV2)
	if !s.known && !list.welcome(s.peer) {
		s.server.counts.add("AuthRej")
		s.note(Note{Kind: NoteAccess})
		s.say("550 NO ACCESS FOR YOU")
		return false
	}
	now := time.Now()
	s.challenge = fmt.Sprintf("220 MAILQ-V2-CHALLENGE: %d.%d.%d",
		now.Unix(), now.Nanosecond()/1000, s.server.accepted.Add(1))
	s.say(s.challenge)
	return true
}

// byCredentials lets UNIX peers in: root and our own user with every right,
// others with what nobody has who comes from this machine.
func (s *session) byCredentials(list accounts) {
	if !s.peer.unix() {
		return
	}
	s.user = s.peer.name()
	if s.settings.trust(s.peer) {
		s.known, s.rights = true, RightsAll
	} else if a, ok := list.find("nobody", s.peer); ok {
		s.known, s.rights = true, a.rights
	}
}

// accounts reads the auth file. One that cannot be used has no lines.
func (s *session) accounts() accounts {
	if s.settings.AuthFile == "" {
		return nil
	}
	list, _, err := readAccounts(s.settings.AuthFile, s.settings.UID)
	if err != nil {
		s.note(Note{Kind: NoteAuth, Err: err})
	}
	return list
}

// errLong is a line longer than MaxLine.
var errLong = fmt.Errorf("a line of more than %d bytes", mailq.MaxLine)

// next is the next line. What was said so far is sent before the peer is
// waited for.
func (s *session) next(ctx context.Context) (string, error) {
	held, _ := s.in.Peek(s.in.Buffered())
	if bytes.IndexByte(held, '\n') < 0 {
		if err := s.out.Flush(); err != nil {
			return "", errWrite
		}
		_ = s.conn.SetReadDeadline(time.Now().Add(IdleTime))
	}
	// Asked after the deadline is set, which else might replace that of the
	// server's end.
	if err := ctx.Err(); err != nil {
		return "", err
	}
	line, err := s.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return "", errLong
	}
	if err != nil {
		return "", err
	}
	// A line's meaning ends at NUL, and CR has none anywhere.
	line = bytes.ReplaceAll(line[:len(line)-1], []byte{'\r'}, nil)
	if len(line) > mailq.MaxLine {
		return "", errLong
	}
	if i := bytes.IndexByte(line, 0); i >= 0 {
		line = line[:i]
	}
	return string(line), nil
}

// ended counts why there is no next line.
func (s *session) ended(ctx context.Context, err error) {
	count := &s.server.counts
	switch {
	case errors.Is(err, errWrite):
	case errors.Is(err, errLong):
		s.note(Note{Kind: NoteGarbage, Err: err})
	case errors.Is(err, io.EOF):
		count.add("ReadEOF")
	case ctx.Err() != nil:
	case isTimeout(err):
		count.add("TimedOut")
	default:
		count.add("ReadFails")
	}
}

// say queues a line for the peer; that it could not be sent shows later.
func (s *session) say(line string) {
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

// obey carries a line out and says whether the session goes on.
func (s *session) obey(ctx context.Context, line string) bool {
	count := &s.server.counts
	count.add("Commands")
	verb, rest := line, ""
	if i := strings.IndexAny(line, " \t"); i >= 0 {
		verb, rest = line[:i], mailq.TrimBlanks(line[i:])
	}
	switch {
	case strings.EqualFold(verb, "QUIT") || strings.EqualFold(verb, "EXIT"):
		count.add("CommandQUIT")
		s.say("+Bye bye")
		return false
	case verb == "AUTH" && (!s.known || s.peer.unix()):
		return s.auth(rest)
	case !s.known:
		count.add("CommandsRej")
		s.say("-BAD; USER MUST AUTHENTICATE")
		return s.strike()
	}
	c, arg, asJSON := findCommand(verb, rest)
	if c == nil || !s.rights.has(c.right) {
		s.refuse(c, verb, rest)
		return true
	}
	if c.count != "" {
		count.add(c.count)
	}
	return c.run(&request{session: s, command: c, verb: verb, rest: rest, arg: arg, asJSON: asJSON}, ctx)
}

// refuse answers what is not known or not allowed, in the old words.
func (s *session) refuse(c *command, verb, rest string) {
	s.server.counts.add("CommandsRej")
	if c != nil && (c.right == RightKILL || c.right == RightETRN) {
		s.say("-No " + verb + " allowed for you.")
		return
	}
	if verb == "SHOW" || verb == "REROUTE" {
		rest, _ = mailq.CutRaw(rest)
	}
	s.say("-MAILQ2 Unknown command, or refused by access control; VERB='" + verb + "' REST='" + rest + "'")
}

// auth is AUTH user digest. On a UNIX socket credentials count for more than
// what is said here: for root it is a formality, and others may rise by it.
func (s *session) auth(rest string) bool {
	count := &s.server.counts
	count.add("CommandAUTH")
	if s.settings.trust(s.peer) {
		s.say("+OK")
		return true
	}
	user, digest := rest, ""
	if i := strings.IndexAny(rest, " \t"); i >= 0 {
		user, digest = rest[:i], mailq.TrimBlanks(rest[i:])
	}
	a, ok := s.accounts().find(user, s.peer)
	switch {
	case !ok:
		s.say("-BAD USER OR AUTHENTICATOR OR CONTACT ADDRESS")
	case !a.proves(s.challenge, digest):
		s.say("-BAD USER OR PASSWORD")
	default:
		s.known, s.rights, s.user = true, a.rights, a.user
		s.say("+OK")
		return true
	}
	count.add("AuthRej")
	err := errors.New("wrong password")
	if !ok {
		err = errors.New("no line of the auth file is for this user and address")
	}
	s.note(Note{Kind: NoteLogin, User: user, Err: err})
	return s.strike()
}

// strike counts what a stranger may not do for ever, and says whether the
// session goes on.
func (s *session) strike() bool {
	s.strikes++
	return s.strikes < maxStrikes
}
