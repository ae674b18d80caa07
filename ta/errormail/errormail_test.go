package errormail

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"zsched/ta"
)

var noon = time.Unix(1795262400, 0)

func newAgent(t *testing.T) *Agent {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"transport", "queue", "public", "router", "postman", "forms"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	a := New(dir, filepath.Join(dir, "forms"), "mx.example")
	a.Now = func() time.Time { return noon }
	return a
}

// deliver gives the agent a message with these lines, and returns its reports
// without the notary fields, and the notices.
func deliver(t *testing.T, a *Agent, host string, lines ...string) (reports string, notices []string) {
	t.Helper()
	dir := a.Reporter.Postoffice
	control := "@ 0x00000007\ni 7\no 3\nl <m@example.org>\n" + strings.Join(lines, "\n") + "\nm\nSubject: x\n\n"
	for file, text := range map[string]string{"transport/7": control, "queue/7": "x:\nbody\n"} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	s := &ta.Server{Channel: "error", Dir: filepath.Join(dir, "transport"), Out: &out,
		In: strings.NewReader("7\t" + host + "\n"), Deliver: a.Deliver}
	if err := s.Serve(context.Background()); err != nil {
		t.Error(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "router", "*"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		notices = append(notices, string(text))
		os.Remove(file)
	}
	reports = strings.TrimSuffix(strings.TrimPrefix(out.String(), "#hungry\n"), "#hungry\n")
	return regexp.MustCompile(`\t.*\t`).ReplaceAllString(reports, " "), notices
}

const sender = "s smtp mx alice@example.org 0"

func rcpt(user string) string { return "r           error nosuchuser " + user + " 65534" }

func TestSenderIsToldOfAllAddressesAtOnce(t *testing.T) {
	a := newAgent(t)
	reports, notices := deliver(t, a, "nosuchuser", sender, rcpt("bob@b.example"), "N NOTIFY=FAILURE ORCPT=rfc822;Bob+40b", rcpt("eve@e.example"))
	if strings.Count(reports, " ok3 notice router/") != 2 || len(notices) != 1 {
		t.Fatalf("%q, %q", reports, notices)
	}
	for _, want := range []string{
		"\nchannel error\n", "\ntodsn NOTIFY=NEVER ORCPT=rfc822;alice@example.org\nto <alice@example.org>\n",
		"\nOriginal-Recipient: rfc822; Bob@b\nFinal-Recipient: rfc822; bob@b.example\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: x-local; 500 (nosuchuser)\n",
		"\nFinal-Recipient: rfc822; eve@e.example\n", "\n  <eve@e.example>\n", "there is no user of this name (nosuchuser)", "\nbody\n",
	} {
		if strings.Count(notices[0], want) < 1 {
			t.Errorf("no %q in %s", want, notices[0])
		}
	}
}

func TestNOTIFYAndRETHold(t *testing.T) {
	a := newAgent(t)
	reports, notices := deliver(t, a, "nosuchuser", sender, rcpt("bob"), "N NOTIFY=NEVER", "R HDRS", rcpt("eve"))
	if strings.Count(reports, " ok3 notice ") != 2 || len(notices) != 1 || strings.Contains(notices[0], "<bob>") || strings.Contains(notices[0], "\nbody\n") {
		t.Errorf("%q, %q", reports, notices)
	}
	if reports, notices := deliver(t, a, "nosuchuser", sender, rcpt("bob"), "N NOTIFY=SUCCESS,DELAY"); len(notices) != 0 || !strings.Contains(reports, " ok3 the sender wants no notice") {
		t.Errorf("%q, %q", reports, notices)
	}
}

func TestNullSenderIsNotAnswered(t *testing.T) {
	if reports, notices := deliver(t, newAgent(t), "nosuchuser", "s error <> <> 0", rcpt("bob")); len(notices) != 0 || !strings.Contains(reports, " ok3 the sender is null") {
		t.Errorf("%q, %q", reports, notices)
	}
}

// A notice that an error in the routes keeps from its recipient is mail with a null sender
// and no route. It would vanish.
func TestNoticeWithoutARouteIsKept(t *testing.T) {
	a := newAgent(t)
	var warned []string
	a.Warn = func(line string) { warned = append(warned, line) }
	lost := strings.Replace(rcpt("alice@a.example"), "nosuchuser", "unresolvable", 1)
	reports, notices := deliver(t, a, "unresolvable", "s error <> <> 0", lost, "N NOTIFY=NEVER")
	kept, _ := filepath.Glob(filepath.Join(a.Reporter.Postoffice, "postman", "*:error-on-error"))
	if len(notices) != 0 || len(kept) != 1 || !strings.HasSuffix(reports, " ok3 notice postman/"+filepath.Base(kept[0])+"\n") {
		t.Fatalf("%q, %q, %q", reports, notices, kept)
	}
	if len(warned) != 1 || !strings.HasPrefix(warned[0], "postman/"+filepath.Base(kept[0])+": the sender of S") {
		t.Errorf("warned of %q", warned)
	}
	text, err := os.ReadFile(kept[0])
	if err != nil || !strings.Contains(string(text), "\nFinal-Recipient: rfc822; alice@a.example\n") || !strings.Contains(string(text), "\nbody\n") {
		t.Errorf("%v, %s", err, text)
	}
}

// With PARAMstore-error-on-error, no notice about mail with a null sender is dropped,
// whatever the form.
func TestNoticeIsKeptIfTheSchedulerKeepsItsOwn(t *testing.T) {
	a := newAgent(t)
	a.Reporter.StoreErrors = true
	for i, form := range []string{"nosuchuser", "hopcount"} {
		line := strings.Replace(rcpt("bob"), "nosuchuser", form, 1)
		reports, notices := deliver(t, a, form, "s error <> <> 0", line)
		kept, _ := filepath.Glob(filepath.Join(a.Reporter.Postoffice, "postman", "*:error-on-error"))
		if len(notices) != 0 || len(kept) != i+1 || !strings.Contains(reports, " ok3 notice postman/") {
			t.Errorf("%s: %q, %q, %q", form, reports, notices, kept)
		}
	}
}

func TestHostNamesTheForm(t *testing.T) {
	a := newAgent(t)
	for file, text := range map[string]string{"nosuchuser": "SUB Subject: Nobody\n\nNobody of that name.\n", "delivery": "SUB Subject: General\n\nIn general.\n"} {
		if err := os.WriteFile(filepath.Join(a.Forms, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for form, want := range map[string]string{
		"nosuchuser": "Nobody of that name.", "strange": "In general.", "-": "In general.", "../forms/nosuchuser": "In general.",
	} {
		_, notices := deliver(t, a, form, sender, strings.Replace(rcpt("bob"), "nosuchuser", form, 1))
		if len(notices) != 1 || !strings.Contains(notices[0], want) {
			t.Errorf("%s: %q", form, notices)
		}
	}
}

func TestNoticeThatCannotBeWrittenIsTriedAgain(t *testing.T) {
	a := newAgent(t)
	if err := os.Remove(filepath.Join(a.Reporter.Postoffice, "router")); err != nil {
		t.Fatal(err)
	}
	if reports, _ := deliver(t, a, "nosuchuser", sender, rcpt("bob")); !strings.Contains(reports, " deferred ") {
		t.Errorf("%q", reports)
	}
}

func TestFormSaysWhatHappened(t *testing.T) {
	for form, want := range map[string]string{
		"hopcount": "Action: failed\nStatus: 5.4.6\n", "strange": "Action: failed\nStatus: 5.0.0\n",
	} {
		line := strings.Replace(rcpt("bob"), "nosuchuser", form, 1)
		if _, notices := deliver(t, newAgent(t), form, sender, line, "N NOTIFY=FAILURE"); len(notices) != 1 || !strings.Contains(notices[0], want) {
			t.Errorf("%s: %q", form, notices)
		}
		if _, notices := deliver(t, newAgent(t), form, sender, line, "N NOTIFY=SUCCESS"); len(notices) != 0 {
			t.Errorf("%s, unasked: %q", form, notices)
		}
	}
}
