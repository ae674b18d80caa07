package smtp

import (
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"zsched/internal/text"
	"zsched/ta/smtp/smtptest"
)

// script reads rules, one a line: "on -> do". NUL is a line end within a reply.
func script(text string) (rules []smtptest.Rule) {
	for line := range strings.Lines(text) {
		if on, do, ok := strings.Cut(strings.TrimSpace(line), " -> "); ok {
			rules = append(rules, smtptest.Rule{On: on, Do: strings.ReplaceAll(do, "\x00", "\n")})
		}
	}
	return rules
}

// What a server does at each point, and what is reported of bob and of eve.
func TestReplies(t *testing.T) {
	for _, c := range []struct {
		name, script string
		bob, eve     string // "" for eve: the same word and text as bob
		d            string // diagnostics
		dots         int    // messages that the peer got whole
	}{
		// Connect and greeting: the destination does not work. One deferall
		// reports all recipients.
		{name: "dropped at once", script: "connect -> drop",
			bob: "deferall 4.4.2 greeting: peer closed the connection", eve: "-"},
		{name: "greeting 421", script: "connect -> 421 4.3.2 busy",
			bob: "deferall 4.4.1 ->> 421 4.3.2 busy", eve: "-"},
		{name: "greeting 554", script: "connect -> 554 5.3.2 no SMTP service here",
			bob: "deferall 4.4.1 ->> 554 5.3.2 no SMTP service here", eve: "-"},
		{name: "no SMTP", script: "connect -> SSH-2.0-OpenSSH",
			bob: `deferall 4.4.2 greeting: peer does not speak SMTP: "SSH-2.0-OpenSSH"`, eve: "-"},
		{name: "hello 421", script: "EHLO -> 421 4.3.2 busy",
			bob: "deferall 4.4.1 ->> 421 4.3.2 busy", eve: "-"},
		{name: "neither hello", script: "EHLO -> 502 5.5.1 what\nHELO -> 550 5.7.1 not you",
			bob: "deferall 4.4.1 ->> 550 5.7.1 not you", eve: "-"},
		{name: "dropped at hello", script: "EHLO -> drop",
			bob: "deferall 4.4.2 EHLO: peer closed the connection", eve: "-"},

		{name: "HELO only", script: "EHLO -> 502 5.5.1 what", bob: "ok3 ->> 250 2.6.0 message accepted", dots: 1},

		// The envelope.
		{name: "MAIL 451", script: "MAIL -> 451 4.7.1 greylisted", bob: "deferred 4.7.1 ->> 451 4.7.1 greylisted"},
		{name: "MAIL 550", script: "MAIL -> 550 5.7.1 not from you", bob: "error2 ->> 550 5.7.1 not from you",
			d: "failed 5.7.1 smtp; 550 (not from you)"},
		{name: "MAIL 421", script: "MAIL -> 421 4.4.2 timeout; drop", bob: "deferred 4.4.0 ->> 421 4.4.2 timeout"},
		{name: "MAIL without sense", script: "MAIL -> 354 what", bob: "deferred 4.5.0 ->> 354 what"},
		{name: "dropped at MAIL", script: "MAIL -> drop", bob: "deferred 4.4.0 ->> (peer closed the connection)"},
		{name: "reset at MAIL", script: "MAIL -> reset", bob: "deferred 4.4.0 ->> (connection reset by peer)"},
		{name: "RCPT 450 without status", script: "RCPT -> 450 later", bob: "deferred 4.2.0 ->> 450 later"},
		{name: "RCPT 550 without status", script: "RCPT -> 550 never", bob: "error2 ->> 550 never", d: "failed 5.2.0 smtp; 550 (never)"},
		{name: "status of another class", script: "RCPT -> 550 4.2.2 never", bob: "error2 ->> 550 4.2.2 never",
			d: "failed 5.2.0 smtp; 550 (4.2.2 never)"},
		{name: "one is refused", script: "RCPT To:<bob -> 550 5.1.1 no bob", bob: "error2 ->> 550 5.1.1 no bob",
			eve: "ok3 ->> 250 2.6.0 message accepted", d: "failed 5.1.1 smtp; 550 (no bob)", dots: 1},
		{name: "one is postponed", script: "RCPT To:<eve -> 450 4.2.1 eve later", bob: "ok3 ->> 250 2.6.0 message accepted",
			eve: "deferred 4.2.1 ->> 450 4.2.1 eve later", dots: 1},
		{name: "another hop is down", script: "RCPT To:<eve -> 450 4.4.1 no answer from host", bob: "ok3 ->> 250 2.6.0 message accepted",
			eve: "deferred 4.4.0 ->> 450 4.4.1 no answer from host", dots: 1},
		{name: "421 at the second RCPT", script: "RCPT To:<eve -> 421 4.3.2 going; drop", bob: "deferred 4.3.2 ->> 421 4.3.2 going"},
		{name: "dropped at RCPT", script: "RCPT To:<eve -> drop", bob: "deferred 4.4.0 ->> (peer closed the connection)"},

		// The message.
		{name: "DATA 451", script: "DATA -> 451 4.3.0 disk", bob: "deferback 4.3.0 ->> 451 4.3.0 disk"},
		{name: "DATA 554", script: "DATA -> 554 5.5.1 no", bob: "error2 ->> 554 5.5.1 no", d: "failed 5.5.1 smtp; 554 (no)"},
		{name: "DATA 250", script: "DATA -> 250 2.0.0 what", bob: "deferback 4.5.0 ->> 250 2.0.0 what"},
		{name: "dropped at DATA", script: "DATA -> drop", bob: "deferback 4.4.0 ->> (peer closed the connection)"},
		{name: "dropped within", script: "body -> drop", bob: "deferback 4.4.0 ->> (peer closed the connection)"},
		{name: "dot 452", script: "dot -> 452 4.3.1 full", bob: "deferback 4.3.1 ->> 452 4.3.1 full", dots: 1},
		{name: "dot 552", script: "dot -> 552 5.3.4 too big", bob: "error2 ->> 552 5.3.4 too big",
			d: "failed 5.3.4 smtp; 552 (too big)", dots: 1},
		{name: "dot 421", script: "dot -> 421 4.3.2 going; drop", bob: "deferback 4.3.2 ->> 421 4.3.2 going", dots: 1},
		{name: "dropped at the dot", script: "dot -> drop", bob: "deferback 4.4.0 ->> (peer closed the connection)", dots: 1},
		{name: "reset at the dot", script: "dot -> reset", bob: "deferback 4.4.0 ->> (connection reset by peer)", dots: 1},
		{name: "accepted, then dropped", script: "dot -> 250 2.6.0 mine; drop", bob: "ok3 ->> 250 2.6.0 mine", dots: 1},
		{name: "many lines", script: `dot -> 550 5.7.1 no` + "\x00" + `550 5.7.1 really`, bob: "error2 ->> 550 5.7.1 really",
			d: "failed 5.7.1 smtp; 550 (no really)", dots: 1},
	} {
		// Without extensions, and with pipelining.
		for _, offers := range [][]string{{}, {"PIPELINING"}} {
			rules := script(c.script)
			p := start(t, smtptest.Options{Offers: offers, Rules: rules})
			o := newTestSpool(t)
			o.message(1, to("bob@a.example", "eve@a.example"), header, "text\n")
			said := o.brief(o.once(options(p)))
			want := "bob " + c.bob + "\n"
			switch c.eve {
			case "":
				want += "eve " + c.bob + "\n"
			case "-":
			default:
				want += "eve " + c.eve + "\n"
			}
			if said != want && said != swapped(want) {
				t.Errorf("%s, %q: says\n%s, want\n%s", c.name, offers, said, want)
			}
			if d := strings.ReplaceAll(o.diagnostics(1), "bob@a.example ", ""); d != c.d && d != c.d+"\neve@a.example "+c.d {
				t.Errorf("%s, %q: diagnostics %q, want %q", c.name, offers, d, c.d)
			}
			if _, _, total := p.Connections(); len(p.Messages()) != c.dots || total != 1 {
				t.Errorf("%s, %q: %d messages in %d connections", c.name, offers, len(p.Messages()), total)
			}
		}
	}
}

