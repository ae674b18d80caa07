package smtptest

// A session with the peer, by its script.

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// session is one connection to a Peer.
type session struct {
	p      *Peer
	nc     net.Conn
	r      *bufio.Reader
	w      *bufio.Writer
	number int
	tls    bool
	user   string

	now Message // the one that is being sent
}

var errEnd = errors.New("end of session")

func newSession(p *Peer, nc net.Conn, number int) *session {
	s := &session{p: p, nc: nc, number: number}
	s.attach(nc)
	return s
}

func (s *session) attach(nc net.Conn) {
	s.nc, s.r, s.w = nc, bufio.NewReaderSize(nc, 2048), bufio.NewWriterSize(nc, 1024)
}

func (s *session) serve() {
	_, err := s.act("connect", "220 peer.example ESMTP ready")
	for err == nil {
		var line string
		if line, err = s.r.ReadString('\n'); err == nil {
			line = strings.TrimRight(line, "\r\n")
			s.p.mu.Lock()
			s.p.note(line)
			s.p.mu.Unlock()
			err = s.command(line)
		}
	}
	_ = s.w.Flush()
}

// act does what the script says for a command or a point, or else sends the usual
// reply. It returns the code of the reply.
func (s *session) act(at, usual string) (code int, err error) {
	answered := false
	for step := range strings.SplitSeq(s.p.rule(at), "; ") {
		answer, err := s.step(step)
		if err != nil {
			return 0, err
		}
		if answer != "" {
			answered = true
			if code, err = s.say(answer); err != nil {
				return 0, err
			}
		}
	}
	if answered || usual == "" {
		return code, nil
	}
	return s.say(usual)
}

// step does one step of a rule. If the step is a reply, it is returned.
func (s *session) step(step string) (answer string, err error) {
	word, rest, _ := strings.Cut(step, " ")
	switch word {
	case "":
	case "drop":
		return "", errEnd
	case "reset":
		if tcp, ok := s.nc.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = s.nc.Close()
		return "", errEnd
	case "stall":
		_ = s.w.Flush()
		_, _ = io.Copy(io.Discard, s.r)
		return "", errEnd
	case "wait":
		d, err := time.ParseDuration(rest)
		if err != nil {
			return "", err
		}
		_ = s.w.Flush()
		select {
		case <-time.After(d):
		case <-s.p.closing:
		}
	case "hold":
		_ = s.w.Flush()
		select {
		case <-s.p.released:
		case <-s.p.closing:
		}
	case "deaf":
		_ = s.w.Flush()
		<-s.p.closing
		return "", errEnd
	case "garbage":
		_ = s.w.Flush()
		if _, err := s.r.ReadByte(); err != nil {
			return "", err
		}
		_, _ = s.w.WriteString("\x00\xffwhat is this\r\n")
		return "", errEnd
	case "discard":
		_, _ = s.r.Discard(s.r.Buffered())
	default:
		return step, nil
	}
	return "", nil
}

// say sends a reply. Replies are buffered while there are commands to read.
func (s *session) say(answer string) (code int, err error) {
	code, _ = strconv.Atoi(answer[:min(3, len(answer))])
	lines := strings.Split(answer, "\n")
	if strings.Contains(answer, "\r\n") {
		lines = []string{answer}
	}
	for i, line := range lines {
		if i < len(lines)-1 && len(line) > 3 {
			line = line[:3] + "-" + line[4:]
		}
		_, _ = s.w.WriteString(line + "\r\n")
	}
	if s.r.Buffered() == 0 {
		err = s.w.Flush()
	}
	return code, err
}

func (s *session) command(line string) error {
	verb, rest, _ := strings.Cut(line, " ")
	switch strings.ToUpper(verb) {
	case "EHLO", "LHLO":
		_, err := s.act(line, s.offers())
		return err
	case "MAIL":
		code, err := s.act(line, "250 2.1.0 sender ok")
		if code/100 == 2 {
			s.now = Message{Conn: s.number, Mail: line, From: path(rest), TLS: s.tls, User: s.user}
		}
		return err
	case "RCPT":
		if s.now.Mail == "" {
			_, err := s.act(line, "503 5.5.1 no sender")
			return err
		}
		code, err := s.act(line, "250 2.1.5 recipient ok")
		if code/100 == 2 {
			s.now.Rcpts, s.now.Recipients = append(s.now.Rcpts, line), append(s.now.Recipients, path(rest))
		}
		return err
	case "DATA":
		return s.data(line)
	case "STARTTLS":
		return s.startTLS(line)
	case "AUTH":
		return s.auth(line)
	case "RSET":
		s.now = Message{}
	case "QUIT":
		_, _ = s.act(line, "221 2.0.0 bye")
		return errEnd
	case "HELO", "NOOP":
	default:
		_, err := s.act(line, "500 5.5.2 unknown command")
		return err
	}
	_, err := s.act(line, "250 2.0.0 ok")
	return err
}

