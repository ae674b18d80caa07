package smtp

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"zsched/ta/smtp/smtptest"
)

// Which extensions are used, and what happens to mail that needs one that is not
// offered: the commands of the envelope, and the reports.
func TestExtensions(t *testing.T) {
	all := []string{"SIZE 1000", "8BITMIME", "SMTPUTF8", "DSN", "DELIVERBY 60", "ENHANCEDSTATUSCODES"}
	const dsn = "N NOTIFY=SUCCESS,DELAY,TRACE ORCPT=rfc822;bob+2Bx@b.example INRCPT=rfc822;x BY=600;RT\nR hdrs\nn env-7\n"
	for _, c := range []struct {
		name    string
		offers  []string
		control string
		header  string
		body    string
		options func(*Options)
		want    string // commands
		said    string
	}{
		{name: "nothing", offers: nil, control: to("bob@a.example"),
			want: "MAIL From:<alice@sender.example>\nRCPT To:<bob@a.example>\nDATA", said: "bob ok3 ->> 250 2.6.0 message accepted"},
		{name: "SIZE", offers: all, control: to("bob@a.example"),
			want: "MAIL From:<alice@sender.example> BODY=8BITMIME SIZE=53\nRCPT To:<bob@a.example>\nDATA", said: "bob ok3 ->> 250 2.6.0 message accepted"},
		{name: "too big", offers: all, control: to("bob@a.example"), body: strings.Repeat("x", 1000) + "\n",
			said: "bob error2 the message has 1044 bytes, but the next host accepts no more than 1000"},
		{name: "SIZE without a number", offers: []string{"SIZE"}, control: to("bob@a.example"), body: strings.Repeat("x", 1000) + "\n",
			want: "MAIL From:<alice@sender.example> SIZE=1044\nRCPT To:<bob@a.example>\nDATA", said: "bob ok3 ->> 250 2.6.0 message accepted"},
		{name: "SIZE with nonsense", offers: []string{"SIZE -5 x", "", "X"}, control: to("bob@a.example"),
			want: "MAIL From:<alice@sender.example> SIZE=53\nRCPT To:<bob@a.example>\nDATA", said: "bob ok3 ->> 250 2.6.0 message accepted"},
		{name: "nobody", offers: nil, control: "s error - alice@sender.example 0\n" + to("bob@a.example"),
			want: "MAIL From:<>\nRCPT To:<bob@a.example>\nDATA", said: "bob ok3 ->> 250 2.6.0 message accepted"},

		// DSN parameters are for servers that offer DSN.
		{name: "DSN", offers: all, control: to("bob@a.example") + dsn,
			want: "MAIL From:<alice@sender.example> BODY=8BITMIME SIZE=53 RET=HDRS ENVID=env-7\n" +
				"RCPT To:<bob@a.example> NOTIFY=SUCCESS,DELAY ORCPT=rfc822;bob+2Bx@b.example\nDATA",
			said: "bob ok3 ->> 250 2.6.0 message accepted"},
		{name: "DSN never", offers: all, control: to("bob@a.example") + "N NOTIFY=NEVER\n",
			want: "MAIL From:<alice@sender.example> BODY=8BITMIME SIZE=53\nRCPT To:<bob@a.example> NOTIFY=NEVER\nDATA",
			said: "bob ok3 ->> 250 2.6.0 message accepted"},
		{name: "no DSN", offers: nil, control: to("bob@a.example") + "N NOTIFY=SUCCESS ORCPT=rfc822;x@y\nR FULL\n",
			want: "MAIL From:<alice@sender.example>\nRCPT To:<bob@a.example>\nDATA", said: "bob ok2 ->> 250 2.6.0 message accepted"},
		{name: "envelopes differ", offers: []string{"DSN"}, control: to("bob@a.example") + "R FULL\n" + to("eve@a.example") + "R HDRS\n",
			want: "MAIL From:<alice@sender.example> RET=FULL\nRCPT To:<bob@a.example>\nDATA\n" +
				"MAIL From:<alice@sender.example> RET=HDRS\nRCPT To:<eve@a.example>\nDATA",
			said: "bob ok3 ->> 250 2.6.0 message accepted\neve ok3 ->> 250 2.6.0 message accepted"},

		{name: "BY is not passed on", offers: all, control: to("bob@a.example") + "N BY=600;R\n",
			want: "MAIL From:<alice@sender.example> BODY=8BITMIME SIZE=53\nRCPT To:<bob@a.example>\nDATA", said: "bob ok3 ->> 250 2.6.0 message accepted"},

		// Addresses that are not ASCII.
		{name: "SMTPUTF8", offers: all, control: to("böb@a.example", "eve@a.example"),
			want: "MAIL From:<alice@sender.example> BODY=8BITMIME SMTPUTF8 SIZE=53\nRCPT To:<böb@a.example>\nDATA\n" +
				"MAIL From:<alice@sender.example> BODY=8BITMIME SIZE=53\nRCPT To:<eve@a.example>\nDATA",
			said: "böb ok3 ->> 250 2.6.0 message accepted\neve ok3 ->> 250 2.6.0 message accepted"},
		{name: "no SMTPUTF8", offers: nil, control: to("böb@a.example", "eve@a.example"),
			want: "MAIL From:<alice@sender.example>\nRCPT To:<eve@a.example>\nDATA",
			said: "böb error2 an address or the header is not ASCII, but the next host accepts only ASCII\neve ok3 ->> 250 2.6.0 message accepted"},
		{name: "sender beyond ASCII", offers: nil, control: "s smtp x ålice@sender.example 0\n" + to("eve@a.example"),
			said: "eve error2 an address or the header is not ASCII, but the next host accepts only ASCII"},

		// Mail that came with SMTPUTF8.
		{name: "came with SMTPUTF8", offers: all, control: "S SMTPUTF8\n" + to("bob@a.example"),
			want: "MAIL From:<alice@sender.example> BODY=8BITMIME SMTPUTF8 SIZE=53\nRCPT To:<bob@a.example>\nDATA",
			said: "bob ok3 ->> 250 2.6.0 message accepted"},
		{name: "goes without", offers: nil, control: "S SMTPUTF8\n" + to("bob@a.example"),
			want: "MAIL From:<alice@sender.example>\nRCPT To:<bob@a.example>\nDATA", said: "bob ok3 ->> 250 2.6.0 message accepted"},
		{name: "header in UTF-8", offers: nil, control: "S SMTPUTF8\n" + to("bob@a.example"), header: "Subject: \u00e9\n",
			said: "bob error2 an address or the header is not ASCII, but the next host accepts only ASCII"},
		{name: "old header of eight bits", offers: nil, control: to("bob@a.example"), header: "Subject: \xe9\n",
			want: "MAIL From:<alice@sender.example>\nRCPT To:<bob@a.example>\nDATA", said: "bob ok3 ->> 250 2.6.0 message accepted"},

		// Addresses that would end their word or their command.
		{name: "quoted", offers: nil, control: to(`"slow\ joe"@a.example`),
			want: "MAIL From:<alice@sender.example>\nRCPT To:<\"slow\\ joe\"@a.example>\nDATA", said: `"slow\ ok3 ->> 250 2.6.0 message accepted`},
		{name: "brackets", offers: nil, control: to("<bob@a.example>"),
			want: "MAIL From:<alice@sender.example>\nRCPT To:<bob@a.example>\nDATA", said: "<bob ok3 ->> 250 2.6.0 message accepted"},
		{name: "smuggled", offers: nil, control: to("bob@a.example>NOTIFY", "eve@a.example"),
			want: "MAIL From:<alice@sender.example>\nRCPT To:<eve@a.example>\nDATA",
			said: "bob error2 the recipient's address cannot be sent\neve ok3 ->> 250 2.6.0 message accepted"},
		{name: "smuggled sender", offers: nil, control: "s smtp x a>SIZE 0\n" + to("eve@a.example"),
			said: "eve error2 the sender's address cannot be sent"},
	} {
		p := start(t, smtptest.Options{Offers: append([]string{}, c.offers...)})
		o := newTestSpool(t)
		o.message(1, c.control, cmpOr(c.header, header), cmpOr(c.body, "text\n"))
		opts := options(p)
		if c.options != nil {
			c.options(&opts)
		}
		if said := strings.TrimSpace(o.brief(o.once(opts))); said != c.said {
			t.Errorf("%s: says %s, want %s", c.name, said, c.said)
		}
		got := commands(p, "(connect)", "EHLO", "QUIT", "RSET")
		if c.want = strings.ReplaceAll(c.want, "SIZE=53", fmt.Sprintf("SIZE=%d", len(header)+len("\ntext\n"))); got != c.want {
			t.Errorf("%s: commands\n%s, want\n%s", c.name, got, c.want)
		}
	}
}

