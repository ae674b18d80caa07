// Package smtp delivers messages over SMTP (RFC 5321) and LMTP (RFC 2033). It
// is the work of the agent smtp(8). Each job line becomes one job or more: a
// job is the recipients of one message for one destination.
//
//	Deliver ──job──► router ──targets──► pool ──► connection ──► server
//	                 MX, addresses      chooses a     used by the goroutine
//	                                    connection    of one job at a time
//
// The server's reply, and the moment when it arrives, decide what is reported:
//
//	no session can be opened with any target  deferall
//	MAIL or RCPT is refused temporarily       deferred
//	DATA or the message, likewise             deferback
//	any of them is refused permanently        error
//	the connection ends before DATA           deferred, x.4.0
//	the connection ends after DATA            deferback, x.4.0
//	the message is accepted                   ok, before anything else is done
//
// Between the final dot and its reply the client cannot know whether the server
// has the message. If the connection ends in that time, the recipients stay in
// the queue (deferback), so that no mail is lost. The same job does not try
// again, either on another connection or at another exchanger. A message that
// was accepted is never sent again.
package smtp

import (
	"math/rand/v2"
	"net/netip"

	"zsched/ta"
)

// Options say how mail is delivered. smtp(8) describes each by its letter.
type Options struct {
	Name   string // our host name, for EHLO and to recognise loops
	Port   int    // 0: 25
	LMTP   bool
	Forced string // destination of all mail, regardless of its host word: "UNIX:/path", "[address]" or a name

	NoMX         bool // look up addresses only
	LocalOK      bool // our own addresses do not count as a loop
	IPv6First    bool
	ShareMX      bool // destinations with the same exchanger share connections
	NoPipelining bool

	Dialer   Dialer
	Limits   Limits
	Timeouts Timeouts
	TLS      *TLS     // nil: STARTTLS is used where it is offered
	Secrets  *Secrets // nil: none

	Resolver Resolver   // nil: the system's
	Rand     *rand.Rand // nil: a new one

	// Log is called with every line of every session. It may be called by several
	// goroutines. nil: no log.
	Log func(LogLine)
}

// Agent delivers messages. Its method Deliver is meant for ta.Server.Deliver.
type Agent struct {
	o      Options
	router router
	opener opener
	pool   *pool
}

// New makes an agent. It opens no connection before there is mail.
func New(o Options) *Agent {
	if o.Port == 0 {
		o.Port = smtpPort
	}
	if o.TLS == nil {
		o.TLS = NewTLS()
	}
	if o.Resolver == nil {
		o.Resolver = NewResolver("")
	}
	if o.Rand == nil {
		o.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	if o.Timeouts == (Timeouts{}) {
		o.Timeouts = DefaultTimeouts()
	}
	a := &Agent{
		o: o,
		router: router{resolver: o.Resolver, port: o.Port, forced: o.Forced, noMX: o.NoMX,
			localOK: o.LocalOK || o.LMTP, ipv6First: o.IPv6First, name: o.Name, ours: func(netip.Addr) bool { return false }},
		opener: opener{dialer: o.Dialer, timeouts: o.Timeouts, lmtp: o.LMTP, name: o.Name, noPipelining: o.NoPipelining,
			tls: o.TLS, secrets: o.Secrets, log: o.Log},
	}
	if o.Port == smtpPort && o.Forced == "" {
		a.router.ours = ourAddresses()
	}
	a.pool = newPool(o.Limits, o.Rand)
	return a
}

// Deliver delivers a message and returns when all its recipients are reported.
// It may be called by several goroutines.
func (a *Agent) Deliver(m *ta.Message) {
	for _, j := range a.divide(m) {
		host := j.recipients[0].Host
		levels, failed := a.router.route(host)
		if failed != nil {
			a.reportFailure(j, failed)
			continue
		}
		j.levels, j.policy = levels, a.policy(host)
		a.work(j)
	}
}

// policy returns the TLS policy of a host word, or of the forced destination.
func (a *Agent) policy(host string) Policy {
	if a.o.Forced != "" {
		host = a.o.Forced
	}
	p := a.o.TLS.policy(host)
	if a.o.Secrets.has(host) {
		p.Domain = canonicalOr(host)
	}
	return p
}

// divide groups the recipients of a message by destination. If the job line names a
// host, as most do, there is only one group.
func (a *Agent) divide(m *ta.Message) []*job {
	var all []*job
	byHost := map[string]*job{}
	for i := range m.Recipients {
		r := &m.Recipients[i]
		host := r.RouteHost()
		if a.o.Forced != "" {
			host = ""
		}
		j := byHost[host]
		if j == nil {
			j = &job{id: m.ID, message: m, turn: make(chan *conn, 1)}
			if !a.o.ShareMX {
				j.domain = host
			}
			byHost[host] = j
			all = append(all, j)
		}
		j.recipients = append(j.recipients, r)
	}
	for _, j := range all {
		j.alone = len(all) == 1
	}
	return all
}