// swapped exchanges two lines: a refused recipient is reported before an accepted
// one.
func swapped(s string) string {
	first, second, _ := strings.Cut(s, "\n")
	return second + first + "\n"
}

// If the connection ends after the final dot, the recipients stay in the queue, and
// the job does not send the message again, although another exchanger would accept it.
func TestNothingIsSentTwiceAfterTheDot(t *testing.T) {
	for _, lost := range []string{"drop", "reset", "wait 10ms; drop", "421 4.3.2 going; drop"} {
		for _, offers := range [][]string{{}, {"PIPELINING"}} {
			p := start(t, smtptest.Options{Offers: offers, Rules: []smtptest.Rule{{On: "dot", Do: lost, Times: 1}}})
			o := newTestSpool(t)
			o.message(1, to("bob@a.example"), header, "text\n")
			opts := options(p)
			opts.Resolver = names{"mx a.example": "10 one.example, 20 two.example", "a one.example": "127.0.0.1", "a two.example": "127.0.0.2"}
			a := New(opts)
			if said := o.brief(o.feed(a, "1")); !strings.HasPrefix(said, "bob deferback 4.") || strings.Contains(said, " 4.4.1") || strings.Contains(said, " 4.4.2") {
				t.Errorf("%s: %s", lost, said)
			}
			if n := len(p.Messages()); n != 1 {
				t.Errorf("%s: sent %d times", lost, n)
			}
			// The scheduler's next attempt sends it.
			if said := o.brief(o.feed(a, "1")); said != "bob ok3 ->> 250 2.6.0 message accepted\n" {
				t.Errorf("%s: then %s", lost, said)
			}
			a.Close()
		}
	}
}

