package smtp

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	gosmtp "github.com/emersion/go-smtp"
)

// store is a mail store behind the LMTP server of emersion/go-smtp.
type store struct {
	mu     sync.Mutex
	boxes  map[string][]string
	bodies []gosmtp.BodyType
}

func (s *store) NewSession(*gosmtp.Conn) (gosmtp.Session, error) { return &storing{store: s}, nil }

// storing is one session with it.
type storing struct {
	*store
	to []string
}

func (s *storing) Mail(_ string, o *gosmtp.MailOptions) error {
	s.bodies = append(s.bodies, o.Body)
	return nil
}

func (s *storing) Rcpt(to string, _ *gosmtp.RcptOptions) error {
	if strings.HasPrefix(to, "nobody@") {
		return &gosmtp.SMTPError{Code: 550, EnhancedCode: gosmtp.EnhancedCode{5, 1, 1}, Message: "no such user"}
	}
	s.to = append(s.to, to)
	return nil
}

func (s *storing) Data(io.Reader) error { return errors.New("this is LMTP") }

func (s *storing) LMTPData(r io.Reader, status gosmtp.StatusCollector) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, to := range s.to {
		if strings.HasPrefix(to, "full@") {
			status.SetStatus(to, &gosmtp.SMTPError{Code: 452, EnhancedCode: gosmtp.EnhancedCode{4, 2, 2}, Message: "mailbox full"})
			continue
		}
		s.boxes[to] = append(s.boxes[to], string(text))
		status.SetStatus(to, nil)
	}
	return nil
}

func (s *storing) Reset()        { s.to = nil }
func (s *storing) Logout() error { return nil }

// A server that others wrote.
func TestRealLMTPServer(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "lmtp")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	mail := &store{boxes: map[string][]string{}}
	server := gosmtp.NewServer(mail)
	server.LMTP, server.Domain = true, "store.example"
	stopped := make(chan bool)
	go func() { _ = server.Serve(l); close(stopped) }()
	t.Cleanup(func() { _ = server.Close(); <-stopped })

	o := newTestSpool(t)
	o.message(1, to("bob@a.example", "nobody@a.example", "full@a.example", "ann@a.example"), header, ".dots\n..\nGrüße\n")
	o.message(2, to("bob@a.example"), header, "second\n")
	a := New(Options{Name: "mta.example", LMTP: true, Forced: "UNIX:" + socket, Limits: DefaultLimits(), Resolver: one})
	defer a.Close()
	said := strings.Split(strings.TrimSpace(o.brief(o.feed(a, "1", "2"))), "\n")
	for i := range said {
		said[i] = strings.Join(strings.Fields(said[i])[:2], " ")
	}
	if want := []string{"nobody error2", "bob ok3", "full deferback", "ann ok3", "bob ok3"}; !slices.Equal(said, want) {
		t.Errorf("says %q, want %q", said, want)
	}
	mail.mu.Lock()
	defer mail.mu.Unlock()
	const first = "From: alice@sender.example\r\nSubject: hello\r\n\r\n.dots\r\n..\r\nGrüße\r\n"
	if b := mail.boxes["bob@a.example"]; len(b) != 2 || b[0] != first || len(mail.boxes["ann@a.example"]) != 1 || len(mail.boxes) != 2 {
		t.Errorf("boxes %q", mail.boxes)
	}
	if mail.bodies[0] != gosmtp.Body8BitMIME {
		t.Errorf("bodies %q", mail.bodies)
	}
}
