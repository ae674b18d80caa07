package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"zsched/ctlfile"
)

var (
	arrived = time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	tried   = time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)
	written = time.Date(2026, 11, 22, 8, 5, 0, 0, time.UTC)
)

const header = "From: alice@sender.example\nTo: bob@example.net\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\nMessage-ID: <m1@sender.example>\n"

// plain is a notice of one failure.
func plain() *Notice {
	return &Notice{
		Host: "mx.example.org", To: []string{"alice@sender.example"}, Sender: "alice@sender.example",
		EnvelopeID: "QQ314159", SpoolID: "S258367AbTCLWiT", ArrivedAt: arrived, WrittenAt: written,
		Recipients: []Recipient{{
			Address: "bob@example.net", Original: "rfc822;Bob+2BOrig@orig.example", Action: Failed,
			Status: "5.1.1 (no such user)", Diagnostic: "smtp; 550 5.1.1 no such user",
			Remote: "dns; mx.example.net (192.0.2.1)", LastAttempt: tried,
			Text: "\r<<- RCPT To:<bob@example.net>\r->> 550-5.1.1 no\r->> 550 5.1.1 no such user",
		}},
		Header: header, Body: []byte("body without a line end"), Full: true,
	}
}

func TestNoticeHasTheFieldsOfRFC3464(t *testing.T) {
	p := parse(t, plain())
	fields(t, p.Header, map[string]string{
		"From": "Mail Delivery System <MAILER-DAEMON@mx.example.org>", "To": "<alice@sender.example>",
		"Subject": "Delivery report about your message [FAILED(1)]", "Date": "Sun, 22 Nov 2026 08:05:00 +0000",
		"Auto-Submitted": "auto-replied", "In-Reply-To": "<m1@sender.example>", "References": "<m1@sender.example>",
		"Mime-Version": "1.0",
	})
	fields(t, p.message, map[string]string{
		"Reporting-Mta": "dns; mx.example.org", "Original-Envelope-Id": "QQ314159",
		"Arrival-Date": "Fri, 20 Nov 2026 08:00:00 +0000", "X-Spool-Id": "S258367AbTCLWiT",
	})
	if len(p.groups) != 1 {
		t.Fatalf("%d groups", len(p.groups))
	}
	fields(t, p.groups[0], map[string]string{
		"Original-Recipient": "rfc822; Bob+Orig@orig.example", "Final-Recipient": "rfc822; bob@example.net",
		"Action": "failed", "Status": "5.1.1", "Remote-Mta": "dns; mx.example.net (192.0.2.1)",
		"Diagnostic-Code": "smtp; 550 5.1.1 no such user", "Last-Attempt-Date": "Sun, 22 Nov 2026 08:00:00 +0000",
		"Will-Retry-Until": "",
	})
	if !strings.HasPrefix(p.parts[1], "Reporting-MTA") && !strings.HasPrefix(p.parts[1], "Original-Envelope-Id") {
		t.Errorf("order of the fields: %q", p.parts[1])
	}
}

func TestActionAndStatusFitEachOther(t *testing.T) {
	for _, c := range []struct {
		action       Action
		given        string
		word, status string
	}{
		{Failed, "5.1.1 (no such user)", "failed", "5.1.1"},
		{Failed, "", "failed", "5.0.0"},
		{Failed, "2.0.0", "failed", "5.0.0"},
		{Failed, "4.4.7", "failed", "4.4.7"},
		{Failed, "no code", "failed", "5.0.0"},
		{Failed, "5.1.1234", "failed", "5.0.0"},
		{Delayed, "4.2.2", "delayed", "4.2.2"},
		{Delayed, "5.4.1", "delayed", "4.4.1"},
		{Delayed, "", "delayed", "4.4.7"},
		{Delivered, "2.1.5", "delivered", "2.1.5"},
		{Delivered, "", "delivered", "2.0.0"},
		{Relayed, "5.0.0", "relayed", "2.0.0"},
		{Expanded, "", "expanded", "2.0.0"},
	} {
		n := plain()
		n.Recipients[0].Action, n.Recipients[0].Status = c.action, c.given
		n.Recipients[0].RetryUntil = written
		p := parse(t, n)
		until := ""
		if c.action == Delayed {
			until = "Sun, 22 Nov 2026 08:05:00 +0000"
		}
		fields(t, p.groups[0], map[string]string{"Action": c.word, "Status": c.status, "Will-Retry-Until": until})
		if n := len(p.groups[0]["Action"]); n != 1 {
			t.Errorf("%d Action fields", n)
		}
	}
}

