package soak

// The SMTP servers to which mail goes: they accept, defer and refuse it, and drop
// connections.

import (
	"bytes"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"time"

	gosmtp "github.com/emersion/go-smtp"
)

// sink is three servers, at 127.0.0.2 and the next two addresses.
type sink struct {
	site      *site
	listeners []net.Listener
	outage    atomic.Int64 // until when connections are closed at once, in Unix nanoseconds
}

// markedByScheduler is the server whose clause has marking=scheduler.
const markedByScheduler = 1

func startSink(s *site) *sink {
	k := &sink{site: s}
	for i, address := range []string{"127.0.0.2:0", "127.0.0.3:0", "127.0.0.4:0"} {
		l, err := net.Listen("tcp", address)
		check(s.t, err)
		k.listeners = append(k.listeners, l)
		server := gosmtp.NewServer(gosmtp.BackendFunc(func(c *gosmtp.Conn) (gosmtp.Session, error) {
			return &sinkSession{sink: k, number: i, conn: c}, nil
		}))
		server.Domain = "sink.example"
		server.MaxLineLength = 1 << 16
		server.ErrorLog = log.New(io.Discard, "", 0) // killed agents would fill it
		go func() { _ = server.Serve(&faultyListener{l, k}) }()
		s.t.Cleanup(func() { _ = server.Close() })
	}
	return k
}

func (k *sink) port(number int) int { return k.listeners[number].Addr().(*net.TCPAddr).Port }

// faultyListener closes some connections at once.
type faultyListener struct {
	net.Listener
	sink *sink
}

func (l *faultyListener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		now := time.Now()
		if rand.IntN(200) == 0 {
			l.sink.outage.Store(now.Add(rand.N(time.Second)).UnixNano())
			l.sink.site.faults.count("outage of the SMTP servers")
		}
		if now.UnixNano() >= l.sink.outage.Load() {
			return nc, nil
		}
		_ = nc.Close()
	}
}

// sinkSession is an SMTP session.
type sinkSession struct {
	sink   *sink
	number int
	conn   *gosmtp.Conn
	to     []string
}

func (s *sinkSession) Mail(string, *gosmtp.MailOptions) error {
	if rand.IntN(300) == 0 {
		s.sink.site.faults.count("connection dropped at MAIL")
		_ = s.conn.Conn().Close()
	}
	return nil
}

func (s *sinkSession) Rcpt(to string, _ *gosmtp.RcptOptions) error {
	switch {
	case strings.HasPrefix(to, "expires"):
		return reply(451, 4, 2, 0, "later")
	case strings.HasPrefix(to, "deferred") && rand.IntN(2) == 0:
		return reply(451, 4, 2, 0, "try again")
	case strings.HasPrefix(to, "refused"):
		s.sink.site.ledger.refuse(to)
		return reply(550, 5, 1, 1, "no such user")
	}
	s.to = append(s.to, strings.ToLower(to))
	return nil
}

func reply(code, a, b, c int, text string) error {
	return &gosmtp.SMTPError{Code: code, EnhancedCode: gosmtp.EnhancedCode{a, b, c}, Message: text}
}

// Data takes a message.
func (s *sinkSession) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	switch rand.IntN(200) {
	case 0:
		return reply(452, 4, 3, 0, "full for now")
	case 1:
		s.sink.site.faults.count("connection dropped in the middle of a message")
		_ = s.conn.Conn().Close()
		return nil
	}
	d := delivery{at: time.Now(), unmarked: s.number == markedByScheduler}
	if rand.IntN(200) == 0 {
		d.dropped = true
		s.sink.site.faults.count("connection dropped instead of the reply to a message")
		defer func() { _ = s.conn.Conn().Close() }()
	}
	s.sink.site.arrive(text, s.to, d)
	return nil
}

func (s *sinkSession) Reset()        { s.to = nil }
func (s *sinkSession) Logout() error { return nil }
