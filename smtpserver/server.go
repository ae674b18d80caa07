// Package smtpserver takes mail by SMTP (RFC 5321) and gives it to the router.
//
//	client ─► session ─► queue ─► $POSTOFFICE/router/
//	          (commands) (group
//	                      commit)
//
// A session is one goroutine that reads a command line, looks its verb up in a table, and
// answers it. A transaction is what MAIL and RCPT have said about a message; a text is
// the message itself, which DATA or BDAT write once, into a file of the queue.
//
//	server.go       options, start, stop
//	accept.go       listeners, and how many sessions there may be
//	session.go      one session: lines, replies, timeouts
//	command.go      the table of commands
//	syntax.go       paths and parameters
//	transaction.go  MAIL, RCPT
//	text.go         DATA, BDAT
//	auth.go         AUTH, passwords.go, guesses.go
//	rate.go         how many recipients there may be in a time, and at once
//	certificate.go  the certificate for TLS
//	refusal.go      every reply of class 4 and 5
//	flow.go         whether there is room for mail
//	log.go          the log
//	counts.go       what the metrics show
//
// A command that is refused returns a refusal, and session.refuse is the only function
// that sends one. What has to be known of all of them, or decided for all, has its place there.
//
// The server reads no command before it has answered the one before, except that replies to
// commands that came together go together (PIPELINING). Only CRLF, dot, CRLF ends a message,
// and a message with a bare CR or LF ends the session before anything after it is read.
//
// The reply 250 to a message is sent when the message and its name in router/
// are on disk. A crash before that leaves either nothing in router/, or a
// complete message that the client sends again.
//
// The envelope has a rcvdfrom and a with line, from which the router writes the
// Received field. The server adds no field to the message.
package smtpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"zsched/internal/logs"
	"zsched/queue"
)

// Options are the settings of a server: smtpserver(8).
type Options struct {
	Hostname   string
	Router     queue.Router // where messages go
	NotifySock string       // of the scheduler, for ETRN
	TLS        *tls.Config  // nil: no STARTTLS and no AUTH
	Passwords  string       // file; "": no AUTH

	Domains  []string       // anybody may send to them: "example.org", or ".example.org" for all below it
	Networks []netip.Prefix // networks whose clients may send anywhere
	// CheckRecipient returns ErrNoUser or ErrNoRoute for an address that the router would
	// fail; nil: every address is accepted. It must be safe for concurrent use.
	CheckRecipient func(address string) error

	MaxSize        int64 // of a message, in bytes
	MaxRecipients  int   // of a message
	MaxSessions    int   // at once
	MaxFromAddress int   // sessions at once from an address outside Networks
	MaxErrors      int   // replies of class 4 and 5 between two messages, outside Networks
	LoginRate      Rate  // of each user who has logged in
	ClientRate     Rate  // of each address block outside Networks, without logins
	NetworkRate    Rate  // of each address in Networks, and of each user of this machine, without logins

	MinFree        int64         // bytes of disk that are left free; 0: none
	RouterMax      int           // number of files in router/ at which mail is delayed; 0: no limit
	CommandTimeout time.Duration // without a byte
	DataTimeout    time.Duration // for a message, plus a second for each 1024 bytes received
	SessionTimeout time.Duration // without a message

	Log zerolog.Logger
}

// Default returns the default options. Hostname and Router have none.
func Default() Options {
	return Options{
		Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")},
		MaxSize:  50 << 20, MaxRecipients: 1000, MaxSessions: 500, MaxFromAddress: 50, MaxErrors: 30,
		MinFree: 64 << 20, RouterMax: 1000,
		CommandTimeout: 5 * time.Minute, DataTimeout: 10 * time.Minute, SessionTimeout: time.Hour,
		Log: zerolog.Nop(),
	}
}

// Server accepts mail at any number of listeners.
type Server struct {
	queue        *inbox
	envelopes    shares // of maxEnvelopes
	files        shares // of the disk, of messages that are not complete
	stopped      chan struct{}
	ended        logs.Throttle // logged sessions of each address block
	crowded      logs.Throttle // log lines about each block whose clients get no session
	guesses      *guesses
	loginRates   rates
	blockRates   rates
	networkRates rates
	triggers     rates                  // ETRNs for each host
	askers       rates                  // ETRNs of each address block
	config       atomic.Pointer[config] // in force for sessions that begin now
	roundTrip    time.Duration          // maxRoundTrip; tests replace it

	mu       sync.Mutex
	sessions map[*session]bool
	from     map[netip.Prefix]int // sessions, by addressKey
	local    int                  // sessions of clients on this machine
	counts   Counts               // without what Server.Counts adds
	ending   sync.WaitGroup       // one for each session
}