func TestTextSaysWhatBecameOfWhom(t *testing.T) {
	n := plain()
	n.Recipients = append(n.Recipients, Recipient{
		Address: "carol@example.com", Action: Delayed, RetryUntil: written, Text: "\rexpired soon\r<<- DATA\r->> 451 busy",
	}, Recipient{Address: "dave", Action: Delivered, Text: "all of a transcript"})
	p := parse(t, n)
	const want = `This is the mail system at mx.example.org.
It reports on a message that came with your address as its sender.

  Subject:    Grüße
  Message-ID: <m1@sender.example>
  Arrived:    Fri, 20 Nov 2026 08:00:00 +0000
  Queue name: S258367AbTCLWiT

Your message could not be delivered to the following, and there will be
no further attempt:

  <bob@example.net>
    You addressed it to <Bob+Orig@orig.example>.
    What the mail server mx.example.net (192.0.2.1) said:
      550-5.1.1 no
      550 5.1.1 no such user

Your message has not been delivered to the following yet. Attempts go
on, and you need not send it again:

  <carol@example.com>
    The reason:
      expired soon
      451 busy
    Attempts go on until Sun, 22 Nov 2026 08:05:00 +0000.

Your message was delivered to:

  <dave>

A report for programs and your message follow.
`
	if p.parts[0] != want {
		t.Errorf("text:\n%s\nwant:\n%s", p.parts[0], want)
	}
	if got := p.Header.Get("Subject"); !strings.HasSuffix(got, " [FAILED(1),DELAYED(1),DELIVERED-OK(1)]") {
		t.Errorf("Subject %q", got)
	}
	fields(t, p.groups[2], map[string]string{"Final-Recipient": "x-local; dave", "Original-Recipient": ""})
}

func TestTextOfManyRecipientsIsBounded(t *testing.T) {
	n := plain()
	for range 1000 {
		n.Recipients = append(n.Recipients, n.Recipients[0])
	}
	n.Recipients = append(n.Recipients, Recipient{Address: "last@example.net", Action: Delayed})
	p := parse(t, n)
	if strings.Count(p.parts[0], "<bob@example.net>") != 100 || !strings.Contains(p.parts[0], "There are 901 more addresses") ||
		!strings.Contains(p.parts[0], "<last@example.net>") || len(p.groups) != 1002 {
		t.Errorf("%d groups, text of %d bytes", len(p.groups), len(p.parts[0]))
	}
}

func TestExpirySaysWhatTheLastProblemWas(t *testing.T) {
	n := plain()
	n.Recipients[0].Status = "4.2.2"
	n.Recipients[0].Text = "\rexpired after 3 days, problem was:\r<<- MAIL From:<a@b>\r->> 250 ok\r<<- RCPT To:<bob@example.net>\r->> 451-4.2.2 busy\r->> 451 4.2.2 later"
	p := parse(t, n)
	const want = "    The reason, from the last attempt at mx.example.net (192.0.2.1):\n" +
		"      expired after 3 days, problem was:\n      451-4.2.2 busy\n      451 4.2.2 later\n"
	if !strings.Contains(p.parts[0], want) {
		t.Errorf("text %s", p.parts[0])
	}
	fields(t, p.groups[0], map[string]string{"Action": "failed", "Status": "4.2.2"})
}

func TestWholeMessageOrItsHeaderIsReturned(t *testing.T) {
	n := plain()
	p := parse(t, n)
	if p.kinds[2] != "message/rfc822" || p.parts[2] != header+"\nbody without a line end" {
		t.Errorf("%s: %q", p.kinds[2], p.parts[2])
	}
	n.Full, n.TooLarge = false, true
	p = parse(t, n)
	if p.kinds[2] != "text/rfc822-headers" || p.parts[2] != header || !strings.Contains(p.parts[0], "too large") {
		t.Errorf("%s: %q\n%s", p.kinds[2], p.parts[2], p.parts[0])
	}
}