// An acceptance is reported before anything else can fail, and the recipient is not
// sent the message again with the rest of its transaction.
func TestAcceptedIsNeverSentAgain(t *testing.T) {
	p := start(t, smtptest.Options{LMTP: true, Rules: []smtptest.Rule{{On: "dot <eve", Do: "drop"}}, Address: filepath.Join(t.TempDir(), "lmtp")})
	o := newTestSpool(t)
	o.message(1, to("bob@a.example", "eve@a.example", "ann@a.example"), header, "text\n")
	opts := options(p)
	opts.LMTP = true
	a := New(opts)
	defer a.Close()
	want := "bob ok3 ->> 250 2.6.0 message accepted\n" +
		"eve deferback 4.4.0 ->> (peer closed the connection)\nann deferback 4.4.0 ->> (peer closed the connection)\n"
	if said := o.brief(o.feed(a, "1")); said != want {
		t.Errorf("%s, want\n%s", said, want)
	}
	o.feed(a, "1")
	if m := p.Messages(); len(m) != 2 || strings.Join(m[1].Recipients, " ") != "eve@a.example ann@a.example" {
		t.Errorf("then %+v", m)
	}
}

// DATA is pipelined with the envelope. A server that then wants the message although
// all recipients were refused gets a dot.
func TestDataIsPipelined(t *testing.T) {
	p := start(t, smtptest.Options{Offers: []string{"PIPELINING"}, Rules: script(`RCPT To:<bob -> 550 5.1.1 no bob
		RCPT To:<ann -> wait 10ms; 450 4.2.1 ann later`)})
	o := newTestSpool(t)
	o.message(1, to("bob@a.example"), header, "text\n")
	o.message(2, to("ann@a.example"), header, "text\n")
	o.message(3, to("eve@a.example"), header, "text\n")
	a := New(options(p))
	defer a.Close()
	want := "bob error2 ->> 550 5.1.1 no bob\nann deferred 4.2.1 ->> 450 4.2.1 ann later\neve ok3 ->> 250 2.6.0 message accepted\n"
	if said := o.brief(o.feed(a, "1", "2", "3")); said != want {
		t.Errorf("%s, want\n%s", said, want)
	}
	p = start(t, smtptest.Options{Offers: []string{"PIPELINING"}, Rules: script(`RCPT To:<bob -> 550 5.1.1 no bob
		MAIL From:<ann -> 550 5.7.1 not ann
		DATA -> 354 go ahead`)})
	o.message(1, to("bob@a.example"), header, "text\n")
	o.message(2, "s smtp x ann@a.example 0\n"+to("ann@a.example"), header, "text\n")
	o.message(3, to("eve@a.example"), header, "text\n")
	b := New(options(p))
	defer b.Close()
	want = "bob error2 ->> 550 5.1.1 no bob\nann error2 ->> 550 5.7.1 not ann\neve ok3 ->> 250 2.6.0 message accepted\n"
	if said := o.brief(o.feed(b, "1", "2", "3")); said != want {
		t.Errorf("%s, want\n%s", said, want)
	}
	if m := p.Messages(); len(m) != 3 || m[0].Data != "" || m[1].Data != "" || strings.Join(m[2].Recipients, " ") != "eve@a.example" {
		t.Errorf("the peer has %+v", m)
	}
	if _, _, total := p.Connections(); total != 1 {
		t.Errorf("%d connections", total)
	}
}

// The report of a long reply lacks its middle.
func TestLongAnswer(t *testing.T) {
	p := start(t, smtptest.Options{Rules: script("MAIL -> 550 5.7.1 " + strings.Repeat("no", 900) + strings.Repeat("\x00550 5.7.1 "+strings.Repeat("no", 900), 60) + "\x00550 5.7.1 never")})
	o := newTestSpool(t)
	o.message(1, to("bob@a.example"), header, "text\n")
	said := o.once(options(p))
	if len(said) > maxText+200 || !strings.HasPrefix(said, "1/85\t\terror2 \r<<- MAIL") || !strings.HasSuffix(said, "\r->> 550 5.7.1 never\n") {
		t.Errorf("%d bytes: %.100q ... %q", len(said), said, said[max(len(said)-100, 0):])
	}
	if n := len(o.control(1)); n > 2*maxText {
		t.Errorf("the control file has %d bytes", n)
	}
}

