package smtpserver

// A transaction: MAIL and RCPT, which say from whom to whom a message goes.

import (
	"crypto/tls"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/queue"
)

// recipientSize is the memory for a recipient in bytes, without its address.
const recipientSize = 400

// transaction is a message from MAIL to its end.
type transaction struct {
	queue.Submission
	utf8   bool   // SMTPUTF8 was given
	dsn    bool   // the client may ask for notices
	source string // login or address block, for Server.envelopes
	memory int64  // bytes that it has there
	disk   int64  // bytes that it has in Server.files
	text   *text  // nil until DATA or BDAT
}

// mailFrom answers MAIL.
func (s *session) mailFrom(arg string) error {
	if s.mail != nil {
		return errNested
	}
	from, rest, ok := cutPath(arg, "FROM:")
	if !ok {
		return errSenderSyntax
	}
	s.about.from = from.String()
	m := &transaction{dsn: s.offersDSN()}
	size, err := m.senderParameters(rest)
	if err != nil {
		return err
	}
	if size > uint64(s.o.MaxSize) {
		return errTooLarge
	}
	if err := s.stillValid(); err != nil {
		return err
	}
	if m.From = (ctlfile.Address{Channel: "error"}); from != (mailbox{}) {
		address, err := from.address(m.utf8, errSender)
		if err != nil {
			return err
		}
		if !s.login.own.allow(address) {
			return errNotSender
		}
		m.From = ctlfile.Address{User: address}
	}
	flow := s.server.config.Load().flow
	if err := flow.admit(int64(size)); err != nil {
		return err
	}
	s.server.pause(flow.delay())
	m.source = s.sourceName()
	m.RcvdFrom, m.With, m.Source = s.rcvdFrom(), s.with(m.utf8), s.source(m.utf8).String()
	s.mail = m
	s.reply("250 2.1.0 Sender accepted")
	return nil
}

// senderParameters reads the parameters of MAIL.
func (m *transaction) senderParameters(text string) (size uint64, err error) {
	err = parameters(text, func(key, given string) error {
		ok, value := true, strings.ToUpper(given)
		if !m.dsn && (key == "RET" || key == "ENVID") {
			return errNoExtension
		}
		switch key {
		case "SIZE":
			size, ok = parseSize(value)
		case "BODY":
			if ok = value == "7BIT" || value == "8BITMIME"; value == "8BITMIME" {
				m.BodyType = value
			}
		case "SMTPUTF8":
			m.utf8, ok = true, value == ""
		case "RET":
			m.Ret, ok = value, value == "FULL" || value == "HDRS"
		case "ENVID":
			m.EnvID = xtext(given)
		case "AUTH": // RFC 4954 section 5: it may be ignored
		default:
			return errNoExtension
		}
		if !ok {
			return errParameter
		}
		return nil
	})
	return size, err
}

// rcptTo answers RCPT.
func (s *session) rcptTo(arg string) error {
	m := s.mail
	switch {
	case m == nil:
		return errNoMail
	case m.text != nil:
		return errNested
	case len(m.To) >= s.o.MaxRecipients:
		return errManyRecipients
	}
	to, rest, ok := cutPath(arg, "TO:")
	if !ok || to == (mailbox{}) {
		return errRecipientSyntax
	}
	if to.domain == "" && strings.EqualFold(to.local, "postmaster") { // RFC 5321 section 4.1.1.3
		to.domain = s.o.postmasterDomain()
	}
	s.about.to = []string{cutText(to.String())}
	address, err := to.address(m.utf8, errRecipient)
	if err != nil {
		return err
	}
	dsn, err := m.recipientParameters(rest)
	if err == nil {
		err = s.mayReceive(address)
	}
	if err == nil && !s.withinRate() {
		err = errRate
	}
	if err == nil {
		err = s.addRecipient(address, dsn)
	}
	if err != nil {
		return err
	}
	s.reply("250 2.1.5 Recipient accepted")
	return nil
}

