// Package smtp is the agent that delivers over SMTP and LMTP (RFC 5321,
// RFC 2033). A job line becomes a job: the recipients of one message for one
// place.
//
//	Deliver ──job──► router ──targets──► pool ──► connection ──► peer
//	   ▲            MX, addresses     the choice    a goroutine,     │
//	   │                              of the seed   jobs in a row    │
//	   └──────────── report: result, transcript ◄────────────────────┘
//
// What a peer answers, and when, decides what is reported:
//
//	no target answers and greets us          deferall
//	MAIL or RCPT is refused for now          deferred
//	DATA or the message is refused for now   deferback
//	anything is refused for good             error
//	the connection ends before DATA          deferred, x.4.0
//	it ends after DATA                       deferback, x.4.0
//	the message is accepted                  ok, at once, before all else
//
// The time between the final dot and its reply is the one in which nobody can
// know whether the peer has the message. A connection that ends there leaves
// the recipients in the queue (deferback), so that no mail is lost; it is not
// tried again within the same job, on no other connection or exchanger. What
// was accepted is never sent again.
package smtp

import (
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"zsched/ta"
)

// Options say how mail is delivered. smtp(8) has them by letter.
type Options struct {
	Name   string // our own, for EHLO and against loops
	Port   int    // 0: 25
	LMTP   bool
	Forced string // where all mail goes, whatever its host word: "UNIX:/path", "[address]" or a name

	NoMX      bool // addresses only
	LocalOK   bool // our own addresses are no loop
	IPv6First bool
	ShareMX   bool // destinations with the same exchanger share connections

	No          Refused // what not to use
	EightClean  bool    // send eight bits to peers that do not offer 8BITMIME
	KeepHeaders bool    // do not encode headers

	Dialer   Dialer
	Limits   Limits
	Timeouts Timeouts
	TLS      *TLS     // nil: where it is offered
	Secrets  *Secrets // nil: none

	Resolver     Resolver     // nil: the system's
	Destinations Destinations // nil: in memory
	Rand         *rand.Rand   // nil: a new one

	// Log gets every line of every session, with the number of the
	// connection, or is nil. It may be called by several goroutines.
	Log func(conn int, direction, line string)
	// Title is told what is being done, or is nil.
	Title func(string)
}

// Agent is the agent. Its Deliver goes into a ta.Server.
type Agent struct {
	o      Options
	router router
	opener opener
	pool   pool

	running sync.WaitGroup // connections
}

// New makes an agent. No connection is opened before there is mail.
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
	if o.Destinations == nil {
		o.Destinations = NewDestinations()
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
		opener: opener{dialer: o.Dialer, limits: o.Timeouts, lmtp: o.LMTP, name: o.Name, no: o.No,
			tls: o.TLS, secrets: o.Secrets, log: o.Log},
	}
	if o.Port == smtpPort && o.Forced == "" {
		a.router.ours = ourAddresses()
	}
	a.pool = pool{limits: o.Limits.withDefaults(), destinations: o.Destinations, rand: o.Rand, now: time.Now,
		start: a.start, fail: a.giveUp, wake: wake,
		hosts: map[string][]*conn{}, messages: map[uint64]int{}}
	return a
}

// Deliver delivers a message. It may be called by several goroutines.
func (a *Agent) Deliver(m *ta.Message) {
	for _, w := range a.divide(m) {
		host := w.recipients[0].Host
		levels, failed := a.router.route(host)
		if failed != nil {
			a.reportFailure(w, failed)
			continue
		}
		j := &job{message: m.ID, levels: levels, work: w, done: make(chan struct{})}
		j.policy = a.policy(host)
		if !a.o.ShareMX && a.o.Forced == "" {
			j.domain = w.recipients[0].RouteHost()
		}
		a.pool.place(j)
		<-j.done
	}
	a.title("waiting")
}

// policy is that for a host word, or for where all mail goes.
func (a *Agent) policy(host string) Policy {
	if a.o.Forced != "" {
		host = a.o.Forced
	}
	p := a.o.TLS.policy(host)
	if a.o.Secrets.knows(host) {
		p.Domain = host
	}
	return p
}

// divide makes one piece of work of the recipients for one place. A job line
// has a host as a rule, and then there is one.
func (a *Agent) divide(m *ta.Message) []*work {
	var all []*work
	byHost := map[string]*work{}
	for i := range m.Recipients {
		r := &m.Recipients[i]
		host := r.RouteHost()
		if a.o.Forced != "" {
			host = ""
		}
		w := byHost[host]
		if w == nil {
			w = &work{message: m}
			byHost[host] = w
			all = append(all, w)
		}
		w.recipients = append(w.recipients, r)
	}
	for _, w := range all {
		w.alone = len(all) == 1
	}
	return all
}

// Close takes leave of all peers. No Deliver may be under way.
func (a *Agent) Close() {
	a.pool.mu.Lock()
	for _, c := range append([]*conn{}, a.pool.conns...) {
		a.pool.unlink(c)
		wake(c)
	}
	a.pool.mu.Unlock()
	a.running.Wait()
}

func (a *Agent) title(text string) {
	if a.o.Title != nil {
		a.o.Title(text)
	}
}
