package report

// The kinds of notices, each from a control file to what three parsers read:
// those of Go's library, go-message and Python.

import (
	"encoding/json"
	"errors"
	"net/mail"
	"os/exec"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/emersion/go-message"
)

// noticeCase is a message with one recipient, bob@example.net, and a d line as
// agents and the scheduler write it. Package spool decides whether NOTIFY wants a
// notice. Its tests, and TestNOTIFYHoldsThroughAliasesAndLists of router, try all
// values of NOTIFY.
type noticeCase struct {
	name   string
	sender string // "": alice@sender.example
	lines  string // behind the recipient
	notary string // without the recipient
	text   string // of the d line

	// What the notice has, besides what all have. "" is a field that is not there.
	subject, words, kinds string
	fields                map[string]string
}

const lastReply = "\x01smtp; 452 4.2.2 mailbox full\x01dns; mx.example.net\x01"

var noticeCases = []noticeCase{
	{name: "failed", notary: "failed\x015.1.1 (no such user)\x01smtp; 550 5.1.1 no such user\x01dns; mx.example.net\x01",
		lines: "N NOTIFY=FAILURE ORCPT=rfc822;Bob+40orig.example\n", text: "\r->> 550 5.1.1 no such user",
		subject: "FAILED(1)", words: "could not be delivered",
		fields: map[string]string{"Action": "failed", "Status": "5.1.1", "Diagnostic-Code": "smtp; 550 5.1.1 no such user",
			"Remote-MTA": "dns; mx.example.net", "Original-Recipient": "rfc822; Bob@orig.example", "Will-Retry-Until": ""}},
	{name: "delayed", notary: "delayed\x014.2.2 (not delivered yet)" + lastReply,
		lines: "N NOTIFY=DELAY\n", text: "\rnot delivered yet after 4 hours, problem was:\r->> 452 4.2.2 mailbox full",
		subject: "DELAYED(1)", words: "Attempts go on until Sun, 22 Nov 2026 08:05:00 +0000", kinds: "text/rfc822-headers",
		fields: map[string]string{"Action": "delayed", "Status": "4.2.2", "Will-Retry-Until": "Sun, 22 Nov 2026 08:05:00 +0000"}},
	{name: "delivered", notary: "delivered\x012.1.5\x01x-local; 250 (delivered)\x01", lines: "N NOTIFY=SUCCESS\n", text: "delivered",
		subject: "DELIVERED-OK(1)", words: "was delivered to", kinds: "text/rfc822-headers",
		fields: map[string]string{"Action": "delivered", "Status": "2.1.5", "Remote-MTA": ""}},
	{name: "relayed", notary: "relayed\x012.6.0\x01smtp; 250 2.6.0 ok\x01dns; mx.example.net\x01", lines: "N NOTIFY=SUCCESS\n", text: "relayed",
		subject: "RELAYED-OK(1)", kinds: "text/rfc822-headers",
		fields: map[string]string{"Action": "relayed", "Status": "2.6.0", "Remote-MTA": "dns; mx.example.net"}},
	{name: "expanded", notary: "expanded\x012.1.5\x01\x01", lines: "N NOTIFY=SUCCESS\n", text: "went on to several addresses",
		subject: "EXPANDED-OK(1)", kinds: "text/rfc822-headers",
		fields: map[string]string{"Action": "expanded", "Status": "2.1.5", "Diagnostic-Code": ""}},
	{name: "SMTPUTF8", sender: "älice@sender.example", notary: "failed\x015.1.1\x01smtp; 550 no\x01dns; mx.example.net\x01",
		lines: "N ORCPT=utf-8;b\\x{F6}b@example.net\n", text: "->> 550 no",
		subject: "FAILED(1)",
		fields:  map[string]string{"Action": "failed", "Original-Recipient": `utf-8; b\x{F6}b@example.net`}},
	{name: "RET=FULL", notary: "failed\x015.0.0\x01\x01", lines: "R FULL\nn QQ+2B1\n", text: "no",
		subject: "FAILED(1)", fields: map[string]string{"Status": "5.0.0", "Diagnostic-Code": ""}},
	{name: "RET=HDRS", notary: "failed\x015.0.0\x01\x01", lines: "R HDRS\n", text: "no",
		subject: "FAILED(1)", kinds: "text/rfc822-headers", fields: map[string]string{"Action": "failed"}},
	{name: "null sender", sender: "<>", notary: "failed\x015.1.1\x01smtp; 550\x01"},
	{name: "expiry", notary: "failed\x014.2.2" + lastReply, text: "\rexpired after 3 days, problem was:\r->> 452 4.2.2 mailbox full",
		subject: "FAILED(1)", words: "expired after 3 days, problem was:\n      452 4.2.2 mailbox full",
		fields: map[string]string{"Action": "failed", "Status": "4.2.2", "Diagnostic-Code": "smtp; 452 4.2.2 mailbox full"}},
	{name: "expiry without an attempt", notary: "failed\x014.4.7 (delivery time expired)\x01smtp; 500 (delivery time expired)\x01", text: "\rexpired after 3 days",
		subject: "FAILED(1)", words: "expired after 3 days", fields: map[string]string{"Action": "failed", "Status": "4.4.7"}},
	{name: "EXPIRE", notary: "failed\x015.0.0 (expired by the administrator)" + lastReply,
		text:    "\rexpired by the administrator: the customer moved away, problem was:\r->> 452 4.2.2 mailbox full",
		subject: "FAILED(1)", words: "expired by the administrator: the customer moved away",
		fields: map[string]string{"Action": "failed", "Status": "5.0.0"}},
}

