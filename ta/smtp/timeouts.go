// This file holds the timeouts (option -T).

package smtp

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Timeouts say how long each step may take (RFC 5321 section 4.5.3.2). Each comment
// begins with the name in option -T.
type Timeouts struct {
	Connect time.Duration // conn: making the connection
	Greet   time.Duration // greet: the greeting
	Command time.Duration // cmd: the reply to EHLO, STARTTLS, AUTH, MAIL, RCPT, RSET
	Mail    time.Duration // mail: the reply to MAIL; 0: Command
	Rcpt    time.Duration // rcpt: the reply to RCPT; 0: Command
	Data    time.Duration // data: the reply to DATA
	Write   time.Duration // tcpw: each write
	Dot     time.Duration // dot: the reply to the message
}

// DefaultTimeouts returns ZMailer's timeouts. None is shorter than the RFC
// recommends.
func DefaultTimeouts() Timeouts {
	return Timeouts{
		Connect: 3 * time.Minute, Greet: 5 * time.Minute, Command: 5 * time.Minute,
		Data: 2 * time.Minute, Write: 5 * time.Minute, Dot: 20 * time.Minute,
	}
}

// Set changes the timeouts that a list such as "conn=3m,dot=20m" names. A number
// without a unit is in seconds.
func (t *Timeouts) Set(list string) error {
	names := map[string]*time.Duration{
		"conn": &t.Connect, "greet": &t.Greet, "cmd": &t.Command, "mail": &t.Mail,
		"rcpt": &t.Rcpt, "data": &t.Data, "tcpw": &t.Write, "dot": &t.Dot,
	}
	for word := range strings.SplitSeq(list, ",") {
		name, value, _ := strings.Cut(word, "=")
		timeout := names[strings.ToLower(strings.TrimSpace(name))]
		if timeout == nil {
			return fmt.Errorf("timeout %q is not one of conn, greet, cmd, mail, rcpt, data, tcpw, dot", word)
		}
		if value = strings.TrimSpace(value); strings.Trim(value, "0123456789") == "" {
			value += "s"
		}
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			return fmt.Errorf("timeout %q is not a time such as 3m", word)
		}
		*timeout = d
	}
	return nil
}

func (t *Timeouts) mail() time.Duration { return cmp.Or(t.Mail, t.Command) }

func (t *Timeouts) rcpt() time.Duration { return cmp.Or(t.Rcpt, t.Command) }
