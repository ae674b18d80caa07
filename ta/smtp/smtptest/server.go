package smtptest

// The server: a complete one, which behaves well.

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/emersion/go-sasl"
	gosmtp "github.com/emersion/go-smtp"
)

// Server is a well-behaved SMTP or LMTP server, built on emersion/go-smtp. Because
// that is not our code, it shows that a client works with the servers of others. It
// accepts all mail, with two exceptions: it refuses RCPT for the local part "nobody"
// (550 5.1.1) and, in LMTP, the message for "full" (452 4.2.2).
type Server struct {
	Addr string // host:port, or the path of the socket

	server  *gosmtp.Server
	options Options
	serving sync.WaitGroup

	mu       sync.Mutex
	numbers  map[*gosmtp.Conn]int
	messages []Message
}

// Serve starts a server. The options must have neither Offers nor Rules.
func Serve(o Options) (*Server, error) {
	if len(o.Offers)+len(o.Rules) > 0 {
		return nil, errors.New("a server on go-smtp has no script")
	}
	l, err := listen(o.Address)
	if err != nil {
		return nil, err
	}
	s := &Server{Addr: l.Addr().String(), options: o, numbers: map[*gosmtp.Conn]int{}}
	s.server = gosmtp.NewServer(gosmtp.BackendFunc(s.newSession))
	s.server.Domain, s.server.LMTP, s.server.TLSConfig = "server.example", o.LMTP, o.TLS
	s.server.EnableSMTPUTF8, s.server.EnableDSN = true, true
	s.serving.Go(func() { _ = s.server.Serve(l) })
	return s, nil
}

// Close ends all sessions.
func (s *Server) Close() {
	_ = s.server.Close()
	s.serving.Wait()
}

// Messages returns the messages that were accepted for at least one recipient.
func (s *Server) Messages() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Message{}, s.messages...)
}

func (s *Server) newSession(c *gosmtp.Conn) (gosmtp.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.numbers[c] == 0 { // else it is EHLO after STARTTLS
		s.numbers[c] = len(s.numbers) + 1
	}
	_, tls := c.TLSConnectionState()
	session := &serverSession{s: s, number: s.numbers[c], tls: tls}
	if s.options.User == "" {
		return session, nil
	}
	return &authSession{session}, nil
}

// serverSession is a session without AUTH.
type serverSession struct {
	s      *Server
	number int
	tls    bool
	user   string
	now    Message // the one that is being sent
}

func (s *serverSession) Mail(from string, o *gosmtp.MailOptions) error {
	s.now = Message{Conn: s.number, Mail: "MAIL FROM:<" + from + "> BODY=" + string(o.Body), From: from, TLS: s.tls, User: s.user}
	return nil
}

func (s *serverSession) Rcpt(to string, _ *gosmtp.RcptOptions) error {
	if strings.HasPrefix(to, "nobody@") {
		return &gosmtp.SMTPError{Code: 550, EnhancedCode: gosmtp.EnhancedCode{5, 1, 1}, Message: "no such user"}
	}
	s.now.Recipients = append(s.now.Recipients, to)
	return nil
}

func (s *serverSession) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s.accept(string(text), s.now.Recipients)
	return nil
}

func (s *serverSession) LMTPData(r io.Reader, status gosmtp.StatusCollector) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	full := func(to string) bool { return strings.HasPrefix(to, "full@") }
	s.accept(string(text), slices.DeleteFunc(slices.Clone(s.now.Recipients), full)) // first: SetStatus replies
	for _, to := range s.now.Recipients {
		if full(to) {
			status.SetStatus(to, &gosmtp.SMTPError{Code: 452, EnhancedCode: gosmtp.EnhancedCode{4, 2, 2}, Message: "mailbox full"})
			continue
		}
		status.SetStatus(to, nil)
	}
	return nil
}

func (s *serverSession) accept(data string, recipients []string) {
	s.s.mu.Lock()
	defer s.s.mu.Unlock()
	m := s.now
	m.Data, m.Recipients, m.Answered = data, recipients, true
	s.s.messages = append(s.s.messages, m)
}

func (s *serverSession) Reset()        { s.now = Message{} }
func (s *serverSession) Logout() error { return nil }

// authSession is a session with AUTH PLAIN.
type authSession struct{ *serverSession }

func (s *authSession) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *authSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != s.s.options.User || password != s.s.options.Password {
			return errors.New("wrong password")
		}
		s.user = user
		return nil
	}), nil
}

// listen listens at an address of the form that Options describes.
func listen(address string) (net.Listener, error) {
	switch {
	case address == "":
		return net.Listen("tcp", "127.0.0.1:0")
	case strings.Contains(address, "/"):
		return net.Listen("unix", address)
	}
	return net.Listen("tcp", address)
}