// The old program wrote no line end before the last boundary where the body had
// none, so that the boundary was part of the body.
func TestLastBoundaryStandsOnALineOfItsOwn(t *testing.T) {
	c, err := Compose(plain())
	if err != nil {
		t.Fatal(err)
	}
	_, boundary, _ := strings.Cut(c.Header, `boundary="`)
	boundary, _, _ = strings.Cut(boundary, `"`)
	if !bytes.HasSuffix(c.Body, []byte("body without a line end\n--"+boundary+"--\n")) {
		t.Errorf("end of the notice: %q", c.Body[len(c.Body)-100:])
	}
	n := plain()
	n.Body = []byte("--" + boundary + "\n")
	if p := parse(t, n); p.boundary == boundary || p.parts[2] != header+"\n--"+boundary+"\n" {
		t.Errorf("boundary %q in the body: %q", boundary, p.parts[2])
	}
}

func TestEightBitMailIsReturnedAsItIs(t *testing.T) {
	n := plain()
	n.Body = []byte("Gr\xfc\xdfe\n") // Latin-1
	p := parse(t, n)
	if p.Header.Get("Content-Transfer-Encoding") != "8bit" || p.kinds[2] != "message/rfc822" || !strings.HasSuffix(p.parts[2], "Gr\xfc\xdfe\n") {
		t.Errorf("%s, %s: %q", p.Header.Get("Content-Transfer-Encoding"), p.kinds[2], p.parts[2])
	}
	n.Body = []byte("x\n")
	if p := parse(t, n); p.Header.Get("Content-Transfer-Encoding") != "" {
		t.Error("a notice in ASCII says 8bit")
	}
}

func TestUTF8AddressesFollowRFC6533(t *testing.T) {
	n := plain()
	n.Recipients[0].Address = "jürgen+x@bücher.example"
	n.Recipients[0].Original = `utf-8;j\x{FC}rgen@b+C3+BCcher.example`
	t.Run("to an address in ASCII", func(t *testing.T) {
		p := parse(t, n)
		fields(t, p.groups[0], map[string]string{
			"Final-Recipient":    `utf-8; j\x{FC}rgen\x{2B}x@b\x{FC}cher.example`,
			"Original-Recipient": `utf-8; j\x{FC}rgen@b\x{FC}cher.example`,
		})
		if p.kinds[1] != "message/delivery-status" || !isASCII(p.parts[1]) || !strings.Contains(p.parts[0], "<jürgen+x@bücher.example>") {
			t.Errorf("%q\n%s", p.kinds, p.parts[0])
		}
	})
	t.Run("to an address in UTF-8", func(t *testing.T) {
		n.To, n.Sender = []string{"älice@sender.example"}, "älice@sender.example"
		n.Header = "Subject: Grüße\n"
		p := parse(t, n)
		fields(t, p.Header, map[string]string{"To": "<älice@sender.example>", "Content-Transfer-Encoding": "8bit"})
		if got := strings.Join(p.kinds, " "); got != "text/plain message/delivery-status message/global" || !isASCII(p.parts[1]) {
			t.Error(got)
		}
		n.Full = false
		if p := parse(t, n); p.kinds[2] != "message/global-headers" {
			t.Error(p.kinds[2])
		}
	})
}

func TestWhatARemoteServerSaysCannotBreakTheNotice(t *testing.T) {
	n := plain()
	r := &n.Recipients[0]
	r.Address = "bob\nAction: delivered\n\n@example.net"
	r.Diagnostic = "smtp; 550 \x1b[31mred\r\n\r\n" + strings.Repeat("x", 70000) + "\xff\u202e"
	r.Remote = "no type\x00"
	r.Text = strings.Repeat("->> 550 \x07\u202eline\xff "+strings.Repeat("y", 3000)+"\r", 500)
	n.EnvelopeID, n.Host = "a\nb", "mx\n.example"
	n.Header = "no field\n" + strings.Repeat("z", 2000) + ": x\n"
	p := parse(t, n)
	if len(p.groups) != 1 || len(p.groups[0]["Action"]) != 1 {
		t.Errorf("groups %v", p.groups)
	}
	for _, part := range p.parts[:2] {
		for line := range strings.SplitSeq(part, "\n") {
			if len(line) > 998 || strings.ContainsAny(line, "\x00\x07\x1b\r\u202e") {
				t.Errorf("line of %d bytes: %.80q", len(line), line)
			}
		}
	}
	if len(p.parts[0]) > 20000 {
		t.Errorf("text of %d bytes", len(p.parts[0]))
	}
}

