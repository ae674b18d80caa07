package router

import (
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zsched/ctlfile"
	"zsched/internal/header"
)

// route routes one submission of a user and returns its control files, that of
// the first sender first.
func (o *office) route(uid int, text string) []*ctlfile.File {
	o.t.Helper()
	o.write("router/1", text)
	if err := os.Chown(filepath.Join(o.dir, "router/1"), uid, -1); err != nil {
		o.t.Fatal(err)
	}
	r := o.router()
	r.machine.Login = func(uid int) string { return map[int]string{0: "root", 1000: "ann"}[uid] }
	r.drain()
	var files []*ctlfile.File
	for _, path := range o.files("transport") {
		data, err := os.ReadFile(path)
		if err != nil {
			o.t.Fatal(err)
		}
		f, err := ctlfile.Parse(data)
		if err != nil {
			o.t.Fatal(err)
		}
		files = append(files, f)
		_ = os.Remove(path)
	}
	if len(files) == 0 {
		o.t.Fatalf("nothing queued: %q", o.files("."))
	}
	return files
}

// headerOf is the header that a control file delivers.
func headerOf(t *testing.T, f *ctlfile.File) mail.Header {
	t.Helper()
	m, err := mail.ReadMessage(strings.NewReader(f.Headers(0) + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return m.Header
}

func TestHeaderIsCompleted(t *testing.T) {
	o := newOffice(t, 0)
	h := headerOf(t, o.route(os.Geteuid(), "rcvdfrom client.example ([192.0.2.7])\nwith ESMTP\nfrom <s@a.example>\nto <x@b.example>\nenv-end\nSubject: x\nBcc: y@z\nReturn-Path: <q@r>\n\nbody\n")[0])
	if got := h.Get("Received"); !strings.HasPrefix(got, "from client.example ([192.0.2.7]) by ") || !strings.Contains(got, " with ESMTP id S") {
		t.Errorf("Received: %s", got)
	}
	if _, err := h.Date(); err != nil || !strings.HasPrefix(h.Get("Message-Id"), "<S") || h.Get("From") != "s@a.example" || h.Get("Subject") != "x" {
		t.Errorf("%v, %v", h, err)
	}
	if h.Get("Bcc") != "" || h.Get("Return-Path") != "" || h.Get("Sender") != "" {
		t.Errorf("%v", h)
	}
	const complete = "from <s@a.example>\nto <x@b.example>\nenv-end\nFROM: q@r\nMessage-Id:\n <1@2>\ndate: yesterday\n\n"
	f := o.route(os.Geteuid(), complete+"body\n")[0]
	if text := f.Headers(0); !strings.HasSuffix(text, "FROM: q@r\nMessage-Id:\n <1@2>\ndate: yesterday\n") || strings.Count(text, "\n") != 6 || f.MessageID != "<1@2>" {
		t.Errorf("%q, Message-ID %s", text, f.MessageID)
	}
}

func TestEnvelopeIsKept(t *testing.T) {
	f := newOffice(t, 0).route(os.Geteuid(), "envid QQ1\nnotaryret HDRS\nfrom <s@a.example>\ntodsn NOTIFY=SUCCESS ORCPT=rfc822;o@p BY=60;R\nto <x@b.example>\nto <|sh>\nenv-end\n\nbody\n")[0]
	if len(f.Recipients) != 2 {
		t.Fatalf("%+v", f.Recipients)
	}
	r := f.Recipients[0]
	if r.DSN != "NOTIFY=SUCCESS ORCPT=rfc822;o@p BY=60;R" || r.Ret != "HDRS" || r.EnvID != "QQ1" || r.Privilege != ctlfile.Nobody {
		t.Errorf("%+v", r)
	}
	if r := f.Recipients[1]; r.Channel != "error" || r.Host != "badaddress" || r.Privilege != ctlfile.Nobody {
		t.Errorf("%+v", r)
	}
	if f.NullSender || f.ErrorTo != "s@a.example" {
		t.Errorf("sender %+v", f.Senders)
	}
}

// Only a trusted user can say where a submission came from.
func TestSourceIsKept(t *testing.T) {
	o := newOffice(t, 0)
	const words = "SOURCE=192.0.2.0/24 CLIENT=192.0.2.7 SMTPUTF8"
	const rest = "from <s@a.example>\nto <x@b.example>\nenv-end\nSubject: x\n\nbody\n"
	if got := o.route(os.Geteuid(), "identinfo "+words+"\n"+rest)[0].Source; got != words {
		t.Errorf("source %q", got)
	}
	if got := o.route(os.Geteuid(), "identinfo NO-IDENT-SERVICE[2]\n"+rest)[0].Source; got != "" {
		t.Errorf("source %q of an old server", got)
	}
	if os.Geteuid() != 0 {
		t.Skip("the rest needs root, to give files to other users")
	}
	for _, uid := range []int{1000, 50001} {
		if got := o.route(uid, "identinfo "+words+"\n"+rest)[0].Source; got != "SOURCE=uid:1000 SMTPUTF8" {
			t.Errorf("source %q of a user with uid %d", got, uid)
		}
	}
}

func TestNullSenderStaysNull(t *testing.T) {
	f := newOffice(t, 0).route(os.Geteuid(), "channel error\nerrormsg\nto <x@b.example>\nenv-end\nSubject: x\n\nbody\n")[0]
	if !f.NullSender || !strings.Contains(f.Headers(0), "From: MAILER-DAEMON@") {
		t.Errorf("%+v %s", f.Senders, f.Headers(0))
	}
}

func TestUsersSendAsThemselves(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give files to other users")
	}
	o := newOffice(t, 0)
	for from, want := range map[string]string{
		"from <boss@a.example>":            "ann@mx.example",
		"from ann":                         "ann@mx.example",
		"from <ann+lists@mx.example>":      "ann+lists@mx.example",
		"from <ann+é@mx.example>":          "ann+é@mx.example",
		"from <ann+\xff@mx.example>":       "ann@mx.example",
		"from <ann@elsewhere.example>":     "ann@mx.example",
		"from <>":                          "<>",
		"channel error":                    "<>",
		"external\nfrom <root@mx.example>": "ann@mx.example",
		"rcvdfrom forged":                  "ann@mx.example",
	} {
		f := o.route(1000, from+"\nto <x@b.example>\nenv-end\nFrom: boss@a.example\n\nbody\n")[0]
		if got := f.Senders[0].User; got != want || f.Senders[0].Privilege != "1000" {
			t.Errorf("%q: %+v", from, f.Senders)
		}
		h := headerOf(t, f)
		if sender := h.Get("Sender"); sender != "ann@mx.example" {
			t.Errorf("%q: Sender %q", from, sender)
		}
		if strings.Contains(h.Get("Received"), "forged") || !strings.Contains(h.Get("Received"), "(from ann@mx.example)") {
			t.Errorf("%q: Received %q", from, h.Get("Received"))
		}
	}
}

func TestUsersNameThemselvesInSender(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give files to other users")
	}
	o := newOffice(t, 0)
	for _, test := range []struct{ fields, from, sender string }{
		{"From: ceo@far.example\nSender: root@mx.example\n", "ceo@far.example", "ann@mx.example"},
		{"From: ceo@far.example\nSENDER : root@mx.example\n", "ceo@far.example", "ann@mx.example"},
		{"From: ceo@far.example\nSender: ann@mx.example\nSender: root@mx.example\n", "ceo@far.example", "ann@mx.example"},
		{"From: ceo@far.example\nSender: Root <\n", "ceo@far.example", "ann@mx.example"},
		{"From: ceo@far.example\nSender: Ann <Ann@mx.example>\n", "ceo@far.example", "Ann <Ann@mx.example>"},
		{"From: ann@mx.example\nFrom: ceo@far.example\n", "ann@mx.example ceo@far.example", "ann@mx.example"},
		{"From: ann@mx.example\nSender: root@mx.example\n", "ann@mx.example", ""},
		{"From: ann@mx.example\n", "ann@mx.example", ""},
		{"Subject: x\n", "ann@mx.example", ""},
	} {
		for _, from := range []string{"from <ann@mx.example>", "from <>", "channel error"} {
			h := headerOf(t, o.route(1000, from+"\nto <x@b.example>\nenv-end\n"+test.fields+"\nbody\n")[0])
			if got := strings.Join(h["From"], " "); got != test.from {
				t.Errorf("%s, %q: From %q, want %q", from, test.fields, got, test.from)
			}
			if got := strings.Join(h["Sender"], " "); got != test.sender {
				t.Errorf("%s, %q: Sender %q, want %q", from, test.fields, got, test.sender)
			}
		}
	}
	h := headerOf(t, o.route(0, "from <s@a.example>\nto <x@b.example>\nenv-end\nFrom: ceo@far.example\nSender: root@mx.example\n\nbody\n")[0])
	if got := h.Get("Sender"); got != "root@mx.example" {
		t.Errorf("Sender of a trusted user: %q", got)
	}
}

