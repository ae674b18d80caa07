package soak

// Mail comes in: over SMTP and from sendmail.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net"
	"net/textproto"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"
)

// backlog limits the mail in the queue, so that the load is steady.
type backlog struct{ files atomic.Int64 }

const maxBacklog = 1000

func (b *backlog) watch(ctx context.Context, s *site) {
	for pause(ctx, 250*time.Millisecond) {
		b.files.Store(int64(len(s.files("transport")) + len(s.files("router"))))
	}
}

// admit waits until there is room for another message. It reports whether ctx has not
// ended.
func (b *backlog) admit(ctx context.Context) bool {
	for b.files.Load() > maxBacklog {
		if !pause(ctx, 50*time.Millisecond) {
			return false
		}
	}
	return ctx.Err() == nil
}

// newSubmission makes up a message.
func (s *site) newSubmission() *submission {
	m := &submission{expects: map[string]fate{}}
	me := s.users[0] + "@" + here
	switch rand.IntN(12) {
	case 0:
		m.to = []string{"box@" + here}
		m.expects[me] = delivers
	case 1, 2:
		m.to = []string{[]string{"pair@", "list@"}[rand.IntN(2)] + here}
		m.expects[me], m.expects["friend@"+takes], m.expects["other@"+unmarked] = delivers, delivers, delivers
		s.ledger.add(m)
		return m
	default:
		for range 1 + rand.IntN(1+rand.IntN(8)) {
			address, fate := s.recipient()
			if _, have := m.expects[address]; !have {
				m.to = append(m.to, address)
			}
			m.expects[address] = fate
		}
	}
	m.notify = []string{"", "", "FAILURE", "NEVER", "SUCCESS,FAILURE"}[rand.IntN(5)]
	for address, fate := range m.expects {
		if m.notify == "NEVER" && fate != delivers && !strings.HasPrefix(address, "refused") {
			m.notify = "" // otherwise nothing would show that the recipient has failed
		}
	}
	s.ledger.add(m)
	return m
}

// recipient returns a random address and what has to become of it.
func (s *site) recipient() (string, fate) {
	n := rand.IntN(1000)
	switch rand.IntN(20) {
	case 0:
		return fmt.Sprintf("refused%d@%s", rand.Int(), takes), fails
	case 1:
		return fmt.Sprintf("refused%d@%s", rand.Int(), unmarked), fails
	case 2:
		return "nobody-has-this-name@" + here, fails
	case 3:
		return fmt.Sprintf("someone%d@%s", n, down), expires
	case 4:
		return fmt.Sprintf("expires%d@%s", n, slow), expires
	case 5, 6, 7:
		return fmt.Sprintf("deferred%d@%s", n, []string{takes, unmarked}[n%2]), delivers
	case 8, 9, 10, 11:
		return s.users[rand.IntN(len(s.users))] + "@" + here, delivers
	}
	return fmt.Sprintf("someone%d@%s", n, []string{takes, unmarked}[n%2]), delivers
}

// text returns the message, with its number and the checksum of its body in the header.
func (m *submission) text(sender string) []byte {
	var body strings.Builder
	lines := 1 + rand.IntN(40)
	if rand.IntN(50) == 0 {
		lines = 3000
	}
	for i := range lines {
		body.WriteString([]string{".", "..", "From me ", "", "> "}[rand.IntN(5)])
		fmt.Fprintf(&body, "line %d of message %d%s\n", i, m.number, strings.Repeat(" x", rand.IntN(30)))
	}
	return fmt.Appendf(nil, "From: %s\nTo: somebody\nSubject: message %d\nX-Soak: %d %08x\n\n%s",
		sender, m.number, m.number, crc32.ChecksumIEEE([]byte(body.String())), body.String())
}

