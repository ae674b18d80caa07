package smtpserver

// A session: who may send what to whom, and the transfer of a message.

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/emersion/go-smtp"

	"zsched/ctlfile"
)

const (
	// maxTextLine bounds the length of a line of a message in bytes. RFC 5321 section
	// 4.5.3.1.6 requires at least 1000.
	maxTextLine = 64 << 10
	// maxEnvelopes bounds the memory for the recipients of all sessions, in
	// bytes.
	maxEnvelopes = 16 << 20
	// recipientSize is the memory for a recipient in bytes, without its address.
	recipientSize = 300
	// checkEvery is how many bytes of a message are written between two checks of
	// the free disk space.
	checkEvery = 1 << 20
)

// session is go-smtp's view of a connection: smtp.Session.
type session struct {
	server *Server
	conn   *connection
	helo   *smtp.Conn
	user   string // the user who has authenticated, or ""
	fails  int    // failed AUTH commands

	mu       sync.Mutex          // for mail: go-smtp may reset a session while it reads chunks
	mail     *ctlfile.Submission // nil between two messages
	utf8     bool                // SMTPUTF8 was given
	envelope int64               // bytes of memory counted for mail
	// deliverBy is the value of the message's BY parameter, or "".
	deliverBy string
}

func refusal(code int, enhanced smtp.EnhancedCode, text string) error {
	return &smtp.SMTPError{Code: code, EnhancedCode: enhanced, Message: text}
}

// Reset drops the message that was begun.
func (s *session) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server.envelopes.Add(-s.envelope)
	s.mail, s.utf8, s.envelope = nil, false, 0
}

// Logout ends the session.
func (s *session) Logout() error {
	s.Reset()
	return nil
}

// Mail begins a message.
func (s *session) Mail(from string, o *smtp.MailOptions) error {
	if s.mail != nil {
		return refusal(503, smtp.EnhancedCode{5, 5, 1}, "A message has already begun")
	}
	address, err := s.address(from, o.UTF8)
	if err != nil && from != "" {
		return err
	}
	if err := s.conn.config.flow.admit(o.Size); err != nil {
		return err
	}
	s.server.pause(s.conn.config.flow.delay())
	s.utf8, s.deliverBy = o.UTF8, s.conn.deliverBy
	s.mail = &ctlfile.Submission{
		From: ctlfile.Address{User: address}, EnvID: xtext(o.EnvelopeID), Ret: string(o.Return),
		RcvdFrom: s.rcvdFrom(), With: s.with(),
	}
	if from == "" {
		s.mail.From = ctlfile.Address{Channel: "error"}
	}
	if o.Body == smtp.Body8BitMIME {
		s.mail.BodyType = string(o.Body)
	}
	return nil
}

// Rcpt adds a recipient.
func (s *session) Rcpt(to string, o *smtp.RcptOptions) error {
	address, err := s.address(to, s.utf8)
	if err != nil {
		return err
	}
	if !s.conn.client.trusted && s.user == "" && !s.conn.config.o.isAccepted(address) {
		s.conn.config.o.Log.Info().Stringer("client", s.conn.client).Str("to", address).Msg("relaying refused")
		return refusal(550, smtp.EnhancedCode{5, 7, 1}, "Relaying is not allowed")
	}
	if check := s.conn.config.o.CheckRecipient; check != nil {
		switch check(address) {
		case UnknownUser:
			return refusal(550, smtp.EnhancedCode{5, 1, 1}, "No such user")
		case NoRoute:
			return refusal(550, smtp.EnhancedCode{5, 1, 2}, "No route to this domain")
		}
	}
	r := &ctlfile.Recipient{Address: ctlfile.Address{User: address}, DSN: dsn(o, s.deliverBy)}
	size := int64(len(address)*2 + len(r.DSN) + recipientSize)
	if s.server.envelopes.Add(size) > maxEnvelopes {
		s.server.envelopes.Add(-size)
		return refusal(452, smtp.EnhancedCode{4, 5, 3}, "Too many recipients at this time")
	}
	s.envelope += size
	s.mail.To = append(s.mail.To, r)
	return nil
}

