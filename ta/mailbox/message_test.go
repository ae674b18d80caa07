package mailbox

import (
	"bufio"
	"bytes"
	"strings"
	"testing"
)

// delivery makes an mbox of one message and returns it.
func (o testSpool) delivery(options Options, m testMessage) string {
	o.t.Helper()
	m.rcpts = []string{"bob 0"}
	o.delivered(o.agent(options), m)
	return o.read("spool/bob")
}

func TestLetterHasItsTrace(t *testing.T) {
	for _, c := range []struct{ sender, dsn, want string }{
		{"alice@example.net", "", "From alice@example.net Sat Nov 21 12:00:00 2026\n" +
			"Return-Path: <alice@example.net>\nDelivered-To: bob@example.org\nX-Orig-To: bob\n"},
		{"", "", "From MAILER-DAEMON Sat Nov 21 12:00:00 2026\nReturn-Path: <>\n"},
		{`"alice smith"@example.net`, "", `From "alice-smith"@example.net Sat Nov 21 12:00:00 2026` + "\n" +
			`Return-Path: <"alice smith"@example.net>` + "\n"},
		{"a@b", "NOTIFY=NEVER ORCPT=rfc822;Robert+2Bx@example.com INRCPT=rfc822;r", "X-Orig-To: Robert+x@example.com\n"},
		{"a@b", "INRCPT=rfc822;robert+0Aevil:+20x", "X-Orig-To: robert?evil: x\n"},
	} {
		m := mail()
		m.sender, m.dsn = c.sender, c.dsn
		if got := newTestSpool(t).delivery(Options{}, m); !strings.Contains(got, c.want) {
			t.Errorf("%q, %q: got\n%s", c.sender, c.dsn, got)
		}
	}
}

func TestLetterIsTheHeaderAndTheBody(t *testing.T) {
	m := mail()
	m.headers = "Received: by mx\n\tid 1\nReturn-Path: <forged@example.com>\n\t(folded)\nSubject: x\nFrom: \xe4 <a@b>\n"
	m.body = "From me to you\n\nFrom the start\n>From here\nlast line"
	expect(t, newTestSpool(t).delivery(Options{}, m),
		"From alice@example.net Sat Nov 21 12:00:00 2026\n"+
			"Return-Path: <alice@example.net>\nDelivered-To: bob@example.org\nX-Orig-To: bob\n"+
			"Received: by mx\n\tid 1\nSubject: x\nFrom: \xe4 <a@b>\n\n"+
			">From me to you\n\n>From the start\n>From here\nlast line\n\n")
}

func TestLoopIsFound(t *testing.T) {
	for _, headers := range []string{
		"Delivered-To: bob@example.org\n", "Subject: x\ndelivered-to:\n\tBob@Example.ORG\nDelivered-To: else@where\n",
	} {
		o, m := newTestSpool(t), mail("bob 0")
		m.headers = headers
		o.refused(o.agent(Options{}), m, "error2", `5\.4\.6.*delivered to "bob@example.org" before`)
		if names := o.names("spool"); len(names) > 0 {
			t.Errorf("delivered all the same: %q", names)
		}
	}
	for _, headers := range []string{"Delivered-To: bob@example.com\n", "X-Delivered-To: bob@example.org\n", ""} {
		o, m := newTestSpool(t), mail("bob 0")
		m.headers = headers
		o.delivered(o.agent(Options{}), m)
	}
}

// FuzzMboxEntryIsOneMessage: whatever the message is, in an mbox it begins
// with its separator, ends with an empty line and has no other separator.
func FuzzMboxEntryIsOneMessage(f *testing.F) {
	for _, s := range []string{"", "From a\n", "x\nFrom b", "\n\nFrom", strings.Repeat("y", 70000) + "\nFrom c\n", strings.Repeat("From ", 14000)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		l := &message{Separator: []byte("From x y\n"), Header: []byte("A: b\n"), Length: int64(len(body)), file: strings.NewReader(body)}
		var b bytes.Buffer
		w := bufio.NewWriterSize(&b, 16)
		if err := l.writeMbox(w); err != nil {
			t.Fatal(err)
		}
		want := "From x y\nA: b\n\n"
		for line := range strings.Lines(body) {
			if strings.HasPrefix(line, "From ") {
				want += ">"
			}
			want += line
		}
		if !strings.HasSuffix(want, "\n") {
			want += "\n"
		}
		expect(t, b.String(), want+"\n")
		if strings.Count("\n"+b.String(), "\nFrom ") != 1 {
			t.Errorf("more than one separator: %q", b.String())
		}
	})
}