// path returns the address in the first angle brackets.
func path(s string) string {
	_, rest, _ := strings.Cut(s, "<")
	address, _, _ := strings.Cut(rest, ">")
	return address
}

func (s *session) offers() string {
	offers := s.p.options.Offers
	if offers == nil {
		offers = []string{"PIPELINING", "SIZE 50000000", "8BITMIME", "SMTPUTF8", "DSN", "ENHANCEDSTATUSCODES"}
		if s.p.options.TLS != nil && !s.tls {
			offers = append(offers, "STARTTLS")
		}
		if s.p.options.User != "" {
			offers = append(offers, "AUTH PLAIN LOGIN")
		}
	}
	return "250 " + strings.Join(append([]string{"peer.example"}, offers...), "\n250 ")
}

func (s *session) startTLS(line string) error {
	usual := "220 2.0.0 go ahead"
	if s.p.options.TLS == nil {
		usual = "502 5.5.1 no TLS here"
	}
	code, err := s.act(line, usual)
	if err != nil || code != 220 {
		return err
	}
	if s.p.options.TLS == nil {
		return errEnd
	}
	if err := s.w.Flush(); err != nil {
		return err
	}
	server := tls.Server(s.nc, s.p.options.TLS)
	if err := server.Handshake(); err != nil {
		return err
	}
	s.attach(server)
	s.tls, s.now = true, Message{}
	return nil
}

func (s *session) data(line string) error {
	usual := "354 go ahead"
	if len(s.now.Recipients) == 0 {
		usual = "503 5.5.1 no recipients"
	}
	code, err := s.act(line, usual)
	if err != nil || code != 354 {
		return err
	}
	var text strings.Builder
	for n := 0; ; n++ {
		line, err := s.r.ReadString('\n')
		if err != nil {
			return err
		}
		if line == ".\r\n" {
			break
		}
		text.WriteString(strings.TrimPrefix(line, "."))
		if n == 0 {
			if _, err := s.act("body", ""); err != nil {
				return err
			}
		}
	}
	s.now.Data = text.String()
	return s.finalReply()
}

// finalReply records a message and replies to it.
func (s *session) finalReply() error {
	s.p.mu.Lock()
	at := len(s.p.messages)
	s.p.messages = append(s.p.messages, s.now)
	s.p.changed.Broadcast()
	s.p.mu.Unlock()
	points := []string{"dot"}
	if s.p.options.LMTP {
		points = nil
		for _, to := range s.now.Recipients {
			points = append(points, "dot <"+to+">")
		}
	}
	s.now = Message{}
	for _, m := range points {
		code, err := s.act(m, "250 2.6.0 message accepted")
		if err != nil {
			return err
		}
		if code/100 == 2 {
			s.p.mu.Lock()
			s.p.messages[at].Answered = true
			s.p.mu.Unlock()
		}
	}
	return nil
}

// auth does AUTH with PLAIN or LOGIN.
func (s *session) auth(line string) error {
	words := strings.Fields(line)
	var user, password string
	switch {
	case len(words) == 3 && strings.EqualFold(words[1], "PLAIN"):
		text, _ := base64.StdEncoding.DecodeString(words[2])
		if parts := strings.Split(string(text), "\x00"); len(parts) == 3 {
			user, password = parts[1], parts[2]
		}
	case len(words) >= 2 && strings.EqualFold(words[1], "LOGIN"):
		for i, to := range []*string{&user, &password} {
			if i == 0 && len(words) == 3 {
				text, _ := base64.StdEncoding.DecodeString(words[2])
				user = string(text)
				continue
			}
			if _, err := s.say("334 " + base64.StdEncoding.EncodeToString([]byte([]string{"Username:", "Password:"}[i]))); err != nil {
				return err
			}
			answer, err := s.r.ReadString('\n')
			if err != nil {
				return err
			}
			text, _ := base64.StdEncoding.DecodeString(strings.TrimSpace(answer))
			*to = string(text)
		}
	}
	usual := "535 5.7.8 who are you"
	if user == s.p.options.User && password == s.p.options.Password && user != "" {
		usual = "235 2.7.0 welcome"
	}
	code, err := s.act("AUTH", usual)
	if code == 235 {
		s.user = user
	}
	return err
}