func TestLoneCRInTheHeaderIsABlank(t *testing.T) {
	f := newOffice(t, 0).route(os.Geteuid(), "to <x@b.example>\nenv-end\nSubject: x\rFrom: CEO <ceo@mx.example>\r\nX: y\r\r\n z\n\nbody\n")[0]
	text := f.Headers(0)
	if strings.Contains(text, "\r") || !strings.Contains(text, "\nSubject: x From: CEO <ceo@mx.example>\nX: y \n z\n") || !strings.Contains(text, "\nFrom: ") {
		t.Errorf("%q", text)
	}
}

func TestHeaderThatCannotBeDeliveredIsAnswered(t *testing.T) {
	for _, text := range []string{"Subject: a\x00b\n", "X: " + strings.Repeat("y", 1<<20), strings.Repeat("a:\n", header.MaxFields+1)} {
		f := newOffice(t, 0).route(os.Geteuid(), "from <s@a.example>\ntodsn NOTIFY=FAILURE\nto <x@b.example>\nenv-end\n"+text+"\nbody\n")[0]
		if r := f.Recipients[0]; len(f.Recipients) != 1 || r.Channel != "error" || r.Host != "badheader" || r.User != "x@b.example" || r.DSN != "NOTIFY=FAILURE" {
			t.Errorf("%+v", f.Recipients)
		}
	}
}