// control is the control file of a case.
func (c *noticeCase) control() string {
	from := "smtp mx alice@sender.example 0"
	switch c.sender {
	case "":
	case "<>":
		from = "error <> <> 0"
	default:
		from = "smtp mx " + c.sender + " 0"
	}
	head := "@ 0x00000007\ni 258367\no 3\ns " + from + "\n"
	return head + "r           smtp example.net bob@example.net 0\n" + c.lines +
		"m\nFrom: alice@sender.example\nSubject: x\nMessage-ID: <m1@sender.example>\n\n" +
		"d " + strconv.Itoa(len(head)) + ":-1:-1::1795000000\tbob@example.net\x01" + c.notary + "\t" + c.text + "\n"
}

// oneOfEach is a control file with five recipients, one for each case of an action.
func oneOfEach() string {
	text := "@ 0x00000007\ni 258367\no 3\ns smtp mx alice@sender.example 0\n"
	lines := ""
	for i := range noticeCases[:5] {
		c := &noticeCases[i]
		address := c.name + "@example.net"
		lines += "d " + strconv.Itoa(len(text)) + ":-1:-1::1795000000\t" + address + "\x01" + c.notary + "\t" + c.text + "\n"
		text += "r           smtp example.net " + address + " 0\n" + c.lines
	}
	return text + "m\nFrom: alice@sender.example\nSubject: x\nMessage-ID: <m1@sender.example>\n\n" + lines
}

// whatIsRead is what a parser makes of a notice.
type whatIsRead struct {
	Kinds    []string            // of all parts, the outermost first
	Groups   []map[string]string // of the delivery status; names in lower case
	Returned string              // Message-ID of the returned message
	Defects  int
}

func TestEachKindOfNoticeIsReadAlikeByAllParsers(t *testing.T) {
	var texts []string
	var read []whatIsRead
	for _, c := range noticeCases {
		t.Run(c.name, func(t *testing.T) {
			o := newOffice(t, c.control())
			for i := range o.message.Recipients {
				o.message.Recipients[i].RetryUntil = written
			}
			if c.sender == "<>" {
				if _, err := o.Report(&o.message, written); !errors.Is(err, ErrNobody) {
					t.Errorf("notice to nobody: %v", err)
				}
				return
			}
			_, envelope, text := o.report()
			p := parseMessage(t, text)
			c.check(t, p)
			if !strings.Contains(envelope, "\nchannel error\n") || !strings.Contains(envelope, "NOTIFY=NEVER") {
				t.Errorf("envelope %q", envelope)
			}
			r := whatGoReads(p)
			if got := goMessageKinds(t, text); !reflect.DeepEqual(got, r.Kinds) {
				t.Errorf("go-message reads parts %q, want %q", got, r.Kinds)
			}
			texts, read = append(texts, text), append(read, r)
		})
	}
	t.Run("one of each action", func(t *testing.T) {
		o := newOffice(t, oneOfEach())
		_, _, text := o.report()
		p := parseMessage(t, text)
		var got []string
		for _, g := range p.groups {
			got = append(got, g.Get("Final-Recipient")+" "+g.Get("Action")+" "+g.Get("Status"))
		}
		want := []string{
			"rfc822; failed@example.net failed 5.1.1", "rfc822; delayed@example.net delayed 4.2.2", "rfc822; delivered@example.net delivered 2.1.5",
			"rfc822; relayed@example.net relayed 2.6.0", "rfc822; expanded@example.net expanded 2.1.5",
		}
		if !slices.Equal(got, want) {
			t.Errorf("recipients %q, want %q", got, want)
		}
		r := whatGoReads(p)
		if got := goMessageKinds(t, text); !reflect.DeepEqual(got, r.Kinds) {
			t.Errorf("go-message reads parts %q, want %q", got, r.Kinds)
		}
		texts, read = append(texts, text), append(read, r)
	})
	for i, r := range whatPythonReads(t, texts) {
		if !reflect.DeepEqual(r, read[i]) {
			t.Errorf("Python reads %+v\nGo reads     %+v", r, read[i])
		}
	}
}

