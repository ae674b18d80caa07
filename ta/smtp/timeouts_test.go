package smtp

import (
	"strings"
	"testing"
	"time"

	"zsched/ta/smtp/smtptest"
)

// A server that sends nothing costs no more than the timeout.
func TestTimeouts(t *testing.T) {
	const moment = 50 * time.Millisecond
	for _, c := range []struct {
		at, said string
		set      func(*Timeouts)
	}{
		{"connect", "deferall 4.4.2 greeting: timed out", func(l *Timeouts) { l.Greet = moment }},
		{"EHLO", "deferall 4.4.2 EHLO: timed out", func(l *Timeouts) { l.Command = moment }},
		{"MAIL", "deferred 4.4.0 ->> (timed out)", func(l *Timeouts) { l.Mail = moment }},
		{"RCPT", "deferred 4.4.0 ->> (timed out)", func(l *Timeouts) { l.Rcpt = moment }},
		{"DATA", "deferback 4.4.0 ->> (timed out)", func(l *Timeouts) { l.Data = moment }},
		{"dot", "deferback 4.4.0 ->> (timed out)", func(l *Timeouts) { l.Dot = moment }},
	} {
		p := start(t, smtptest.Options{Offers: []string{}, Rules: []smtptest.Rule{{On: c.at, Do: "stall"}}})
		o := newTestSpool(t)
		o.message(1, to("bob@a.example"), header, "text\n")
		opts := options(p)
		c.set(&opts.Timeouts)
		if said := o.brief(o.once(opts)); said != "bob "+c.said+"\n" {
			t.Errorf("%s: %s", c.at, said)
		}
	}
	// A server that refuses the message while it is sent, and reads no more.
	big := strings.Repeat(strings.Repeat("x", 999)+"\n", 20_000)
	p := start(t, smtptest.Options{Offers: []string{}, Rules: []smtptest.Rule{{On: "body", Do: "552 5.3.4 too big; deaf"}}})
	o := newTestSpool(t)
	o.message(1, to("bob@a.example"), header, big)
	opts := options(p)
	opts.Timeouts.Write = moment
	if said := o.brief(o.once(opts)); said != "bob error2 ->> 552 5.3.4 too big\n" {
		t.Error(said)
	}
	// A server that does not read. What does not fit into the buffers of the sockets
	// waits until the timeout.
	p = start(t, smtptest.Options{Offers: []string{}, Rules: []smtptest.Rule{{On: "body", Do: "deaf"}}})
	o = newTestSpool(t)
	o.message(1, to("bob@a.example"), header, big)
	opts = options(p)
	opts.Timeouts.Write, opts.Timeouts.Dot = moment, moment
	if said := o.brief(o.once(opts)); said != "bob deferback 4.4.0 ->> (timed out)\n" {
		t.Error(said)
	}
}

func TestSetTimeouts(t *testing.T) {
	l := DefaultTimeouts()
	if err := l.Set("conn=1m,CMD=30, dot=1h,tcpw=5s,data=2m30s,greet=7s"); err != nil {
		t.Fatal(err)
	}
	want := Timeouts{Connect: time.Minute, Greet: 7 * time.Second, Command: 30 * time.Second, Data: 150 * time.Second, Write: 5 * time.Second, Dot: time.Hour}
	if l != want || l.mail() != 30*time.Second || l.rcpt() != 30*time.Second {
		t.Errorf("%+v", l)
	}
	if err := l.Set("mail=1s,rcpt=2s"); err != nil || l.mail() != time.Second || l.rcpt() != 2*time.Second {
		t.Errorf("%+v %v", l, err)
	}
	for _, wrong := range []string{"", "conn", "conn=", "conn=x", "conn=0", "conn=-1s", "what=1m", "conn=1m,"} {
		if err := l.Set(wrong); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}