// submitOverSMTP sends messages in sessions of up to 50 messages each.
func (s *site) submitOverSMTP(ctx context.Context) {
	for s.backlog.admit(ctx) {
		nc, err := net.DialTimeout("tcp", s.smtpAddress, time.Second)
		if err != nil {
			pause(ctx, 50*time.Millisecond) // the server has been killed
			continue
		}
		_ = nc.SetDeadline(time.Now().Add(time.Minute))
		c := &client{textproto.NewConn(nc)}
		err = c.say(220, "")
		if err == nil {
			err = c.say(250, "EHLO client.example")
		}
		for left := 1 + rand.IntN(50); err == nil && left > 0 && s.backlog.admit(ctx); left-- {
			err = s.send(c)
		}
		if err != nil {
			s.faults.count("SMTP session that the server's death ended")
		}
		_ = c.Close()
	}
}

type client struct{ *textproto.Conn }

// say sends a command, unless it is empty, and reads the reply.
func (c *client) say(want int, format string, args ...any) error {
	if format != "" {
		if err := c.PrintfLine(format, args...); err != nil {
			return err
		}
	}
	_, _, err := c.ReadResponse(want)
	return err
}

// send sends one message.
func (s *site) send(c *client) error {
	m := s.newSubmission()
	told := false
	defer func() { s.ledger.accept(m, told) }()
	sender := s.users[0] + "@" + here
	ret := []string{"", " RET=HDRS", " RET=FULL"}[rand.IntN(3)]
	err := c.say(250, "MAIL FROM:<%s>%s", sender, ret)
	for _, to := range m.to {
		notify := ""
		if m.notify != "" {
			notify = " NOTIFY=" + m.notify
		}
		if err == nil {
			err = c.say(250, "RCPT TO:<%s>%s", to, notify)
		}
	}
	if err == nil {
		err = c.say(354, "DATA")
	}
	if err != nil {
		return err
	}
	if rand.IntN(100) == 0 {
		_ = c.PrintfLine("From: half a message")
		s.faults.count("SMTP client that left in the middle of a message")
		return c.Close()
	}
	w := c.DotWriter()
	if _, err := w.Write(m.text(sender)); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	err = c.say(250, "")
	told = err == nil
	return err
}

// submitWithSendmail runs sendmail, and kills it now and then.
func (s *site) submitWithSendmail(ctx context.Context) {
	for s.backlog.admit(ctx) && pause(ctx, 20*time.Millisecond) {
		m := s.newSubmission()
		cmd, out := s.sendmail(m)
		if err := cmd.Start(); err != nil {
			s.t.Errorf("sendmail: %v", err)
			return
		}
		killed := rand.IntN(20) == 0
		if killed {
			time.Sleep(rand.N(20 * time.Millisecond))
			_ = cmd.Process.Kill()
			s.faults.count("SIGKILL of sendmail")
		}
		err := cmd.Wait()
		s.ledger.accept(m, err == nil)
		if err != nil && !killed {
			s.t.Errorf("sendmail: %v: %s", err, out.Bytes())
		}
	}
}

// sendmail is a command that submits a message.
func (s *site) sendmail(m *submission) (cmd *exec.Cmd, out *bytes.Buffer) {
	sender := s.users[0] + "@" + here
	args := []string{"-Z", s.dir + "/zmailer.conf", "-i", "-f", sender}
	if m.notify != "" {
		args = append(args, "-N", strings.ToLower(m.notify))
	}
	cmd, out = s.command("sendmail", append(args, m.to...)...), new(bytes.Buffer)
	cmd.Stdin = bytes.NewReader(m.text(sender))
	cmd.Stdout, cmd.Stderr = out, out
	return cmd, out
}

// submitOne submits a message before the load begins: the first over SMTP, the others
// with sendmail.
func (s *site) submitOne(number int) error {
	if number > 0 {
		m := s.newSubmission()
		cmd, out := s.sendmail(m)
		err := cmd.Run()
		s.ledger.accept(m, err == nil)
		if err != nil {
			return fmt.Errorf("sendmail: %w: %s", err, out.Bytes())
		}
		return nil
	}
	nc, err := net.DialTimeout("tcp", s.smtpAddress, time.Second)
	if err != nil {
		return err
	}
	defer nc.Close()
	c := &client{textproto.NewConn(nc)}
	if err := errors.Join(c.say(220, ""), c.say(250, "EHLO client.example")); err != nil {
		return err
	}
	return s.send(c)
}