// config is what Configure replaces. A session keeps the options that were in force when it
// began; the passwords and the limits of the queue apply to all.
type config struct {
	Options
	flow     *flow
	replaced chan struct{} // closed when it is in force no more
}

var (
	// triggerRate is how often all clients together may start the delivery of a host's mail.
	triggerRate = Rate{1, time.Minute}
	// askerRate is how many ETRNs the clients of an address block may send.
	askerRate = Rate{100, time.Minute}
)

// New returns a server for a postoffice. Close ends it.
func New(o Options) (*Server, error) {
	q, err := openQueue(o.Router, o.NotifySock, o.Log)
	if err != nil {
		return nil, err
	}
	s := &Server{
		queue: q, stopped: make(chan struct{}), guesses: newGuesses(), roundTrip: maxRoundTrip,
		envelopes: shares{held: make(map[string]int64)}, files: shares{held: make(map[string]int64)},
		ended:    logs.Throttle{Number: maxSessionLines, Period: sessionLinePeriod},
		crowded:  logs.Throttle{Period: sessionLinePeriod},
		sessions: make(map[*session]bool), from: make(map[netip.Prefix]int),
		counts: Counts{Refused: make(map[string]int)},
	}
	s.use(o, nil)
	return s, nil
}

// Configure replaces the options for sessions that begin later. Router and NotifySock
// keep the values that New was given.
func (s *Server) Configure(o Options) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.stopped:
		return
	default:
	}
	old := s.config.Load()
	o.Router, o.NotifySock = old.Router, old.NotifySock
	s.use(o, old)
}

// use puts options in force. old has those before, or is nil.
func (s *Server) use(o Options, old *config) {
	next := &config{
		Options: o, replaced: make(chan struct{}),
		flow: &flow{postoffice: o.Router.Postoffice, limit: o.RouterMax, minFree: o.MinFree,
			log: o.Log, busy: logs.Throttle{Period: busyLogPause}},
	}
	if old != nil {
		next.flow.files.Store(old.flow.files.Load())
		close(old.replaced)
	}
	go next.flow.watch(next.replaced)
	s.config.Store(next)
}

// Close ends all sessions: at once those that are not receiving a message, and the
// others after their message or when the context is done. The listeners must be closed
// first. A second call does nothing.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	select {
	case <-s.stopped:
		s.mu.Unlock()
		return nil
	default:
	}
	close(s.stopped)
	close(s.config.Load().replaced)
	for c := range s.sessions {
		c.stop(errStopping)
	}
	s.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		s.ending.Wait()
		close(ended)
	}()
	var err error
	select {
	case <-ended:
	case <-ctx.Done():
		err = ctx.Err()
		s.mu.Lock()
		for c := range s.sessions {
			_ = c.raw.Close()
		}
		s.mu.Unlock()
		<-ended
	}
	return errors.Join(err, s.queue.group.Close())
}

// trusts reports whether a client at an address may send anywhere. A client without
// an IP address is a process of this machine.
func (o *Options) trusts(addr netip.Addr) bool {
	return !addr.IsValid() ||
		slices.ContainsFunc(o.Networks, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// isOurs reports whether anybody may send to a domain.
func (o *Options) isOurs(domain string) bool {
	domain = strings.ToLower(strings.TrimSuffix(domain, "."))
	return slices.ContainsFunc(o.Domains, func(ours string) bool {
		return domain == ours || strings.HasPrefix(ours, ".") && strings.HasSuffix(domain, ours)
	})
}

// postmasterDomain returns the domain of RCPT TO:<postmaster>: the name of this host or, if
// that is not one of our domains, the first of them that is not a pattern.
func (o *Options) postmasterDomain() string {
	if o.isOurs(o.Hostname) {
		return o.Hostname
	}
	for _, ours := range o.Domains {
		if !strings.HasPrefix(ours, ".") {
			return ours
		}
	}
	return o.Hostname
}

// isAccepted reports whether anybody may send to an address. The postmaster of this host is one
// in any case (RFC 5321 section 4.5.1).
func (o *Options) isAccepted(address string) bool {
	return o.isOurs(address[strings.LastIndexByte(address, '@')+1:]) || strings.EqualFold(address, "postmaster@"+o.postmasterDomain())
}
