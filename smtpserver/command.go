package smtpserver

// Commands: which ones there are, when they may come, and those that need no message.

import (
	"strings"
	"time"
)

// command is what the server does at a verb. run returns a refusal, or nil when it has
// replied; any other error ends the session.
type command struct {
	run     func(s *session, arg string) error
	greeted bool // only after EHLO or HELO
	login   bool // only after AUTH where Protocol.RequireAuth is set
	bare    bool // it has no parameter
}

var commands = map[string]command{
	"HELO":     {run: func(s *session, arg string) error { return s.greet("HELO", arg) }},
	"EHLO":     {run: func(s *session, arg string) error { return s.greet("EHLO", arg) }},
	"STARTTLS": {run: (*session).startTLS, bare: true},
	"AUTH":     {run: (*session).auth, greeted: true},
	"MAIL":     {run: (*session).mailFrom, greeted: true, login: true},
	"RCPT":     {run: (*session).rcptTo, greeted: true},
	"DATA":     {run: (*session).data, greeted: true, bare: true},
	"BDAT":     {run: (*session).bdat}, // reads its chunk in any case
	"RSET":     {run: (*session).rset, bare: true},
	"NOOP":     {run: (*session).noop},
	"VRFY":     {run: (*session).vrfy},
	"ETRN":     {run: (*session).etrn, greeted: true, login: true},
	"QUIT":     {run: (*session).quit, bare: true},
	"EXPN":     {run: (*session).notOffered},
	"HELP":     {run: (*session).notOffered},
}

// answer answers a command line.
func (s *session) answer(line string) error {
	verb, arg, _ := strings.Cut(line, " ")
	verb, arg = strings.ToUpper(verb), strings.TrimSpace(arg)
	c, known := commands[verb]
	// What the client takes for a chunk would be read as commands.
	chunk := strings.HasPrefix(strings.ToUpper(strings.TrimSpace(line)), "BDAT")
	control := strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
	s.commands++
	if s.about = (subject{from: s.about.from}); s.mail == nil {
		s.about.from = ""
	}
	switch {
	case s.commands > s.o.MaxRecipients+extraCommands:
		return errManyCommands
	case !s.client.trusted && s.errors > s.o.MaxErrors:
		return errManyErrors
	case chunk && (!known || control):
		return errBadChunk
	case control:
		return errControl
	case !known:
		return errUnknown
	case c.greeted && s.greeted == "":
		return errNotGreeted
	case c.login && s.listener.RequireAuth && s.user == "":
		return errNeedsLogin
	case c.bare && arg != "":
		return errNoArgument
	}
	return c.run(s, arg)
}

// greet answers HELO or EHLO. They end a message that was begun.
func (s *session) greet(verb, arg string) error {
	name, _, _ := strings.Cut(arg, " ")
	if name == "" {
		return errArgument
	}
	s.reset()
	s.greeted, s.helo = verb, name
	if verb == "HELO" {
		s.reply("250 %s", s.o.Hostname)
		return nil
	}
	s.reply("250-%s", s.o.Hostname)
	if s.o.TLS != nil && s.tls() == nil {
		s.reply("250-STARTTLS")
	}
	if s.passwordFile() != "" && s.tls() != nil {
		s.reply("250-AUTH PLAIN")
	}
	if s.client.trusted {
		s.reply("250-ETRN")
	}
	if s.offersDSN() {
		s.reply("250-DSN")
	}
	s.reply("250-PIPELINING\r\n250-8BITMIME\r\n250-CHUNKING\r\n250-SMTPUTF8")
	s.reply("250-SIZE %d\r\n250 ENHANCEDSTATUSCODES", s.o.MaxSize)
	return nil
}

// mayRelay reports whether the client may send anywhere.
func (s *session) mayRelay() bool { return s.client.trusted || s.user != "" }

// offersDSN reports whether the client may ask for notices. Strangers may not: their senders may be
// forged. Where everybody has to log in, clients do not greet again after that.
func (s *session) offersDSN() bool { return s.mayRelay() || s.listener.RequireAuth }

// startTLS answers STARTTLS (RFC 3207). The client has to greet again after it, and
// nothing that it sent before counts.
func (s *session) startTLS(string) error {
	switch {
	case s.o.TLS == nil:
		return errNotOffered
	case s.tls() != nil:
		return errHasTLS
	case s.in.Buffered() > 0:
		return errEarlyHandshake
	}
	s.reply("220 2.0.0 Ready to start TLS")
	if s.out.Flush() != nil {
		return errEnded
	}
	s.reset()
	s.greeted, s.helo = "", ""
	return s.handshake()
}

func (s *session) rset(string) error {
	s.reset()
	s.reply("250 2.0.0 No message is begun")
	return nil
}

func (s *session) noop(string) error {
	s.reply("250 2.0.0 OK")
	return nil
}

func (s *session) vrfy(arg string) error {
	if arg == "" {
		return errArgument
	}
	s.reply("252 2.5.0 Send it a message to find out")
	return nil
}

func (s *session) notOffered(string) error { return errNotOffered }

func (s *session) quit(string) error {
	s.reply("221 2.0.0 %s Bye", s.o.Hostname)
	s.reason = "quit"
	return errEnded
}

// etrn answers ETRN (RFC 1985): the scheduler tries a host's mail now.
func (s *session) etrn(arg string) error {
	host := strings.ToLower(strings.TrimLeft(arg, "@"))
	switch {
	case !s.client.trusted:
		return errETRN
	case !isHost(host):
		return errHost
	case !s.server.askers.take(s.client.block, askerRate, time.Now()):
		return errManyTriggers
	case !s.server.triggers.take(host, triggerRate, time.Now()):
		s.reply("250 2.0.0 Queuing was started for %s a moment ago", host)
		return nil
	}
	if err := s.server.queue.trigger(host, s.client.String()); err != nil {
		s.server.triggers.refill(host)
		s.about.err = err
		return errNotStarted
	}
	s.reply("250 2.0.0 Queuing started for %s", host)
	return nil
}

// isHost reports whether s consists of characters of a host's name and begins with a
// letter or digit.
func isHost(s string) bool {
	for i := range len(s) {
		c := s[i] | 0x20
		if letter := c >= 'a' && c <= 'z' || s[i] >= '0' && s[i] <= '9'; !letter && (i == 0 || s[i] != '.' && s[i] != '-') {
			return false
		}
	}
	return len(s) > 0 && len(s) < 256
}