// What is kept of long replies is bounded when they are read, not only when they are
// reported.
func TestTranscriptsAreClippedWhenRead(t *testing.T) {
	long := strings.Repeat("250-"+strings.Repeat("x", 2000)+"\r\n", 100) + "250 the end\r\n"
	near, far := net.Pipe()
	go func() { _, _ = io.WriteString(far, long); _ = far.Close() }()
	defer func() { _ = near.Close() }()
	r, err := newWire(near, time.Minute, func(string, string) {}).reply(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for _, line := range r.Lines {
		size += len(line)
	}
	if size > maxText || len(r.Lines[0]) < 2000 || r.Lines[1] != "250-..." || r.Lines[len(r.Lines)-1] != "250 the end" {
		t.Errorf("%d bytes in %d lines are kept", size, len(r.Lines))
	}
	if n := len(exchange(strings.Repeat("RCPT", 1000), r)); n > maxText+len("\r...\r") {
		t.Errorf("the transcript of a command has %d bytes", n)
	}
	var opening transcript
	for range 1000 {
		opening.add(theirs, r.Lines[0])
	}
	if n := len(opening.String()); n > 2*maxText+maxReplyLine {
		t.Errorf("the transcript of the opening has %d bytes", n)
	}
}

// No text ends or begins within a character, whatever its length.
func TestTextsAreCutBetweenCharacters(t *testing.T) {
	for pad := range 3 {
		long := strings.Repeat("x", pad) + strings.Repeat("€", maxText)
		r := newReply(550, []string{"550 " + long})
		for name, cut := range map[string]string{"diagnostic": r.diagnostic(), "report": text.CutMiddle(long, maxText)} {
			if !utf8.ValidString(cut) {
				t.Errorf("the %s is not UTF-8: %.40q ... %q", name, cut, cut[len(cut)-20:])
			}
		}
	}
}

// What could change the look of a terminal, or the order or end of a line, is
// escaped in reports, diagnostics and the protocol log.
func TestTextsOfServersAreEscaped(t *testing.T) {
	const evil = "\x1b[31m C1 \u009b31m \x9b31m bidi \u202e\u2066 line \u2028\u2029\u0085 é\tü"
	const want = `^[[31m C1 \u009b31m \x9b31m bidi \u202e\u2066 line \u2028\u2029\u0085 é` + "\tü"
	p := start(t, smtptest.Options{Rules: script("RCPT -> 550 5.1.1 " + evil)})
	o := newTestSpool(t)
	o.message(1, to("bob@a.example"), header, "text\n")
	opts := options(p)
	var log strings.Builder
	opts.Log = func(l LogLine) { log.WriteString(l.Text + "\n") }
	said := o.once(opts)
	for name, text := range map[string]string{"report": said, "protocol log": log.String(), "control file": o.control(1)} {
		if !strings.Contains(strings.ReplaceAll(text, " ü", "\tü"), want) || strings.ContainsAny(text, "\x1b\u202e\u2066\u2028\u2029\u0085\u009b") {
			t.Errorf("%s: %q", name, text)
		}
	}
}

func TestLMTPAnswersForEachRecipient(t *testing.T) {
	for _, offers := range [][]string{{}, {"PIPELINING"}} {
		p := start(t, smtptest.Options{LMTP: true, Offers: offers, Rules: script(`RCPT To:<nobody -> 550 5.1.1 nobody
			dot <full -> 452 4.2.2 full
			dot <never -> 550 5.7.1 never`)})
		o := newTestSpool(t)
		o.message(1, to("bob@a.example", "nobody@a.example", "full@a.example", "never@a.example", "ann@a.example")+
			"N NOTIFY=SUCCESS\n", header, "text\n")
		opts := options(p)
		opts.LMTP = true
		want := "nobody error2 ->> 550 5.1.1 nobody\nbob ok3 ->> 250 2.6.0 message accepted\nfull deferback 4.2.2 ->> 452 4.2.2 full\n" +
			"never error2 ->> 550 5.7.1 never\nann ok2 ->> 250 2.6.0 message accepted\n"
		if said := o.brief(o.once(opts)); said != want {
			t.Errorf("%q: %s, want\n%s", offers, said, want)
		}
		if d := o.diagnostics(1); !strings.Contains(d, "ann@a.example delivered 2.6.0") {
			t.Errorf("diagnostics %s", d)
		}
		if c := commands(p); !strings.Contains(c, "LHLO mta.example\n") || strings.Contains(c, "EHLO") {
			t.Errorf("commands %s", c)
		}
	}
}
