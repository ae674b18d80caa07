package smtp

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"zsched/ta/smtp/smtptest"
)

// Sessions of ZMailer's agent that were captured, byte for byte. It sent
// BODY=8BITMIME with every message.
func TestReportsAreThoseOfTheOldAgent(t *testing.T) {
	old := smtptest.Options{
		Offers: []string{"8BITMIME", "SIZE", "DSN", "ENHANCEDSTATUSCODES"},
		Rules: []smtptest.Rule{
			{On: "RCPT To:<perm1", Do: "550 5.1.1 no such user here"},
			{On: "RCPT To:<temp1", Do: "451 4.2.2 mailbox busy try later"},
			{On: "dot", Do: "554 5.7.1 message content rejected", Times: 1},
			{On: "dot", Do: "250 2.6.0 message accepted id=1795233811291"},
		},
	}
	p := start(t, old)
	o := newTestSpool(t)
	for i, user := range []string{"dataperm", "perm1", "temp1", "u1"} {
		o.message(i+1, "s smtp sender.example alice@sender.example 0\nr           smtp one.example "+user+"@one.example 0\n"+
			"N NOTIFY=FAILURE ORCPT=rfc822;"+user+"@one.example\n", header, "text\xff\n")
	}
	opts := options(p)
	opts.Resolver = names{"a one.example": "127.0.0.1"}
	a := New(opts)
	defer a.Close()
	said := o.feed(a, "1\tone.example", "2\tone.example", "3\tone.example", "4\tone.example")
	const mail = "\r<<- MAIL From:<alice@sender.example> BODY=8BITMIME SIZE=49\r->> 250 2.1.0 sender ok"
	const data = "\r<<- DATA\r->> 354 go ahead\r<<- ."
	rcpt := func(user string) string {
		return "\r<<- RCPT To:<" + user + "@one.example> NOTIFY=FAILURE ORCPT=rfc822;" + user + "@one.example"
	}
	want := "1/85\t\terror2 " + mail + rcpt("dataperm") + "\r->> 250 2.1.5 recipient ok" + data + "\r->> 554 5.7.1 message content rejected\n" +
		"2/85\t\terror2 " + mail + rcpt("perm1") + "\r->> 550 5.1.1 no such user here\n" +
		"3/85\ttemp1@one.example\x01delayed\x014.2.2\x01smtp; 451 (mailbox busy try later)\x01dns; one.example (127.0.0.1)\x01smtp[" + fmt.Sprint(os.Getpid()) + "]\tdeferred " +
		mail + rcpt("temp1") + "\r->> 451 4.2.2 mailbox busy try later\n" +
		"4/85\t\tok3 " + mail + rcpt("u1") + "\r->> 250 2.1.5 recipient ok" + data + "\r->> 250 2.6.0 message accepted id=1795233811291\n"
	if said != want {
		t.Errorf("says\n%q, want\n%q", said, want)
	}
	if got := o.diagnostics(1) + "\n" + o.diagnostics(2); got !=
		"dataperm@one.example failed 5.7.1 smtp; 554 (message content rejected)\n"+
			"perm1@one.example failed 5.1.1 smtp; 550 (no such user here)" {
		t.Errorf("diagnostics\n%s", got)
	}
	if _, _, total := p.Connections(); total != 1 {
		t.Errorf("%d connections for one host", total)
	}
}

func TestMessageOnTheWire(t *testing.T) {
	const short = "one\n.two\n..\n.\nthree\r\nfour\rfive\r\r\n\n\xe9 six"
	const shortSent = "From: alice@sender.example\r\nSubject: hello\r\n\r\none\r\n.two\r\n..\r\n.\r\nthree\r\nfour\r\nfive\r\n\r\n\r\n\xe9 six\r\n"
	long := strings.Repeat(".line of a long message\r\n", 1600)
	for _, offers := range [][]string{nil, {"8BITMIME"}, {"PIPELINING", "8BITMIME", "SIZE"}} {
		for body, want := range map[string]string{short: shortSent, long + short: strings.Replace(shortSent, "\r\n\r\n", "\r\n\r\n"+long, 1)} {
			p := start(t, smtptest.Options{Offers: offers})
			o := newTestSpool(t)
			o.message(1, to("bob@a.example", "eve@a.example"), header, body)
			if said := o.brief(o.once(options(p))); strings.Count(said, " ok3 ->> 250 2.6.0") != 2 {
				t.Errorf("%q: %s", offers, said)
			}
			size := fmt.Sprintf(" SIZE=%d", len(header)+1+len(body)) // without the CRs that are added
			if m := p.Messages(); len(m) != 1 || m[0].Data != want || len(m[0].Recipients) != 2 || m[0].From != "alice@sender.example" {
				t.Errorf("%q: %+v", offers, m)
			} else if (offers == nil || slices.Contains(offers, "SIZE")) != strings.Contains(m[0].Mail, size) {
				t.Errorf("%q: %s", offers, m[0].Mail)
			}
		}
	}
}