func cmpOr(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// An address of more than 1000 bytes is not sent.
func TestLongAddress(t *testing.T) {
	for _, c := range []struct {
		length int
		want   string
	}{{1000, " ok3 "}, {1001, " error2 the recipient's address cannot be sent"}} {
		long := strings.Repeat("a", c.length-len("@a.example")) + "@a.example"
		p := start(t, smtptest.Options{})
		o := newTestSpool(t)
		o.message(1, to(long, "eve@a.example"), header, "text\n")
		if said := o.brief(o.once(options(p))); !strings.Contains(said, c.want) || !strings.Contains(said, "eve ok3 ") {
			t.Errorf("%d bytes: %.2000s", c.length, said)
		}
		if c.length <= 1000 {
			continue
		}
		if d := o.diagnostics(1); !strings.Contains(d, " failed 5.1.3 ") {
			t.Errorf("diagnostics %.2000s", d)
		}
		if got := commands(p); strings.Contains(got, long) {
			t.Errorf("the server got an address of %d bytes", c.length)
		}
		o.message(1, "s smtp x "+long+" 0\n"+to("eve@a.example"), header, "text\n")
		if said := o.brief(o.once(options(p))); said != "eve error2 the sender's address cannot be sent\n" {
			t.Errorf("a sender of %d bytes: %.2000s", c.length, said)
		}
	}
}

// Messages with eight bits are sent as they are, also to a server without 8BITMIME.
func TestEightBits(t *testing.T) {
	const eightBit = "Subject: Grüße\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n"
	for offers, mail := range map[string]string{"8BITMIME": " BODY=8BITMIME", "SIZE": " SIZE=", "": ">"} {
		p := start(t, smtptest.Options{Offers: strings.Fields(offers)})
		o := newTestSpool(t)
		o.message(1, to("bob@a.example"), eightBit, "Grüße\n")
		if said := o.brief(o.once(options(p))); !strings.HasPrefix(said, "bob ok3 ") {
			t.Errorf("%q: %s", offers, said)
		}
		m := p.Messages()
		want := strings.ReplaceAll(eightBit+"\nGrüße\n", "\n", "\r\n")
		if len(m) != 1 || m[0].Data != want || !strings.Contains(m[0].Mail, mail) || strings.Contains(m[0].Mail, "BODY") != (offers == "8BITMIME") {
			t.Errorf("%q: %+v", offers, m)
		}
	}
}

// A transaction has up to 100 recipients, and fewer if the server accepts fewer.
func TestManyRecipients(t *testing.T) {
	var users []string
	for i := range 250 {
		users = append(users, fmt.Sprintf("u%03d@a.example", i))
	}
	for _, c := range []struct {
		rules []smtptest.Rule
		sizes []int
	}{
		{nil, []int{100, 100, 50}},
		// Ten recipients from u050 on are too many, once.
		{[]smtptest.Rule{{On: "RCPT To:<u05", Do: "452 4.5.3 too many", Times: 10}}, []int{90, 100, 60}},
		{[]smtptest.Rule{{On: "RCPT To:<u24", Do: "552 5.5.3 too many", Times: 10}}, []int{100, 100, 40, 10}},
	} {
		p := start(t, smtptest.Options{Rules: c.rules})
		o := newTestSpool(t)
		o.message(1, to(users...), header, "text\n")
		if said := o.once(options(p)); strings.Count(said, "\tok3 ") != 250 || strings.Count(said, "\n") != 250 {
			t.Errorf("%v: %d reports, %d of them ok3", c.rules, strings.Count(said, "\n"), strings.Count(said, "\tok3 "))
		}
		got := map[string]int{}
		var sizes []int
		for _, m := range p.Messages() {
			sizes = append(sizes, len(m.Recipients))
			for _, r := range m.Recipients {
				got[r]++
			}
		}
		if fmt.Sprint(sizes) != fmt.Sprint(c.sizes) || len(got) != 250 {
			t.Errorf("%v: transactions of %v, want %v; %d recipients", c.rules, sizes, c.sizes, len(got))
		}
		if _, _, total := p.Connections(); total != 1 {
			t.Errorf("%d connections", total)
		}
	}
	// If no recipient was accepted before, 452 is a refusal like others.
	p := start(t, smtptest.Options{Rules: script("RCPT -> 452 4.2.2 full")})
	o := newTestSpool(t)
	o.message(1, to("bob@a.example"), header, "text\n")
	if said := o.brief(o.once(options(p))); said != "bob deferred 4.2.2 ->> 452 4.2.2 full\n" {
		t.Error(said)
	}
}

// Servers that reject what they offer.
func TestServersThatRejectWhatTheyOffer(t *testing.T) {
	for _, c := range []struct {
		name, script string
		offers       []string
		said, then   string // of the first and, if it was deferred, of the next attempt
		got          int
	}{
		{"SIZE", "MAIL From:<alice@sender.example> -> 555 5.5.4 what is SIZE", []string{"SIZE"}, "error2 ->> 555 5.5.4 what is SIZE", "", 0},
		{"PIPELINING", "MAIL -> discard", []string{"PIPELINING"}, "deferred 4.4.0 ->> (timed out)", "deferred 4.4.0 ->> (timed out)", 0},
		{"STARTTLS", "STARTTLS -> 454 4.7.0 no TLS today", []string{"STARTTLS"}, "ok3 ->> 250 2.6.0 message accepted", "", 1},
		{"STARTTLS unknown", "STARTTLS -> 502 5.5.1 what", []string{"STARTTLS"}, "ok3 ->> 250 2.6.0 message accepted", "", 1},
	} {
		p := start(t, smtptest.Options{Offers: c.offers, Rules: script(c.script)})
		o := newTestSpool(t)
		o.message(1, to("bob@a.example")+"N NOTIFY=FAILURE\n", header, "text \xff\n")
		opts := options(p)
		if c.name == "PIPELINING" {
			opts.Timeouts.Rcpt = 50 * time.Millisecond
		}
		a := New(opts)
		if said := o.brief(o.feed(a, "1")); said != "bob "+c.said+"\n" {
			t.Errorf("%s: %s", c.name, said)
		}
		if c.then != "" {
			if said := o.brief(o.feed(a, "1")); said != "bob "+c.then+"\n" {
				t.Errorf("%s, then: %s", c.name, said)
			}
		}
		a.Close()
		if n := len(p.Messages()); n != c.got {
			t.Errorf("%s: %d messages", c.name, n)
		}
	}
}
