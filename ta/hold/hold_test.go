package hold

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"zsched/ta"
)

// noon is the time in all tests; the messages are a day and a half old.
var noon = time.Unix(1795262400, 0)

// newAgent is an agent in a postoffice, for which no condition holds.
func newAgent(t *testing.T) *Agent {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"transport", "queue", "public", "router"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	no := errors.New("not yet")
	return &Agent{
		Postoffice: dir, Host: "mta.example",
		Now:    func() time.Time { return noon },
		LookUp: func(context.Context, string, string) error { return no },
		Script: func(context.Context, string, string) error { return no },
	}
}

// deliver gives the agent a message with these lines, for a host, and returns
// its reports without the notary fields.
func deliver(t *testing.T, a *Agent, host string, lines ...string) string {
	t.Helper()
	control := "@ 0x00000007\ni 7\no 24\nl <m@example.org>\n" + strings.Join(lines, "\n") + "\nm\nA: b\n\n"
	for file, text := range map[string]string{"transport/7": control, "queue/7": "external\nenv-end\nA: b\n\n\nbody\n"} {
		if err := os.WriteFile(filepath.Join(a.Postoffice, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	born := noon.Add(-36 * time.Hour)
	if err := os.Chtimes(filepath.Join(a.Postoffice, "queue/7"), born, born); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	s := &ta.Server{Channel: "hold", Dir: filepath.Join(a.Postoffice, "transport"), Out: &out,
		In: strings.NewReader("7\t" + host + "\n"), Deliver: a.Deliver}
	if err := s.Serve(context.Background()); err != nil {
		t.Error(err)
	}
	reports := strings.TrimSuffix(strings.TrimPrefix(out.String(), "#hungry\n"), "#hungry\n")
	return regexp.MustCompile(`\t.*\t`).ReplaceAllString(reports, " ")
}

const sender = "s smtp mx.example.org alice@example.org 0"

func rcpt(host, user string) string { return "r           hold " + host + " " + user + " 65534" }

func TestConditions(t *testing.T) {
	var asked []string // which functions of the agent were called, and with what
	yes := func(words ...string) error {
		asked = append(asked, strings.Join(words, " "))
		return nil
	}
	for _, c := range []struct {
		host string
		ask  string // the function that must be called; it says yes
		wait string // why the condition does not hold, "" if it does
	}{
		{"NS:example.org/MX", "dns example.org MX", ""},
		{"ns:example.org/mx", "dns example.org MX", ""},
		{"NS:example.org", "dns example.org ", ""},
		{"TIMEOUT:1795262400", "", ""},
		{"timeout:1795262401", "", "waiting until 2026-11-21 12:00:01 UTC"},
		{"TIMEOUT:soon", "", `TIMEOUT "soon" is not a time`},
		{"TIMEOUT:", "", `TIMEOUT "" is not a time`},
		{"AGE:1d12h", "", ""},
		{"AGE:129600", "", ""},
		{"Age:1d12h0m1s", "", "waiting until 2026-11-21 12:00:01 UTC"},
		{"AGE:1w", "", "waiting until 2026-11-27 00:00:00 UTC"},
		{"AGE:", "", `AGE "": an interval consists of numbers with the units w, d, h, m and s, such as 1h30m`},
		{"AGE:1y", "", `AGE "1y": an interval consists of numbers with the units w, d, h, m and s, such as 1h30m`},
		{"AGE:h", "", `AGE "h": an interval consists of numbers with the units w, d, h, m and s, such as 1h30m`},
		{"AGE:99999999999s", "", `AGE "99999999999s": longer than 36500d`},
		{"AGE:2147483647w", "", `AGE "2147483647w": longer than 36500d`},
		{"IO:error", "", `unknown condition "IO"`},
		{"SCRIPT:try", "script try ", ""},
		{"Script:try/this/one", "script try this/one", ""},
		{"SCRIPT:/bin/true", "", `SCRIPT "/bin/true" is not the name of a script`},
		{"SCRIPT:../x", "", `SCRIPT "../x" is not the name of a script`},
		{"SCRIPT:", "", `SCRIPT "" is not the name of a script`},
		{"MOON:full", "", `unknown condition "MOON"`},
		{"example.org", "", `"example.org" is not a condition`},
		{"-", "", `"-" is not a condition`},
	} {
		a := newAgent(t)
		asked = nil
		if kind, _, _ := strings.Cut(c.ask, " "); kind != "" {
			a.LookUp = func(_ context.Context, domain, kind string) error { return yes("dns", domain, kind) }
			a.Script = func(_ context.Context, name, arg string) error { return yes("script", name, arg) }
		}
		reports := deliver(t, a, c.host, sender, rcpt(c.host, "bob@example.net"))
		if c.ask != "" && !slices.Equal(asked, []string{c.ask}) {
			t.Errorf("%s: asked %q", c.host, asked)
		}
		want := "7/82 deferred " + c.wait + "\n"
		if c.wait == "" {
			want = "7/82 ok3 submitted again as " + submitted(t, a) + "\n"
		}
		if reports != want {
			t.Errorf("%s: %q, want %q", c.host, reports, want)
		}
	}
}

func TestConditionThatDoesNotHold(t *testing.T) {
	for _, host := range []string{"NS:example.org/MX", "SCRIPT:try"} {
		if reports := deliver(t, newAgent(t), host, sender, rcpt(host, "bob")); reports != "7/82 deferred not yet\n" {
			t.Errorf("%s: %q", host, reports)
		}
	}
}

// submitted is the name of the one file in router/; none is left in queue/.tmp.
func submitted(t *testing.T, a *Agent) string {
	t.Helper()
	names := list(t, a, "router")
	if len(names) != 1 || len(list(t, a, "queue/.tmp")) > 0 {
		t.Fatalf("router/ has %q, queue/.tmp %q", names, list(t, a, "queue/.tmp"))
	}
	return names[0]
}

func list(t *testing.T, a *Agent, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(a.Postoffice, dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestSubmissionHasEnvelopeHeaderAndBody(t *testing.T) {
	a := newAgent(t)
	deliver(t, a, "TIMEOUT:1", sender,
		rcpt("TIMEOUT:1", "bob@example.net"), "N NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;bob@old.example INFROM=x", "R HDRS", "n QQ+2B",
		rcpt("TIMEOUT:1", `"carol x"@example.net`), "R HDRS", "n QQ+2B",
		rcpt("TIMEOUT:2", "other@example.net"))
	name := submitted(t, a)
	file := filepath.Join(a.Postoffice, "router", name)
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const want = "external\nrcvdfrom STDIN (hold@mta.example)\nenvid QQ+2B\nnotaryret HDRS\nfrom <alice@example.org>\n" +
		"todsn NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;bob@old.example INFROM=x\nto <bob@example.net>\n" +
		"to <\"carol x\"@example.net>\nenv-end\nA: b\n\nbody\n"
	if string(got) != want {
		t.Errorf("submitted\n%s, want\n%s", got, want)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// One submission cannot have two senders, and a null sender stays one.
func TestSendersAreSubmittedApart(t *testing.T) {
	a := newAgent(t)
	reports := deliver(t, a, "TIMEOUT:1", sender, rcpt("TIMEOUT:1", "bob"), rcpt("TIMEOUT:1", "eve"),
		"s error - alice@example.org 0", rcpt("TIMEOUT:1", "joe"))
	var envelopes []string
	for _, name := range list(t, a, "router") {
		b, err := os.ReadFile(filepath.Join(a.Postoffice, "router", name))
		if err != nil {
			t.Fatal(err)
		}
		envelope, _, _ := strings.Cut(string(b), "env-end")
		_, envelope, _ = strings.Cut(envelope, ")\n")
		envelopes = append(envelopes, envelope)
	}
	slices.Sort(envelopes)
	want := []string{"channel error\nto <joe>\n", "from <alice@example.org>\nto <bob>\nto <eve>\n"}
	if !slices.Equal(envelopes, want) || strings.Count(reports, "ok3") != 3 {
		t.Errorf("submitted %q: %q", envelopes, reports)
	}
}

func TestWhatCannotBeSubmittedWaits(t *testing.T) {
	for _, missing := range []string{"queue/.tmp", "router"} {
		a := newAgent(t)
		var err error
		if missing == "router" {
			err = os.Remove(filepath.Join(a.Postoffice, missing))
		} else {
			err = os.WriteFile(filepath.Join(a.Postoffice, missing), nil, 0o600) // no directory can be made
		}
		if err != nil {
			t.Fatal(err)
		}
		reports := deliver(t, a, "TIMEOUT:1", sender, rcpt("TIMEOUT:1", "bob"))
		if !strings.HasPrefix(reports, "7/82 deferred submit: ") {
			t.Errorf("without %s/: %q", missing, reports)
		}
		if missing == "router" && len(list(t, a, "queue/.tmp")) > 0 {
			t.Errorf("queue/.tmp has %q", list(t, a, "queue/.tmp"))
		}
	}
}

// The router could run a program with the rights of the agent. Such a recipient
// does not keep back the others of the same message.
func TestProgramsAndFilesAreNotSubmitted(t *testing.T) {
	for _, user := range []string{"|cmd", "/path", "<|cmd>", "(c)|cmd", "@a:|cmd", "g:|cmd;", `"|cmd x"@localhost`, ":include:/x"} {
		a := newAgent(t)
		reports := deliver(t, a, "TIMEOUT:1", sender, rcpt("TIMEOUT:1", user), rcpt("TIMEOUT:1", "bob@example.net"))
		text, err := os.ReadFile(filepath.Join(a.Postoffice, "router", submitted(t, a)))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), user) || !strings.HasPrefix(string(text), "external\n") || !strings.Contains(string(text), "to <bob@example.net>\n") {
			t.Errorf("%q: submitted\n%s", user, text)
		}
		if !strings.Contains(reports, "not a plain mail address\n") || strings.Count(reports, "deferred") != 1 || strings.Count(reports, "ok3") != 1 {
			t.Errorf("%q: %q", user, reports)
		}
	}
}

func TestScriptsAreRunApartFromTheSocket(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\n[ \"$1\" = yes ] && [ ! -t 0 ] && ! read -r line\n"
	if err := os.WriteFile(filepath.Join(dir, "bin/try"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	run := New("..", dir).Script
	if err := run(t.Context(), "try", "yes"); err != nil {
		t.Error(err)
	}
	for _, c := range [][2]string{{"try", "no"}, {"try", ""}, {"none", "yes"}} {
		if err := run(t.Context(), c[0], c[1]); err == nil {
			t.Errorf("%q is true", c)
		}
	}
}

func TestNoSuchNameIsAnAnswer(t *testing.T) {
	for _, c := range []struct {
		err  error
		wait bool
	}{
		{nil, false},
		{&net.DNSError{Err: "no such host", IsNotFound: true}, false},
		{&net.DNSError{Err: "server misbehaving", IsTemporary: true}, true},
		{&net.DNSError{Err: "i/o timeout", IsTimeout: true}, true},
		{errors.New("no resolver"), true},
	} {
		if got := temporary(c.err); (got != nil) != c.wait {
			t.Errorf("%v: waits for %v", c.err, got)
		}
	}
}

// The submission goes into a letter directory if the router has them, and the
// router's socket gets a notice.
func TestRouterIsGivenMailWhereItLooks(t *testing.T) {
	a := newAgent(t)
	a.RouterLevels, a.RouterNotify = 1, "UNIX:"+filepath.Join(a.Postoffice, "notify")
	for c := 'A'; c <= 'Z'; c++ {
		if err := os.Mkdir(filepath.Join(a.Postoffice, "router", string(c)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	router, err := net.ListenPacket("unixgram", filepath.Join(a.Postoffice, "notify"))
	if err != nil {
		t.Fatal(err)
	}
	defer router.Close()
	reports := deliver(t, a, "TIMEOUT:1", sender, rcpt("TIMEOUT:1", "bob"))
	if err := router.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	var told [200]byte
	n, _, err := router.ReadFrom(told[:])
	word, name, _ := strings.Cut(strings.TrimSpace(string(told[:n])), " ")
	if err != nil || word != "NEW" || !regexp.MustCompile(`^router [A-Z]/[0-9]+$`).MatchString(name) {
		t.Fatalf("the router was told %q, %v", told[:n], err)
	}
	file := strings.TrimPrefix(name, "router ")
	if _, err := os.Stat(filepath.Join(a.Postoffice, "router", file)); err != nil || !strings.Contains(reports, "submitted again as "+file) {
		t.Errorf("%v; reported %q", err, reports)
	}
}
