// Package smtptest holds SMTP and LMTP servers for tests and demonstrations of a
// client. Server behaves well. Peer misbehaves according to its script. Both record
// what the client sent.
//
// The script of a Peer is a list of rules. A rule applies to commands that begin with
// its On, ignoring case, or to one of these points:
//
//	connect   before the greeting
//	body      after the first line of a message
//	dot       after a message, before its reply; in LMTP once for each recipient,
//	          as "dot <address>"
//
// Its Do says what happens, in steps separated by "; ":
//
//	550 5.1.1 no such user    send this reply; "\n" begins a further line of the
//	                          reply, "\r\n" a second reply
//	drop                      close the connection
//	reset                     close it with a TCP reset
//	stall                     send nothing until the client closes the connection
//	hold                      wait for Release
//	deaf                      read nothing until the peer is closed
//	wait 50ms                 wait
//	garbage                   reply to the next byte with what is neither TLS nor SMTP
//	discard                   throw away what the client has sent already
//
// If no step is a reply, the usual reply follows. A rule applies as often as Times
// says. The first rule that applies is used.
//
//	smtptest.Rule{On: "RCPT To:<bob", Do: "451 4.2.2 later"}
//	smtptest.Rule{On: "dot", Do: "drop", Times: 1}
package smtptest

import (
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync"
)

// Rule is one line of a script.
type Rule struct {
	On    string
	Do    string
	Times int // 0: always
}

// Options say how a Peer or a Server behaves.
type Options struct {
	// Address to listen at; "" is a free port of 127.0.0.1. One with a slash
	// is the path of a unix socket.
	Address string
	LMTP    bool
	// Offers are the lines of the reply to EHLO. nil offers what the peer knows:
	// PIPELINING, SIZE, 8BITMIME, SMTPUTF8, DSN,
	// ENHANCEDSTATUSCODES, and STARTTLS and AUTH if they are configured.
	Offers []string
	Rules  []Rule
	TLS    *tls.Config // for STARTTLS
	// User and Password are those of AUTH. "": no AUTH.
	User, Password string
}

// Message is a message that was received completely. A Peer may have refused it or
// dropped the connection at the dot.
type Message struct {
	Conn       int    // 1, 2, … in the order of connections
	Mail       string // the complete MAIL command
	Rcpts      []string
	From       string
	Recipients []string
	Data       string // as sent, with CRLF, without dots added
	TLS        bool
	User       string // of AUTH; "": none
	Answered   bool   // an acceptance was sent
}

// Peer is a server with a script.
type Peer struct {
	Addr     string // host:port, or the path of the socket
	options  Options
	listener net.Listener
	serving  sync.WaitGroup
	closing  chan struct{}
	released chan struct{}

	mu       sync.Mutex
	changed  *sync.Cond
	used     []int // by rule
	messages []Message
	commands []string
	conns    map[net.Conn]bool
	total    int
	peak     int
	closed   bool
}

// Start starts a peer.
func Start(o Options) (*Peer, error) {
	l, err := listen(o.Address)
	if err != nil {
		return nil, err
	}
	p := &Peer{Addr: l.Addr().String(), options: o, listener: l, used: make([]int, len(o.Rules)),
		closing: make(chan struct{}), released: make(chan struct{}), conns: map[net.Conn]bool{}}
	p.changed = sync.NewCond(&p.mu)
	p.serving.Go(p.accept)
	return p, nil
}

// Close ends all sessions and waits until they have ended.
func (p *Peer) Close() {
	p.mu.Lock()
	if !p.closed {
		close(p.closing)
	}
	p.closed = true
	for nc := range p.conns {
		_ = nc.Close()
	}
	p.mu.Unlock()
	_ = p.listener.Close()
	p.serving.Wait()
}

// Release ends all waits of the step hold, including later ones. It may be called
// only once.
func (p *Peer) Release() { close(p.released) }

// Messages returns the messages that were received completely, in that order.
func (p *Peer) Messages() []Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Message{}, p.messages...)
}

// Commands returns all commands of all connections, and "(connect)" for each new
// connection.
func (p *Peer) Commands() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.commands...)
}

// Connections returns the number of connections that are open now, the maximum that
// were open at once, and the total.
func (p *Peer) Connections() (open, peak, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns), p.peak, p.total
}

// Await waits until the given number of connections is open.
func (p *Peer) Await(open int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.conns) != open {
		p.changed.Wait()
	}
}

// AwaitMessages waits until the given number of messages has been received
// completely.
func (p *Peer) AwaitMessages(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.messages) < n {
		p.changed.Wait()
	}
}

// AwaitCommand waits until a command that begins with prefix has been received the
// given number of times.
func (p *Peer) AwaitCommand(prefix string, times int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		n := 0
		for _, c := range p.commands {
			if strings.HasPrefix(strings.ToUpper(c), strings.ToUpper(prefix)) {
				n++
			}
		}
		if n >= times {
			return
		}
		p.changed.Wait()
	}
}

func (p *Peer) accept() {
	for {
		nc, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			_ = nc.Close()
			return
		}
		p.total++
		number := p.total
		p.conns[nc] = true
		p.peak = max(p.peak, len(p.conns))
		p.note("(connect)")
		p.mu.Unlock()
		p.serving.Go(func() {
			newSession(p, nc, number).serve()
			_ = nc.Close()
			p.mu.Lock()
			delete(p.conns, nc)
			p.changed.Broadcast()
			p.mu.Unlock()
		})
	}
}

// note records a command. p.mu is held.
func (p *Peer) note(line string) {
	p.commands = append(p.commands, line)
	p.changed.Broadcast()
}

// rule returns what the script says for a command or a point.
func (p *Peer) rule(line string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, r := range p.options.Rules {
		if len(line) < len(r.On) || !strings.EqualFold(line[:len(r.On)], r.On) || r.Times > 0 && p.used[i] >= r.Times {
			continue
		}
		p.used[i]++
		return r.Do
	}
	return ""
}