func TestFormSetsTheTextAndTheHeader(t *testing.T) {
	n := plain()
	n.Form = ParseForm("HDR From: The Post Office <postmaster@example.org>\nADR Cc: Copies <copies@example.org>\n" +
		"SUB Subject: Über your mail\nHDR Content-Type: text/html\nHDR Subject: no\nnonsense\n\nLieber Nützer,\n\nsorry.\n")
	p := parse(t, n)
	fields(t, p.Header, map[string]string{
		"From": "The Post Office <postmaster@example.org>", "Cc": "Copies <copies@example.org>",
		"Subject": "=?utf-8?q?=C3=9Cber_your_mail_[FAILED(1)]?=",
	})
	if !strings.HasPrefix(p.parts[0], "Lieber Nützer,\n\nsorry.\n\n  Subject:") || len(p.Header["Subject"]) != 1 {
		t.Errorf("text %q", p.parts[0])
	}
	if len(n.Form.Copies) != 1 || n.Form.Copies[0] != "copies@example.org" {
		t.Errorf("copies %q", n.Form.Copies)
	}
	n.Sender = ""
	if p := parse(t, n); p.Header.Get("To") != "dummy:;" || !strings.Contains(p.Header.Get("Subject"), "Double-fault") {
		t.Errorf("double fault: %v", p.Header)
	}
}

// controlFile is one with d lines: an expired recipient, a line that names
// nobody, two lines about one recipient, a notary of three fields and one of five.
const controlFile = "@ 0x00000007\ni 258367\no 4\ns smtp mx alice@sender.example 0\n" +
	"r           smtp example.net bob@example.net 0\nN NOTIFY=SUCCESS,FAILURE,DELAY ORCPT=rfc822;Bob+40Orig\nR HDRS\nn QQ+2B1\n" +
	"r           local - carol 501\n" +
	"m\nSubject: x\n\n"

func parseControl(t *testing.T, lines ...string) *ctlfile.File {
	t.Helper()
	f, err := ctlfile.Parse([]byte(controlFile + strings.Join(lines, "")))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func all(f *ctlfile.File) (lines []int) {
	for i := range f.Diagnostics {
		lines = append(lines, i)
	}
	return lines
}

func TestNotaryOfThreeToSixFields(t *testing.T) {
	for _, c := range []struct {
		notary string
		want   Recipient
	}{
		{"bob@x\x01failed\x01smtp; 550 no", Recipient{Address: "bob@x", Action: Failed, Diagnostic: "smtp; 550 no"}},
		{"bob@x\x01failed\x015.1.1\x01smtp; 550 no", Recipient{Address: "bob@x", Action: Failed, Status: "5.1.1", Diagnostic: "smtp; 550 no"}},
		{"\x03\x01failed\x015.4.7\x01smtp; 500\x01", Recipient{Address: "bob@example.net", Action: Failed, Status: "5.4.7", Diagnostic: "smtp; 500"}},
		{"<bob@x>\x01relayed\x012.0.0\x01smtp; 250\x01dns; mx\x01smtp[7]", Recipient{Address: "bob@x", Action: Relayed, Status: "2.0.0", Diagnostic: "smtp; 250", Remote: "dns; mx"}},
		{"", Recipient{Address: "bob@example.net", Action: Failed}},
		{"bob@x", Recipient{Address: "bob@x", Action: Failed}},
	} {
		f := parseControl(t, "d 59:200:106::1795000000\t"+c.notary+"\tsaid\n")
		got := Recipients(f, all(f))
		c.want.Offset, c.want.Original, c.want.Text, c.want.LastAttempt = 59, "rfc822;Bob+40Orig", "said", time.Unix(1795000000, 0)
		if len(got) != 1 || got[0] != c.want {
			t.Errorf("%q: %+v", c.notary, got)
		}
	}
}

func TestSecondLineAboutARecipientHasItsORCPTToo(t *testing.T) {
	delayed := "d 59:200:106::1\tbob@example.net\x01delayed\x014.2.0\x01\x01\tlater\n"
	failed := "d 59:200:106::2\tbob@example.net\x01failed\x015.0.0\x01\x01\tnever\n"
	other := "d 100000:200:106::2\tzoe@example.net\x01failed\x015.0.0\x01\x01\tnever\n"
	f := parseControl(t, delayed, failed, delayed, other, other)
	got := Recipients(f, all(f))
	if len(got) != 3 || got[0].Action != Failed || got[0].Text != "never" || got[0].Original != "rfc822;Bob+40Orig" || got[1].Address != "zoe@example.net" {
		t.Errorf("%+v", got)
	}
}
