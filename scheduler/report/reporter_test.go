package report

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"zsched/ctlfile"
)

// office is a postoffice with one message in it.
type office struct {
	testing.TB
	Reporter
	dir     string
	message Message
}

func newOffice(t testing.TB, control string) *office {
	t.Helper()
	o := &office{TB: t, dir: t.TempDir()}
	for _, name := range []string{"queue", "router", "public", "postman", "transport"} {
		if err := os.Mkdir(filepath.Join(o.dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	o.Reporter = Reporter{Postoffice: o.dir, Host: "mx.example.org", By: "scheduler@mx.example.org", FormFile: filepath.Join(o.dir, "delivery")}
	f, err := ctlfile.Parse([]byte(control))
	if err != nil {
		t.Fatal(err)
	}
	o.message = Message{
		SpoolID: "S1", File: f, ArrivedAt: arrived, Recipients: Recipients(f, all(f)),
		Body: io.NewSectionReader(strings.NewReader("body\n"), 0, 5), Temp: "scheduler-test-",
	}
	return o
}

// report reports and returns the file, split into envelope and message.
func (o *office) report() (file, envelope, text string) {
	o.Helper()
	_, _ = o.message.Body.Seek(0, io.SeekStart)
	file, err := o.Report(&o.message, written)
	if err != nil {
		o.Fatal(err)
	}
	for _, dir := range []string{"queue/.tmp", "public"} {
		if left, _ := os.ReadDir(filepath.Join(o.dir, dir)); len(left) > 0 {
			o.Errorf("%s still has %v", dir, left)
		}
	}
	b, err := os.ReadFile(filepath.Join(o.dir, file))
	if err != nil {
		o.Fatal(err)
	}
	envelope, text, found := strings.Cut(string(b), "env-end\n")
	if !found {
		o.Fatalf("no env-end in %q", b)
	}
	return file, envelope, text
}

// failure returns a control file of a sender, an e line or "", and lines behind
// the recipient, whom it says to have failed.
func failure(sender, errorTo, behind string) string {
	if errorTo != "" {
		errorTo = "e " + errorTo + "\n"
	}
	head := "@ 0x00000007\ni 258367\no 3\n" + errorTo + "s smtp mx " + sender + " 0\n"
	if sender == "" {
		head = "@ 0x00000007\ni 258367\no 3\ns error <> <> 0\n"
	}
	at := strconv.Itoa(len(head))
	return head + "r           smtp example.net bob@example.net 0\n" + behind + "m\nSubject: x\n\n" +
		"d " + at + ":-1:-1::1795000000\t\x03\x01failed\x015.1.1\x01smtp; 550 no\x01\tno\n"
}

// A stranger who causes notices delays only those about his own mail.
func TestNoticeTakesTheTurnOfTheMessage(t *testing.T) {
	control := strings.Replace(failure("alice@sender.example", "", ""), "o 3\n", "o 3\nS SOURCE=192.0.2.0/24 CLIENT=192.0.2.7 SMTPUTF8\n", 1)
	at, now := strings.Index(failure("alice@sender.example", "", ""), "r  "), strings.Index(control, "r  ")
	o := newOffice(t, strings.Replace(control, fmt.Sprintf("\nd %d:", at), fmt.Sprintf("\nd %d:", now), 1))
	if _, envelope, _ := o.report(); !strings.Contains(envelope, "\nidentinfo SOURCE=192.0.2.0/24\n") {
		t.Errorf("%q", envelope)
	}
}

func TestNoticeIsSubmittedWithTheNullSender(t *testing.T) {
	o := newOffice(t, failure("alice@sender.example", "", "n QQ+2B1\n"))
	file, envelope, text := o.report()
	const want = "external\nrcvdfrom STDIN (scheduler@mx.example.org)\nchannel error\n" +
		"todsn NOTIFY=NEVER ORCPT=rfc822;alice@sender.example\nto <alice@sender.example>\n"
	if !strings.HasPrefix(file, "router/") || envelope != want {
		t.Errorf("%s: %q", file, envelope)
	}
	p := parseMessage(t, text)
	fields(t, p.message, map[string]string{"Original-Envelope-Id": "QQ+1"})
	fields(t, p.groups[0], map[string]string{"Final-Recipient": "rfc822; bob@example.net", "Action": "failed", "Status": "5.1.1"})
	if p.parts[2] != "Subject: x\n\nbody\n" {
		t.Errorf("returned %q", p.parts[2])
	}
	info, err := os.Stat(filepath.Join(o.dir, file))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// The old program never read RET, and its xtext of bytes above 127 was longer
// than two digits.
func TestRETSaysWhatIsReturned(t *testing.T) {
	for _, c := range []struct {
		ret         string
		headersOnly bool
		want        string
	}{
		{"", false, "Subject: x\n\nbody\n"}, {"", true, "Subject: x\n"},
		{"R FULL\n", true, "Subject: x\n\nbody\n"}, {"R hdrs\n", false, "Subject: x\n"},
	} {
		o := newOffice(t, failure("alice@sender.example", "", c.ret))
		o.HeadersOnly = c.headersOnly
		if _, _, text := o.report(); parseMessage(t, text).parts[2] != c.want {
			t.Errorf("%q, %v: %q", c.ret, c.headersOnly, text)
		}
	}
	o := newOffice(t, failure("alice@sender.example", "", "R FULL\n"))
	o.MaxBody = 4
	if _, _, text := o.report(); parseMessage(t, text).parts[2] != "Subject: x\n" || !strings.Contains(text, "too large") {
		t.Errorf("a body over the limit: %q", text)
	}
	o.message.Recipients[0].Action = Delayed
	if _, _, text := o.report(); parseMessage(t, text).parts[2] != "Subject: x\n" {
		t.Errorf("a delay: %q", text)
	}
}

func TestNoticeGoesToTheErrorAddress(t *testing.T) {
	for _, c := range []struct{ sender, errorTo, want string }{
		{"alice@a.example", "", "alice@a.example"},
		{"alice@a.example", "<owner-list@l.example>", "owner-list@l.example"},
		{"alice@a.example", "Rayan Z <rayan@r.example>", "rayan@r.example"},
		{"alice@a.example", "x@a.example, y@b.example", "x@a.example y@b.example"},
		{"älice@ä.example", "", "älice@ä.example"},
		{"|/bin/sh", "", "postmaster"},
		{"/var/mail/x", "", "postmaster"},
		{`"|/bin/sh"@a.example`, "", "postmaster"},
	} {
		_, envelope, text := newOffice(t, failure(c.sender, c.errorTo, "")).report()
		var to []string
		for line := range strings.SplitSeq(envelope, "\n") {
			if address, ok := strings.CutPrefix(line, "to <"); ok {
				to = append(to, strings.TrimSuffix(address, ">"))
			}
			if !isASCII(c.sender) && strings.HasPrefix(line, "todsn") && line != `todsn NOTIFY=NEVER ORCPT=utf-8;\x{E4}lice@\x{E4}.example` {
				t.Error(line)
			}
		}
		if got := strings.Join(to, " "); got != c.want {
			t.Errorf("%s, %s: %q", c.sender, c.errorTo, got)
		}
		if got := parseMessage(t, text).Get("To"); got != "<"+to[0]+">" {
			t.Errorf("To: %q", got)
		}
	}
}

func TestNullSenderIsNeverAnswered(t *testing.T) {
	o := newOffice(t, failure("", "", ""))
	if o.AnswersNullSender() {
		t.Error("it would answer")
	}
	if _, err := o.Report(&o.message, written); !errors.Is(err, ErrNobody) {
		t.Errorf("error %v", err)
	}
	for _, dir := range []string{"router", "postman", "queue/.tmp"} {
		if left, _ := os.ReadDir(filepath.Join(o.dir, dir)); len(left) > 0 {
			t.Errorf("%s has %v", dir, left)
		}
	}
	t.Run("store-error-on-error", func(t *testing.T) {
		o.StoreErrors = true
		file, _, text := o.report()
		if !o.AnswersNullSender() || !strings.HasPrefix(file, "postman/") || !strings.HasSuffix(file, ":error-on-error") || parseMessage(t, text).Get("To") != "dummy:;" {
			t.Errorf("%s: %s", file, text)
		}
	})
	t.Run("copies", func(t *testing.T) {
		if err := os.WriteFile(o.FormFile, []byte("ADR Cc: <postmaster@mx.example.org>\n\nSorry.\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		file, envelope, _ := o.report()
		if !o.AnswersNullSender() || !strings.HasPrefix(file, "router/") || !strings.HasSuffix(envelope, "\nto <postmaster@mx.example.org>\n") || strings.Count(envelope, "\nto ") != 1 {
			t.Errorf("%s: %q", file, envelope)
		}
	})
	t.Run("a copy that cannot be delivered", func(t *testing.T) {
		_, _, text := o.report()
		copied, _, _ := strings.Cut(text, "\n\n")
		f, err := ctlfile.Parse([]byte(strings.Replace(failure("", "", ""), "Subject: x", copied, 1)))
		if err != nil {
			t.Fatal(err)
		}
		o.message.File, o.message.Recipients = f, Recipients(f, all(f))
		if file, _, _ := o.report(); !strings.HasPrefix(file, "postman/") {
			t.Errorf("another copy: %s", file)
		}
		o.StoreErrors = false
		if _, err := o.Report(&o.message, written); !errors.Is(err, ErrNobody) {
			t.Errorf("error %v", err)
		}
	})
}

func TestPostmasterGetsACopyWhenTheFormSaysSo(t *testing.T) {
	o := newOffice(t, failure("alice@a.example", "", ""))
	if err := os.WriteFile(o.FormFile, []byte("ADR Bcc: postmaster\n\nSorry.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, envelope, text := o.report()
	if !strings.Contains(envelope, "to <alice@a.example>\n") || !strings.HasSuffix(envelope, "to <postmaster>\n") {
		t.Errorf("envelope %q", envelope)
	}
	if p := parseMessage(t, text); p.Get("To") != "<alice@a.example>" || p.Get("Bcc") != "" {
		t.Errorf("header %v", p.Header)
	}
}

func TestNoticeThatCannotBeWrittenLeavesNothing(t *testing.T) {
	o := newOffice(t, failure("alice@a.example", "", ""))
	if err := os.Remove(filepath.Join(o.dir, "router")); err != nil {
		t.Fatal(err)
	}
	if file, err := o.Report(&o.message, written); err == nil {
		t.Errorf("submitted as %s", file)
	}
	if left, _ := os.ReadDir(filepath.Join(o.dir, "queue/.tmp")); len(left) > 0 {
		t.Errorf("queue/.tmp has %v", left)
	}
}

// A router that rewrites headers writes a block for each form of the header. The
// first block used to count, whatever recipient the notice was about.
func TestNoticeIsAboutTheBlockOfItsRecipients(t *testing.T) {
	control := "@ 0x00000007\ni 258367\no 3\ns smtp mx alice@sender.example 0\n" +
		"r           smtp a bob@a.example 0\nn ONE\nR FULL\nm\nSubject: one\n\n" +
		"s smtp mx alice@sender.example 0\nr           smtp b carol@b.example 0\nn TWO\nR HDRS\nm\nSubject: two\n\n"
	line := func(user string) string {
		at := strings.Index(control, user) - len("r           smtp a ")
		return "d " + strconv.Itoa(at) + ":-1:-1::1795000000\t" + user + "\x01failed\x015.1.1\x01smtp; 550 no\x01\tno\n"
	}
	for _, c := range []struct{ lines, envID, returned string }{
		{line("bob@a.example"), "ONE", "Subject: one\n\nbody\n"},
		{line("carol@b.example"), "TWO", "Subject: two\n"},
		{line("bob@a.example") + line("carol@b.example"), "ONE", "Subject: one\n\nbody\n"},
	} {
		o := newOffice(t, control+c.lines)
		_, _, text := o.report()
		p := parseMessage(t, text)
		fields(t, p.message, map[string]string{"Original-Envelope-Id": c.envID})
		if p.parts[2] != c.returned {
			t.Errorf("%s: returned %q, want %q", c.envID, p.parts[2], c.returned)
		}
	}
}
