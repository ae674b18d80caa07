//go:build linux && amd64

package crashtest

// The sink: the SMTP server to which all mail for other hosts goes. It decides about
// each recipient and tells the ledger what it accepted.

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/smtp"
	"net/textproto"
	"os"
	"strings"
	"sync"

	gosmtp "github.com/emersion/go-smtp"

	"zsched/internal/testing/ledger"
)

// sink is the server.
type sink struct {
	ledger *ledger.Ledger
	life   func() int
	reason func(*ledger.Entry) string

	server *gosmtp.Server
	mu     sync.Mutex
	defers map[string]int // how many more times an address is deferred; below 0: until open
}

func newSink(path string, l *ledger.Ledger) (*sink, error) {
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	s := &sink{ledger: l, defers: map[string]int{}}
	s.server = gosmtp.NewServer(gosmtp.BackendFunc(func(*gosmtp.Conn) (gosmtp.Session, error) { return &sinkSession{sink: s}, nil }))
	s.server.Domain = "sink.example"
	s.server.ErrorLog = noLog{}
	go func() { _ = s.server.Serve(listener) }()
	return s, nil
}

type noLog struct{}

func (noLog) Printf(string, ...any) {}
func (noLog) Println(...any)        {}

// open ends all deferrals.
func (s *sink) open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.defers)
}

// deferred reports whether an address is deferred this time.
func (s *sink) deferred(address string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.defers[address]
	if n > 0 {
		s.defers[address]--
	}
	return n != 0
}

type sinkSession struct {
	sink *sink
	to   []string
}

func (s *sinkSession) Mail(string, *gosmtp.MailOptions) error { return nil }

func (s *sinkSession) Rcpt(to string, _ *gosmtp.RcptOptions) error {
	later := &gosmtp.SMTPError{Code: 451, EnhancedCode: gosmtp.EnhancedCode{4, 2, 0}, Message: "later"}
	if !isSender(to) {
		if s.sink.deferred(to) {
			return later
		}
		switch s.sink.ledger.Attempt(to) {
		case ledger.Fails:
			return &gosmtp.SMTPError{Code: 550, EnhancedCode: gosmtp.EnhancedCode{5, 1, 1}, Message: "no such user"}
		case ledger.NeverEnds:
			return later
		}
	}
	s.to = append(s.to, to)
	return nil
}

func (s *sinkSession) Data(r io.Reader) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	text := strings.ReplaceAll(string(data), "\r\n", "\n")
	for _, to := range s.to {
		if isSender(to) {
			s.sink.ledger.Notice(to, text)
		} else {
			s.sink.ledger.Deliver(to, text, s.sink.life(), s.sink.reason)
		}
	}
	return nil
}

func (s *sinkSession) Reset()        { s.to = nil }
func (s *sinkSession) Logout() error { return nil }

func isSender(address string) bool { return strings.HasSuffix(address, "@sender.example") }

// smProgram is the name under which sm(8) runs this program.
const smProgram = "crashtest-deliver"

// deliverToSink gives the message on standard input to the sink for a recipient. The
// exit status is one of <sysexits.h>.
func deliverToSink(args []string) int {
	err := errors.New("usage: socket recipient")
	if len(args) == 2 {
		err = giveToSink(args[0], args[1])
	}
	var reply *textproto.Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &reply) && reply.Code >= 500:
		return 67 // EX_NOUSER
	}
	fmt.Fprintln(os.Stderr, err)
	return 75 // EX_TEMPFAIL
}

func giveToSink(socket, to string) error {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	c, err := smtp.NewClient(conn, "sink.example")
	if err != nil {
		return err
	}
	defer c.Close()
	if err := errors.Join(c.Hello("sm.example"), c.Mail("nobody@sender.example")); err != nil {
		return err
	}
	if err := c.Rcpt(to); err != nil {
		return err
	}
	w, err := c.Data()
	if err != nil {
		return err
	}
	_, err = io.Copy(w, os.Stdin)
	return errors.Join(err, w.Close())
}