// recipientParameters reads the parameters of RCPT, and returns them as words of a recipient's
// N line.
func (m *transaction) recipientParameters(text string) (dsn string, err error) {
	var notify, original string
	err = parameters(text, func(key, value string) error {
		if !m.dsn {
			return errNoExtension
		}
		switch key {
		case "NOTIFY":
			value = strings.ToUpper(value)
			if notify = "NOTIFY=" + value; !validNotify(value) {
				return errParameter
			}
		case "ORCPT":
			if original = originalRecipient(value); original != "" {
				original = "ORCPT=" + original
			}
		default:
			return errNoExtension
		}
		return nil
	})
	return strings.TrimSpace(notify + " " + original), err
}

// mayReceive says whether the client may send to an address.
func (s *session) mayReceive(address string) error {
	if !s.mayRelay() && !s.o.isAccepted(address) {
		return errRelay
	}
	if check := s.o.CheckRecipient; check != nil {
		return check(address)
	}
	return nil
}

// withinRate counts a recipient, unless there were too many from the login, from an address or user
// of this machine in Networks, or else from the client's address block.
func (s *session) withinRate() bool {
	rates, limit, source := &s.server.blockRates, s.o.ClientRate, s.sourceName()
	switch {
	case s.user != "":
		rates, limit = &s.server.loginRates, s.o.LoginRate
	case s.client.trusted:
		rates, limit = &s.server.networkRates, s.o.NetworkRate
		if !s.client.local {
			source = s.client.key.String()
		}
	}
	return rates.take(source, limit, time.Now())
}

// addRecipient adds a recipient, if there is memory for it. There always is for the first one of
// a message: no more messages than sessions come in at once.
func (s *session) addRecipient(address, dsn string) error {
	m := s.mail
	size := int64(len(address)*3 + len(dsn) + recipientSize)
	free := func(taken int64) int64 { return maxEnvelopes - taken }
	if !s.server.envelopes.take(m.source, size, free, len(m.To) == 0) {
		return errManyEnvelopes
	}
	m.memory += size
	m.To = append(m.To, &ctlfile.Recipient{Address: ctlfile.Address{User: address}, DSN: dsn})
	return nil
}

// reset drops the message that was begun, if there is one.
func (s *session) reset() {
	m := s.mail
	if m == nil {
		return
	}
	s.mail = nil
	s.server.envelopes.give(m.source, m.memory)
	s.server.files.give(m.source, m.disk)
	if m.text != nil && m.text.file != nil {
		m.text.file.discard()
	}
}

// rcvdFrom returns the client as the Received field names it.
func (s *session) rcvdFrom() string {
	var b strings.Builder
	for _, r := range s.helo {
		known := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if (known || r == '[' || b.Len() > 0 && strings.ContainsRune("-._:]", r)) && b.Len() < 255 {
			b.WriteRune(r)
		}
	}
	if b.Len() == 0 {
		b.WriteString("unknown")
	}
	switch addr := s.client.addr; {
	case !addr.IsValid():
		b.WriteString(" (local")
	case addr.Is4():
		b.WriteString(" ([" + addr.String() + "]")
	default:
		b.WriteString(" ([IPv6:" + addr.String() + "]")
	}
	if state := s.tls(); state != nil {
		b.WriteString(" " + tls.VersionName(state.Version) + " " + tls.CipherSuiteName(state.CipherSuite))
	}
	return b.String() + ")"
}

// source returns where the message comes from.
func (s *session) source(utf8 bool) ctlfile.Source {
	source := ctlfile.Source{Name: s.sourceName(), UTF8: utf8}
	if s.client.addr.IsValid() {
		source.Client = s.client.addr.String()
	}
	return source
}

func (s *session) sourceName() string {
	if s.user != "" {
		return ctlfile.LoginSource(s.user)
	}
	return s.client.block
}

// with returns the name of the protocol (RFC 3848, RFC 6531 section 4.3).
func (s *session) with(utf8 bool) string {
	word := "SMTP"
	switch {
	case utf8:
		word = "UTF8SMTP"
	case s.greeted != "HELO":
		word = "ESMTP"
	}
	if s.tls() != nil {
		word += "S"
	}
	if s.user != "" {
		word += "A"
	}
	return word
}