// check checks the fields that all notices have, and those of the case.
func (c *noticeCase) check(t *testing.T, p *parsed) {
	to := "alice@sender.example"
	if c.sender != "" {
		to = c.sender
	}
	envID := ""
	if strings.Contains(c.lines, "n QQ+2B1") {
		envID = "QQ+1"
	}
	fields(t, p.Header, map[string]string{
		"From": "Mail Delivery System <MAILER-DAEMON@mx.example.org>", "To": "<" + to + ">",
		"Subject": "Delivery report about your message [" + c.subject + "]", "Date": "Sun, 22 Nov 2026 08:05:00 +0000",
		"Auto-Submitted": "auto-replied", "In-Reply-To": "<m1@sender.example>", "References": "<m1@sender.example>", "Mime-Version": "1.0",
	})
	fields(t, p.message, map[string]string{
		"Reporting-MTA": "dns; mx.example.org", "Arrival-Date": "Fri, 20 Nov 2026 08:00:00 +0000", "X-Spool-Id": "S1", "Original-Envelope-Id": envID,
	})
	if len(p.groups) != 1 {
		t.Fatalf("%d recipients", len(p.groups))
	}
	fields(t, p.groups[0], map[string]string{
		"Final-Recipient": "rfc822; bob@example.net", "Last-Attempt-Date": "Wed, 18 Nov 2026 11:06:40 +0000",
	})
	fields(t, p.groups[0], c.fields)
	if !strings.Contains(p.parts[0], c.words) || !strings.Contains(p.parts[0], "<bob@example.net>") {
		t.Errorf("text lacks %q: %s", c.words, p.parts[0])
	}
	kinds := "text/plain message/delivery-status message/rfc822"
	if c.kinds != "" {
		kinds = "text/plain message/delivery-status " + c.kinds
	}
	if got := strings.Join(p.kinds, " "); got != kinds {
		t.Errorf("parts %q, want %q", got, kinds)
	}
	if full := strings.HasSuffix(kinds, "message/rfc822"); full != strings.Contains(p.parts[2], "\n\nbody\n") || !strings.HasPrefix(p.parts[2], "From: alice@sender.example\n") {
		t.Errorf("returned %q", p.parts[2])
	}
}

func whatGoReads(p *parsed) whatIsRead {
	r := whatIsRead{Kinds: append([]string{"multipart/report"}, p.kinds...), Returned: "<m1@sender.example>"}
	for _, g := range append([]mail.Header{p.message}, p.groups...) {
		group := map[string]string{}
		for name, values := range g {
			group[strings.ToLower(name)] = strings.Join(values, "\n")
		}
		r.Groups = append(r.Groups, group)
	}
	return r
}

func goMessageKinds(t *testing.T, text string) (kinds []string) {
	t.Helper()
	e, err := message.Read(strings.NewReader(text))
	if err == nil {
		err = e.Walk(func(_ []int, part *message.Entity, err error) error {
			kind, _, _ := part.Header.ContentType()
			kinds = append(kinds, kind)
			return err
		})
	}
	if err != nil {
		t.Error(err)
	}
	return kinds
}

// pythonReads prints a JSON value for each text of a JSON list.
const pythonReads = `
import email, email.policy, json, sys
policy = email.policy.default
def read(source):
    m = email.message_from_string(source, policy=policy)
    assert m.get_param("report-type") == "delivery-status"
    text, status, original = m.iter_parts()
    if original.get_content_maintype() == "message":
        returned = original.get_payload()[0]
    else:
        returned = email.message_from_string(original.get_content(), policy=policy)
    return dict(Kinds=[p.get_content_type() for p in (m, text, status, original)],
        Groups=[{k.lower(): str(v) for k, v in g.items()} for g in status.get_payload()],
        Returned=str(returned["Message-ID"]), Defects=sum(len(p.defects) for p in m.walk()))
json.dump([read(source) for source in json.load(sys.stdin)], sys.stdout)`

// whatPythonReads returns nothing where Python is not installed.
func whatPythonReads(t *testing.T, texts []string) (read []whatIsRead) {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Log("no python3: its parser is not tried")
		return nil
	}
	in, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-c", pythonReads)
	cmd.Stdin = strings.NewReader(string(in))
	out, err := cmd.CombinedOutput()
	if err == nil {
		err = json.Unmarshal(out, &read)
	}
	if err != nil || len(read) != len(texts) {
		t.Fatalf("python: %v: %s", err, out)
	}
	return read
}
