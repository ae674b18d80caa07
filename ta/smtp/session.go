package smtp

import (
	"crypto/tls"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// session is an SMTP or LMTP session: a connection on which the peer has said
// that it is ready and what it can do.
type session struct {
	*wire
	target  *target
	address string // the peer's IP address; "" on a unix socket
	ext     extensions
	tls     bool
	told    strings.Builder // transcript of the opening
}

// extensions are what a peer offers (its answer to EHLO), less what is not to
// be used.
type extensions struct {
	pipelining, eightBit, utf8, chunking, dsn, starttls bool

	size      int64 // the longest message it takes in bytes, if sized; 0: it does not say
	sized     bool
	deliverBy bool
	minBy     int64    // least seconds that BY may give where it asks for return
	auth      []string // mechanisms, in upper case
}

// remote is the peer as notices name it.
func (s *session) remote() string { return s.target.place(s.address) }

// note adds a line to the transcript of the opening.
func (s *session) note(direction, line string) {
	fmt.Fprintf(&s.told, "\r%s %s", direction, line)
}

// parseExtensions reads the lines of an answer to EHLO behind the first.
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
		case "CHUNKING":
			e.chunking = true
		case "DSN":
			e.dsn = true
		case "STARTTLS":
			e.starttls = true
		case "SIZE":
			e.sized, e.size = true, number(words)
		case "DELIVERBY":
			e.deliverBy, e.minBy = true, number(words)
		case "AUTH":
			e.auth = append(e.auth, words[1:]...)
		default:
			// The form of an old draft: AUTH=LOGIN PLAIN.
			if rest, ok := strings.CutPrefix(words[0], "AUTH="); ok {
				e.auth = append(append(e.auth, rest), words[1:]...)
			}
		}
	}
	return e
}

