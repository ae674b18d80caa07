package smtp

import (
	"fmt"
	"strings"
	"time"
)

// Timeouts are how long each step may take (RFC 5321 section 4.5.3.2).
type Timeouts struct {
	Connect time.Duration // conn: until the connection is there
	Greet   time.Duration // greet: the greeting
	Command time.Duration // cmd: EHLO, STARTTLS, AUTH, MAIL, RCPT, RSET
	Mail    time.Duration // mail: MAIL; 0 is Command
	Rcpt    time.Duration // rcpt: RCPT; 0 is Command
	Data    time.Duration // data: the reply to DATA
	Write   time.Duration // tcpw: each block of data written
	Dot     time.Duration // dot: the reply to the message
}

// DefaultTimeouts are ZMailer's; none is below what the RFC asks for.
func DefaultTimeouts() Timeouts {
	return Timeouts{
		Connect: 3 * time.Minute, Greet: 5 * time.Minute, Command: 5 * time.Minute,
		Data: 2 * time.Minute, Write: 5 * time.Minute, Dot: 20 * time.Minute,
	}
}

// Set changes those that a list such as "conn=3m,dot=20m" names. A number
// without unit is seconds.
func (t *Timeouts) Set(list string) error {
	names := map[string]*time.Duration{
		"conn": &t.Connect, "greet": &t.Greet, "cmd": &t.Command, "mail": &t.Mail,
		"rcpt": &t.Rcpt, "data": &t.Data, "tcpw": &t.Write, "dot": &t.Dot,
	}
	for word := range strings.SplitSeq(list, ",") {
		name, value, _ := strings.Cut(word, "=")
		limit := names[strings.ToLower(strings.TrimSpace(name))]
		if limit == nil {
			return fmt.Errorf("time limit %q is none of conn, greet, cmd, mail, rcpt, data, tcpw, dot", word)
		}
		if value = strings.TrimSpace(value); strings.Trim(value, "0123456789") == "" {
			value += "s"
		}
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			return fmt.Errorf("time limit %q is not a time such as 3m", word)
		}
		*limit = d
	}
	return nil
}

func (t *Timeouts) mail() time.Duration {
	if t.Mail > 0 {
		return t.Mail
	}
	return t.Command
}

func (t *Timeouts) rcpt() time.Duration {
	if t.Rcpt > 0 {
		return t.Rcpt
	}
	return t.Command
}