func TestLoopsEnd(t *testing.T) {
	loop := strings.Repeat("Received: by x\n", 100+1)
	f := newOffice(t, 0).route(os.Geteuid(), "from <s@a.example>\ntodsn NOTIFY=FAILURE\nto <x@b.example>\nenv-end\n"+loop+"\nbody\n")[0]
	if r := f.Recipients[0]; r.Channel != "error" || r.Host != "hopcount" || r.User != "x@b.example" || r.DSN != "NOTIFY=FAILURE" {
		t.Errorf("%+v", r)
	}
}

func TestExpandedRecipientsAreLimited(t *testing.T) {
	o := newOffice(t, 0)
	o.write("router/1", "to list\nto list+1\nto list+2\nenv-end\n\nbody\n")
	r := o.router()
	r.machine.MaxTargets = 2
	r.drain()
	if len(o.files("transport")) != 1 {
		t.Errorf("a message with two recipients is not queued: %q", o.files("."))
	}
	o.write("router/2", "to list\nto z@c.example\nenv-end\n\nbody\n")
	r.sweep()
	r.drain()
	reason, _ := os.ReadFile(filepath.Join(o.dir, "corrupt/router/2.reason"))
	if !strings.Contains(string(reason), "with the members of aliases it has more than 2 recipients") {
		t.Errorf("%q, %q", reason, o.files("."))
	}
}

// A recipient that a message names twice, or by an alias too, gets one copy, and no request of
// either line is lost.
func TestRecipientsAreMerged(t *testing.T) {
	for _, c := range []struct{ envelope, want string }{
		{"to x@c.example\ntodsn NOTIFY=SUCCESS ORCPT=rfc822;y\nto x@C.Example\n", "x@c.example NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;y"},
		{"todsn NOTIFY=NEVER\nto x@c.example\ntodsn NOTIFY=DELAY\nto x@c.example\n", "x@c.example NOTIFY=DELAY"},
		{"todsn NOTIFY=NEVER\nto one\ntodsn NOTIFY=SUCCESS\nto one+x\n", "x@c.example NOTIFY=SUCCESS ORCPT=rfc822;one@mx.example"},
		{"todsn NOTIFY=DELAY\nto x@c.example\ntodsn NOTIFY=SUCCESS\nto one\n", "x@c.example NOTIFY=SUCCESS,DELAY ORCPT=rfc822;one@mx.example"},
	} {
		o := newOffice(t, 0)
		o.write("share/aliases", "one: x@c.example\n")
		f := o.route(os.Geteuid(), "from <s@a.example>\n"+c.envelope+"env-end\n\nbody\n")[0]
		if r := f.Recipients[0]; len(f.Recipients) != 1 || r.User+" "+r.DSN != c.want {
			t.Errorf("%+v, want %s", f.Recipients, c.want)
		}
	}
}

// A notice that comes to a list whose owner is the list again, and fails there, leads to no notice.
func TestNullSenderStaysBehindLists(t *testing.T) {
	o := newOffice(t, 0)
	o.write("share/aliases", "owner-list: list@mx.example\nlist: other@mx.example, x@c.example\nowner-other: root\nother: list, x@c.example\n")
	f := o.route(os.Geteuid(), "from <>\nto owner-list\nto other\nenv-end\n\nbody\n")[0]
	seen := map[string]bool{}
	for i := range f.Recipients {
		r := &f.Recipients[i]
		if _, null := f.NoticesTo(i); !null || seen[r.User] {
			t.Errorf("%+v of %+v", r, f.Senders[r.Sender])
		}
		seen[r.User] = true
	}
	if !seen["x@c.example"] {
		t.Errorf("%+v", f.Recipients)
	}
}

func TestListsHaveTheirOwner(t *testing.T) {
	files := newOffice(t, 0).route(os.Geteuid(), "envid Q\nfrom <s@a.example>\ntodsn NOTIFY=SUCCESS\nto list\nto y@c.example\nenv-end\n\nbody\n")
	if len(files) != 1 || len(files[0].Senders) != 2 || len(files[0].Recipients) != 3 {
		t.Fatalf("%+v", files)
	}
	f := files[0]
	for i := range f.Recipients {
		r := &f.Recipients[i]
		if to, null := f.NoticesTo(i); f.Senders[r.Sender].User != to || null {
			t.Errorf("notices about %+v go to %q", r, to)
		}
		if f.Senders[r.Sender].User == "s@a.example" {
			if r.User != "y@c.example" || r.EnvID != "Q" {
				t.Errorf("%+v", r)
			}
		} else if f.Senders[r.Sender].User != "owner-list@mx.example" || r.DSN != "INRCPT=rfc822;list@mx.example" || r.EnvID != "" {
			t.Errorf("%+v", f)
		}
	}
	if f.ErrorTo != "s@a.example" {
		t.Errorf("the last sender is %q", f.ErrorTo)
	}
}