// number is the first parameter; 0 where there is none or none that is one.
func number(words []string) int64 {
	if len(words) < 2 {
		return 0
	}
	n, err := strconv.ParseInt(words[1], 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// openError is a failure to come as far as the first MAIL.
type openError struct {
	*failure
	plain bool // TLS failed, and the policy allows to go without: try so
}

// opener makes sessions.
type opener struct {
	dialer  Dialer
	limits  Timeouts
	lmtp    bool
	name    string // for EHLO
	no      Refused
	tls     *TLS
	secrets *Secrets
	log     func(conn int, direction, line string)
}

// Refused are the things not to use although a peer may offer them.
type Refused struct {
	ESMTP      bool // say HELO, not EHLO
	UnlessSaid bool // say HELO where the greeting has no ESMTP in it
	Pipelining bool
	EightBit   bool // neither 8BITMIME nor SMTPUTF8: all is sent in 7 bits
}

// open opens a session with the first address of a target that lets it.
func (o *opener) open(c *conn) (*session, *failure) {
	policy, _ := c.policy.(Policy)
	places := []string{c.target.socket}
	network := "unix"
	if c.target.socket == "" {
		network, places = "tcp", nil
		for _, a := range c.target.addresses {
			places = append(places, a.String())
		}
	}
	var last *failure
	for _, place := range places {
		s, err := o.openAt(c, network, place, policy)
		if err != nil && err.plain {
			policy.Level = TLSNone
			s, err = o.openAt(c, network, place, policy)
			policy, _ = c.policy.(Policy)
		}
		if err == nil {
			return s, nil
		}
		last = err.failure
	}
	return nil, last
}

// openAt opens a session at one address.
func (o *opener) openAt(c *conn, network, place string, policy Policy) (*session, *openError) {
	s := &session{target: c.target}
	if network == "tcp" {
		s.address = addressOf(place)
	}
	o.trace(c, ours, "(connect to "+c.target.name+" at "+place+")")
	nc, err := o.dialer.dial(network, place, o.limits.Connect)
	if err != nil {
		text := fmt.Sprintf("connect to %s at %s: %s", c.target.name, place, why(err))
		o.trace(c, theirs, "("+why(err)+")")
		return nil, &openError{failure: &failure{code: "4.4.1", diagnostic: "smtp; 466 (" + text + ")", remote: s.remote(), text: text}}
	}
	s.wire = newWire(nc, o.limits.Write, func(direction, line string) {
		s.note(direction, line)
		o.trace(c, direction, line)
	})
	s.note(ours, "(connect to "+c.target.name+" at "+place+")")
	if failed := o.greet(s, policy); failed != nil {
		s.quit()
		return nil, failed
	}
	// What follows has transcripts of its own.
	s.told = strings.Builder{}
	s.trace = func(direction, line string) { o.trace(c, direction, line) }
	return s, nil
}

func (o *opener) trace(c *conn, direction, line string) {
	if o.log != nil {
		o.log(c.order, direction, line)
	}
}

// greet takes the greeting, says hello, and sees to TLS and AUTH.
func (o *opener) greet(s *session, policy Policy) *openError {
	greeting, err := s.reply(o.limits.Greet)
	if err != nil {
		return s.broken("greeting", err)
	}
	if greeting.Code != 220 {
		return s.unwilling("greeting", greeting)
	}
	esmtp := !o.no.ESMTP && (!o.no.UnlessSaid || strings.Contains(strings.ToUpper(greeting.Text()), "ESMTP"))
	if failed := o.hello(s, esmtp || o.lmtp); failed != nil {
		return failed
	}
	if failed := o.secure(s, policy); failed != nil {
		return failed
	}
	return o.authenticate(s, policy)
}

// hello says EHLO, or HELO to who does not know that.
func (o *opener) hello(s *session, esmtp bool) *openError {
	verb := "EHLO "
	if o.lmtp {
		verb = "LHLO "
	}
	s.ext = extensions{}
	if esmtp {
		r, err := s.command(o.limits.Command, verb+o.name)
		if err != nil {
			return s.broken(verb, err)
		}
		if r.OK() {
			s.ext = o.used(parseExtensions(r.Lines[1:]))
			return nil
		}
		if !r.Permanent() || o.lmtp {
			return s.unwilling(verb, r)
		}
	}
	r, err := s.command(o.limits.Command, "HELO "+o.name)
	if err != nil {
		return s.broken("HELO", err)
	}
	if !r.OK() {
		return s.unwilling("HELO", r)
	}
	return nil
}

// used takes away what is not to be used.
func (o *opener) used(e extensions) extensions {
	e.pipelining = e.pipelining && !o.no.Pipelining
	e.eightBit = e.eightBit && !o.no.EightBit
	e.utf8 = e.utf8 && e.eightBit
	return e
}

// secure begins TLS as the policy says.
func (o *opener) secure(s *session, policy Policy) *openError {
	required := policy.Level > TLSMay
	if policy.Level == TLSNone || !s.ext.starttls {
		if required {
			return s.untrusted("TLS is required and not offered")
		}
		return nil
	}
	r, err := s.command(o.limits.Command, "STARTTLS")
	switch {
	case err != nil:
		failed := s.broken("STARTTLS", err)
		failed.plain = !required
		return failed
	case r.Code != 220 && required:
		return s.untrusted(fmt.Sprintf("TLS is required and refused: %d %s", r.Code, r.Text()))
	case r.Code != 220:
		return nil
	case s.r.Buffered() > 0:
		// Somebody put words into the plain text to be taken for the peer's.
		return s.untrusted("there was more behind the answer to STARTTLS")
	}
	client := tls.Client(s.nc, o.tls.config(policy, s.target))
	if err := s.nc.SetDeadline(time.Now().Add(o.limits.Command)); err != nil {
		return s.broken("STARTTLS", err)
	}
	if err := client.Handshake(); err != nil {
		s.trace(theirs, "(TLS: "+why(err)+")")
		s.close() // what it would make of a QUIT nobody knows
		failed := s.untrusted("TLS: " + why(err))
		failed.plain = !required
		return failed
	}
	_ = s.nc.SetDeadline(time.Time{})
	state := client.ConnectionState()
	s.trace(ours, fmt.Sprintf("(%s, %s)", tls.VersionName(state.Version), tls.CipherSuiteName(state.CipherSuite)))
	s.attach(client)
	s.tls = true
	return o.hello(s, true)
}

// broken is a connection that ended, or a peer that makes no sense.
func (s *session) broken(at string, err error) *openError {
	text := fmt.Sprintf("%s\r%s: %s", s.told.String(), strings.TrimSpace(at), why(err))
	return &openError{failure: &failure{code: "4.4.2", diagnostic: "smtp; 466 (" + strings.TrimSpace(at) + ": " + why(err) + ")",
		remote: s.remote(), text: text}}
}

// unwilling is a peer that does not want us, now or ever: for good is it only
// when it says so of a message.
func (s *session) unwilling(_ string, r Reply) *openError {
	return &openError{failure: &failure{code: "4.4.1", diagnostic: r.diagnostic(), remote: s.remote(), text: s.told.String()}}
}

// untrusted is a peer that does not comply with the policy.
func (s *session) untrusted(what string) *openError {
	return &openError{failure: &failure{code: "4.7.5", policy: true, diagnostic: "smtp; 454 (" + what + ")", remote: s.remote(),
		text: s.told.String() + "\r" + what}}
}

func addressOf(place string) string {
	if at := strings.LastIndexByte(place, ':'); at >= 0 {
		return strings.Trim(place[:at], "[]")
	}
	return place
}