// address checks an address from which go-smtp has removed the quotes, and quotes its
// local part again if that is necessary.
func (s *session) address(address string, utf8 bool) (string, error) {
	at := strings.LastIndexByte(address, '@')
	if at < 0 {
		return "", refusal(553, smtp.EnhancedCode{5, 1, 3}, "The address has no domain")
	}
	local, domain := address[:at], address[at+1:]
	if strings.ContainsAny(local, " \"\\,@()<>[]:;\t") || strings.HasPrefix(local, ".") ||
		strings.HasSuffix(local, ".") || strings.Contains(local, "..") {
		local = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(local) + `"`
	}
	address = local + "@" + domain
	ascii := strings.IndexFunc(address, func(r rune) bool { return r >= 0x80 }) < 0
	switch {
	case !ascii && !utf8:
		return "", refusal(553, smtp.EnhancedCode{5, 6, 7}, "The address needs SMTPUTF8")
	case len(address) > 1000 || !ctlfile.PlainAddress(address):
		return "", refusal(553, smtp.EnhancedCode{5, 1, 3}, "The address is not one mailbox")
	}
	return address, nil
}

// Data receives a message. It always returns an error, which go-smtp sends as the
// reply, even if that is 250.
func (s *session) Data(r io.Reader) error {
	s.mu.Lock()
	mail := s.mail
	s.mu.Unlock()
	if mail == nil {
		return smtp.ErrDataReset
	}
	log := s.conn.config.o.Log.With().Str("client", mail.RcvdFrom).Str("from", mail.From.User).Logger()
	m, size, err := s.receive(mail, r)
	if err == nil {
		if err = s.server.queue.commit(m); err == nil {
			log.Info().Str("file", m.name).Int("recipients", len(mail.To)).Int64("size", size).
				Str("with", mail.With).Str("user", s.user).Msg("accepted")
			return refusal(250, smtp.EnhancedCode{2, 0, 0}, "OK: queued as "+m.name)
		}
	}
	var known *smtp.SMTPError
	switch {
	case errors.As(err, &known):
	case errors.Is(err, ctlfile.ErrHeader):
		known = &smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 6, 0}, Message: "The header is too long or has a NUL"}
	case errors.Is(err, errBareNewline):
		s.conn.ended.Store(true) // go-smtp still sends the reply
		known = &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 5, 2}, Message: "A message may not have a bare CR or LF"}
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		known = errFull
	case errors.Is(err, os.ErrDeadlineExceeded):
		known = &smtp.SMTPError{Code: 421, EnhancedCode: smtp.EnhancedCode{4, 4, 2}, Message: "Timeout"}
	default:
		known = &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "The message could not be stored"}
	}
	log.Info().AnErr("error", err).Int("code", known.Code).Msg("message refused")
	return known
}

// receive writes the envelope and the message into a new file.
func (s *session) receive(mail *ctlfile.Submission, r io.Reader) (*incoming, int64, error) {
	envelope, err := mail.Envelope()
	if err != nil {
		return nil, 0, err
	}
	m, err := s.server.queue.create()
	if err != nil {
		return nil, 0, err
	}
	_, _ = m.w.Write(envelope) // m.w keeps the error
	t := &textWriter{w: m.w}
	buf := make([]byte, 8<<10)
	var size, checked int64
	for err == nil {
		var n int
		n, err = r.Read(buf)
		size += int64(n)
		if e := t.write(buf[:n]); e != nil {
			err = e
		}
		if err == nil && size-checked >= checkEvery {
			checked, err = size, s.conn.config.flow.admit(0)
		}
	}
	if err == io.EOF {
		err = t.end()
	}
	if err == nil {
		err = m.checkHeader(int64(len(envelope)))
	}
	if err != nil {
		s.server.queue.discard(m)
		return nil, 0, err
	}
	return m, size, nil
}

// textWriter writes a message with LF as the line end, as in the queue.
type textWriter struct {
	w interface {
		io.Writer
		io.ByteWriter
	}
	cr   bool // the last byte was a CR, which was not written
	line int  // bytes of the incomplete line
}

