package smtpserver

// Configuration: the options of the sessions that begin now. Configure replaces them;
// a session keeps those that were in force when it began.

import (
	"log"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/emersion/go-smtp"
)

// config is what the sessions that began under the same options share.
type config struct {
	o              Options
	passwords      *passwords
	flow           *flow
	replaced       chan struct{} // closed when no session needs it any more
	once           sync.Once     // closes replaced
	smtp, lmtp     *smtp.Server
	smtpIn, lmtpIn *handover

	sessions int // and connections that are being accepted; under Server.mu
}

// Configure replaces the options for sessions that begin later. Router and NotifySock
// keep the values that New was given.
func (s *Server) Configure(o Options) {
	s.mu.Lock()
	old := s.config
	s.mu.Unlock()
	o.Router, o.NotifySock = old.o.Router, old.o.NotifySock
	s.use(o)
}

// use puts options in force.
func (s *Server) use(o Options) {
	next := &config{
		o: o, replaced: make(chan struct{}), smtpIn: newHandover(), lmtpIn: newHandover(),
		flow: &flow{
			postoffice: o.Router.Postoffice, minFree: o.MinFree, backlog: o.Backlog, log: o.Log,
			limits: map[string]int{"router": o.RouterMax, "transport": o.TransportMax},
		},
	}
	if o.Passwords != "" {
		s.logins.load()
	}
	next.smtp, next.lmtp = s.newProtocol(&o, false), s.newProtocol(&o, true)
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.config
	if old != nil && old.o.Passwords == o.Passwords {
		next.passwords = old.passwords
	} else {
		next.passwords = newPasswords(o.Passwords, o.Log)
	}
	if old != nil {
		next.flow.level.Store(old.flow.level.Load())
	}
	next.sessions = 1 // being in force counts as one
	s.config, s.configs[next] = next, true
	go next.flow.watch(next.replaced)
	go func() { _ = next.smtp.Serve(next.smtpIn) }()
	go func() { _ = next.lmtp.Serve(next.lmtpIn) }()
	if old != nil {
		s.releaseLocked(old)
	}
}

func (s *Server) newProtocol(o *Options, lmtp bool) *smtp.Server {
	p := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		return &session{server: s, conn: c.Conn().(*connection), helo: c}, nil
	}))
	p.Domain, p.LMTP = o.Hostname, lmtp
	p.MaxMessageBytes, p.MaxRecipients = o.MaxSize, o.MaxRecipients
	p.MaxLineLength = 0        // the connection's maxCommand and the session's maxTextLine
	p.AllowInsecureAuth = true // the session itself requires TLS
	p.EnableSMTPUTF8, p.EnableDSN = true, true
	p.ErrorLog = log.New(logWriter{o.Log}, "", 0)
	return p
}

// retain returns the options in force, for a session that calls release at its end.
func (s *Server) retain() *config {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.config.sessions++
	return s.config
}

func (s *Server) release(c *config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseLocked(c)
}

// releaseLocked closes options that have been replaced, once their last session has ended.
func (s *Server) releaseLocked(c *config) {
	if c.sessions--; c.sessions == 0 {
		delete(s.configs, c)
		c.end()
	}
}

// end ends what belongs to the options.
func (c *config) end() {
	_, _ = c.smtpIn.Close(), c.lmtpIn.Close()
	c.once.Do(func() { close(c.replaced) })
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

// handover is a listener whose connections other listeners have accepted.
type handover struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newHandover() *handover {
	return &handover{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept returns the next connection: net.Listener.
func (h *handover) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept: net.Listener.
func (h *handover) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

// Addr returns an empty address, because there is no socket: net.Listener.
func (h *handover) Addr() net.Addr { return &net.UnixAddr{Net: "unix"} }
