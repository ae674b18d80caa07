package smtp

import (
	"strings"
	"testing"

	"zsched/ta/smtp/smtptest"
)

// A message body that has the end of a message and commands behind it, for servers
// that take a bare LF or CR for a line end, stays one message.
func TestBodyCannotSmuggleAMessage(t *testing.T) {
	const second = "MAIL FROM:<evil@e.example>"
	var body string
	for _, end := range []string{"\n.\n", "\n.\r\n", "\r\n.\n", "\r\n.\r\n", "\r.\r", "\r.\r\n", "\r\n.\r", "\n.\r"} {
		body += "x" + end + second + "\r\nRCPT TO:<v@v.example>\r\nDATA\r\n"
	}
	for _, offers := range [][]string{nil, {"PIPELINING", "8BITMIME", "SIZE"}} {
		p := start(t, smtptest.Options{Offers: offers})
		o := newTestSpool(t)
		o.message(1, to("bob@a.example"), header, body)
		o.once(options(p))
		m := p.Messages()
		if len(m) != 1 || strings.Count(m[0].Data, second) != 8 {
			t.Fatalf("%q: %d messages: %+v", offers, len(m), m)
		}
		if bare := strings.ReplaceAll(m[0].Data, "\r\n", ""); strings.ContainsAny(bare, "\r\n") {
			t.Errorf("%q: a bare CR or LF is sent: %q", offers, m[0].Data)
		}
		for _, command := range p.Commands() {
			if strings.Contains(command, "evil") {
				t.Errorf("%q: the peer got the command %q", offers, command)
			}
		}
	}
}

// An endless greeting is neither kept nor read for ever.
func TestLongGreetingIsBounded(t *testing.T) {
	for _, greeting := range []string{"220 " + strings.Repeat("x", 8<<20), "220 x" + strings.Repeat("\nx", 100_000)} {
		p := start(t, smtptest.Options{Rules: []smtptest.Rule{{On: "connect", Do: greeting}}})
		o := newTestSpool(t)
		o.messages(1)
		said := o.brief(o.once(options(p)))
		if !strings.Contains(said, "deferall 4.4.2 greeting:") || len(said) > 10_000 {
			t.Errorf("%.20q: %d bytes are reported: %.200s", greeting, len(said), said)
		}
	}
}

// The log has the beginning of a long reply and its end, so that no server fills the disk.
func TestLongRepliesDoNotFillTheLog(t *testing.T) {
	long := strings.Repeat("450-"+strings.Repeat("z", 2000)+"\n", 100) + "450 4.2.1 the end"
	p := start(t, smtptest.Options{Rules: []smtptest.Rule{{On: "RCPT", Do: long}}})
	o := newTestSpool(t)
	o.messages(1)
	opts := options(p)
	var log strings.Builder
	opts.Log = func(l LogLine) { log.WriteString(l.Text + "\n") }
	o.once(opts)
	if log.Len() > 4000 || !strings.Contains(log.String(), "\n...\n") || !strings.Contains(log.String(), "the end\n") {
		t.Errorf("%d bytes are logged: %.4000s", log.Len(), &log)
	}
}