func (t *textWriter) write(p []byte) error {
	for len(p) > 0 {
		line, rest, complete := bytes.Cut(p, []byte("\n"))
		switch cr := bytes.IndexByte(line, '\r'); {
		case t.cr && (!complete || len(line) > 0), // a CR before something else
			cr >= 0 && cr != len(line)-1,
			complete && cr < 0 && !t.cr: // an LF after something else
			return errBareNewline
		case cr >= 0:
			line, t.cr = line[:cr], !complete
		default:
			t.cr = false
		}
		if t.line += len(line); t.line > maxTextLine {
			return refusal(552, smtp.EnhancedCode{5, 6, 0}, "A line of the message is too long")
		}
		if _, err := t.w.Write(line); err != nil {
			return err
		}
		if complete {
			if err := t.w.WriteByte('\n'); err != nil {
				return err
			}
			t.line = 0
		}
		p = rest
	}
	return nil
}

// end completes the last line.
func (t *textWriter) end() error {
	if t.cr {
		return errBareNewline
	}
	if t.line > 0 {
		return t.w.WriteByte('\n')
	}
	return nil
}

// rcvdFrom returns the client as the Received field names it.
func (s *session) rcvdFrom() string {
	var b strings.Builder
	for _, r := range s.helo.Hostname() {
		known := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if (known || r == '[' || b.Len() > 0 && strings.ContainsRune("-._:]", r)) && b.Len() < 255 {
			b.WriteRune(r)
		}
	}
	if b.Len() == 0 {
		b.WriteString("unknown")
	}
	switch addr := s.conn.client.addr; {
	case !addr.IsValid():
		b.WriteString(" (local")
	case addr.Is4():
		b.WriteString(" ([" + addr.String() + "]")
	default:
		b.WriteString(" ([IPv6:" + addr.String() + "]")
	}
	if state := s.conn.tls(); state != nil {
		b.WriteString(" " + tls.VersionName(state.Version) + " " + tls.CipherSuiteName(state.CipherSuite))
	}
	return b.String() + ")"
}

// with returns the name of the protocol (RFC 3848, RFC 6531).
func (s *session) with() string {
	word := "SMTP"
	switch {
	case s.conn.lmtp:
		word = "LMTP"
	case s.conn.greeted != "HELO":
		word = "ESMTP"
	}
	if s.conn.tls() != nil {
		word += "S"
	}
	if s.user != "" {
		word += "A"
	}
	return word
}

// dsn returns the value of a recipient's N line. deliverBy is the value of its BY
// word, or "".
func dsn(o *smtp.RcptOptions, deliverBy string) string {
	var words []string
	if len(o.Notify) > 0 {
		values := make([]string, len(o.Notify))
		for i, v := range o.Notify {
			values[i] = string(v)
		}
		words = append(words, "NOTIFY="+strings.Join(values, ","))
	}
	if o.OriginalRecipient != "" {
		encode := xtext
		if o.OriginalRecipientType == smtp.DSNAddressTypeUTF8 {
			encode = utf8Xtext
		}
		words = append(words, "ORCPT="+strings.ToLower(string(o.OriginalRecipientType))+";"+encode(o.OriginalRecipient))
	}
	if deliverBy != "" {
		words = append(words, "BY="+deliverBy)
	}
	return strings.Join(words, " ")
}

// xtext encodes a value (RFC 3461 section 4).
func xtext(s string) string {
	return encode(s, func(r rune) string { return fmt.Sprintf("+%02X", r) })
}

// utf8Xtext encodes an address (RFC 6533 section 3).
func utf8Xtext(s string) string {
	return encode(s, func(r rune) string { return fmt.Sprintf(`\x{%02X}`, r) })
}

func encode(s string, escaped func(rune) string) string {
	var b strings.Builder
	for _, r := range s {
		if r > ' ' && r < 0x7f && r != '+' && r != '=' && r != '\\' {
			b.WriteRune(r)
		} else {
			b.WriteString(escaped(r))
		}
	}
	return b.String()
}

// pause waits for a time, or until the server stops.
func (s *Server) pause(d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-s.stopped:
	}
}
