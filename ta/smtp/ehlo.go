// This file holds the opening of a session: the greeting, EHLO, and the extensions
// that the server offers.

package smtp

import (
	"fmt"
	"strconv"
	"strings"
)

// session is an SMTP or LMTP session: a connection on which the server has sent
// its greeting and its extensions.
type session struct {
	*wire
	target  *target
	address string // the server's IP address; "" on a unix socket
	ext     extensions
	tls     bool
	opening transcript
	spoolID string // of the current message, for the log; "": none
}

// extensions are what a server offers in its reply to EHLO, without those that
// are disabled.
type extensions struct {
	pipelining, eightBit, utf8, dsn, starttls bool

	size  int64 // longest message that it accepts in bytes, if sized; 0: not given
	sized bool
	auth  []string // mechanisms, in upper case
}

// remote returns the name of the server in notices.
func (s *session) remote() string { return s.target.remote(s.address) }

// parseExtensions reads the lines of a reply to EHLO after the first.
func parseExtensions(lines []string) (e extensions) {
	for _, line := range lines {
		words := strings.Fields(strings.ToUpper(replyText(line)))
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "PIPELINING":
			e.pipelining = true
		case "8BITMIME":
			e.eightBit = true
		case "SMTPUTF8":
			e.utf8 = true
		case "DSN":
			e.dsn = true
		case "STARTTLS":
			e.starttls = true
		case "SIZE":
			e.sized, e.size = true, firstNumber(words)
		case "AUTH":
			e.auth = append(e.auth, words[1:]...)
		}
	}
	return e
}

// firstNumber returns the first parameter; 0 if there is none or it is not a number.
func firstNumber(words []string) int64 {
	if len(words) < 2 {
		return 0
	}
	n, err := strconv.ParseInt(words[1], 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// openError is a failure before the first MAIL.
type openError struct {
	*failure
	retryPlain bool // TLS failed, and the policy permits another attempt without it
}

// opener opens sessions.
type opener struct {
	dialer       Dialer
	timeouts     Timeouts
	lmtp         bool
	name         string // for EHLO
	noPipelining bool
	tls          *TLS
	secrets      *Secrets
	log          func(LogLine)
}

// open opens a session with the first address of a target that accepts one. spoolID is
// that of the message that it is opened for, for the log.
func (o *opener) open(c *conn, spoolID string) (*session, *failure) {
	addresses := []string{c.target.socket}
	network := "unix"
	if c.target.socket == "" {
		network, addresses = "tcp", nil
		for _, a := range c.target.addresses {
			addresses = append(addresses, a.String())
		}
	}
	var last *failure
	for _, address := range addresses {
		s := &session{target: c.target, spoolID: spoolID}
		err := o.openAt(s, c.order, network, address, c.policy)
		if err != nil && err.retryPlain {
			plain := c.policy
			plain.Level = TLSNone
			s = &session{target: c.target, spoolID: spoolID}
			err = o.openAt(s, c.order, network, address, plain)
		}
		if err == nil {
			return s, nil
		}
		last = err.failure
	}
	return nil, last
}

// openAt opens a session at one address. number is that of its connection, for the log.
func (o *opener) openAt(s *session, number int, network, address string, policy Policy) *openError {
	if network == "tcp" {
		s.address = withoutPort(address)
	}
	log := func(direction, line string) {
		if o.log != nil {
			o.log(LogLine{number, s.spoolID, direction, line})
		}
	}
	connecting := "(connect to " + s.target.name + " at " + address + ")"
	log(ours, connecting)
	nc, err := o.dialer.dial(network, address, o.timeouts.Connect)
	if err != nil {
		text := fmt.Sprintf("connect to %s at %s: %s", s.target.name, address, why(err))
		log(theirs, "("+why(err)+")")
		return &openError{failure: &failure{code: "4.4.1", diagnostic: "smtp; 466 (" + text + ")", remote: s.remote(), text: text}}
	}
	s.wire = newWire(nc, o.timeouts.Write, func(direction, line string) {
		s.opening.add(direction, line)
		log(direction, line)
	})
	s.opening.add(ours, connecting)
	if failed := o.greet(s, policy); failed != nil {
		s.quit()
		return failed
	}
	s.opening = transcript{} // transactions have their own
	s.trace = log
	return nil
}

// withoutPort returns the host of host:port, without brackets.
func withoutPort(address string) string {
	if at := strings.LastIndexByte(address, ':'); at >= 0 {
		return strings.Trim(address[:at], "[]")
	}
	return address
}

// greet reads the greeting, says EHLO, and does STARTTLS and AUTH.
func (o *opener) greet(s *session, policy Policy) *openError {
	greeting, err := s.reply(o.timeouts.Greet)
	if err != nil {
		return s.lost("greeting", err)
	}
	if greeting.Code != 220 {
		return s.refused(greeting)
	}
	if failed := o.hello(s); failed != nil {
		return failed
	}
	if failed := o.startTLS(s, policy); failed != nil {
		return failed
	}
	return o.authenticate(s, policy)
}

// hello says EHLO, and HELO if the server does not know EHLO. LMTP has LHLO only.
func (o *opener) hello(s *session) *openError {
	verb := "EHLO"
	if o.lmtp {
		verb = "LHLO"
	}
	s.ext = extensions{}
	r, err := s.command(o.timeouts.Command, verb+" "+o.name)
	if err == nil && r.Permanent() && !o.lmtp {
		verb = "HELO"
		r, err = s.command(o.timeouts.Command, "HELO "+o.name)
	}
	switch {
	case err != nil:
		return s.lost(verb, err)
	case !r.OK():
		return s.refused(r)
	case verb != "HELO":
		s.ext = parseExtensions(r.Lines[1:])
		s.ext.pipelining = s.ext.pipelining && !o.noPipelining
	}
	return nil
}

// lost is the failure of a connection that ended, or whose server does not speak
// SMTP.
func (s *session) lost(at string, err error) *openError {
	return &openError{failure: &failure{code: "4.4.2", diagnostic: "smtp; 466 (" + at + ": " + why(err) + ")",
		remote: s.remote(), text: s.opening.String() + "\r" + at + ": " + why(err)}}
}

// refused is the failure of a server that refuses the session. It is always
// temporary, because the server has not seen the message.
func (s *session) refused(r Reply) *openError {
	return &openError{failure: &failure{code: "4.4.1", diagnostic: r.diagnostic(), remote: s.remote(), text: s.opening.String()}}
}

// violates is the failure of a server that does not comply with the policy.
func (s *session) violates(what string) *openError {
	return &openError{failure: &failure{code: "4.7.5", policy: true, diagnostic: "smtp; 454 (" + what + ")", remote: s.remote(),
		text: s.opening.String() + "\r" + what}}
}
