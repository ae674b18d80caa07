package sm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zsched/ctlfile"
	"zsched/ta"
)

// The user that a program runs as.

func TestWhoRuns(t *testing.T) {
	account := func(uid int) (*ta.Account, error) {
		if uid == 13 {
			return nil, errors.New("no answer")
		}
		return &ta.Account{Name: "bob", Home: "/home/bob", UID: uid, GID: 100}, nil
	}
	for _, c := range []struct {
		flags, privilege string
		agent            int
		want             string
	}{
		{"-", "501", 0, "501 own=false"},
		{"-", "501(more)", 0, "501 own=false"},
		{"-", "-2", 0, "65534 own=false"},
		{"-", "-0", 0, "0 own=false"},
		{"-", "0", 0, "0 own=false"},
		{"-", "501", 501, "501 own=true"},
		{"-", "502", 501, "the recipient's privilege is uid 502 and sm runs as uid 501: sm must be started by root, or its mailer x must have flag S"},
		{"S", "502", 501, "501 own=true"},
		{"S", "x", 0, "0 own=true"},
		{"-", "x", 0, `the recipient's privilege "x" is not a uid`},
		{"-", "", 0, `the recipient's privilege "" is not a uid`},
		{"-", "4294967295", 0, `the recipient's privilege "4294967295" is not a uid`},
		{"-", "13", 0, "find uid 13: no answer"},
	} {
		a := &Agent{Mailer: mailer(t, "x "+c.flags+" /p p"), UID: c.agent, Account: account}
		r := &ta.Recipient{Recipient: &ctlfile.Recipient{Address: ctlfile.Address{Privilege: c.privilege}}}
		got, err := a.runAs(r)
		text := fmt.Sprint(err)
		if err == nil {
			text = fmt.Sprintf("%d own=%v", got.UID, got.own)
		}
		if text != c.want {
			t.Errorf("flags %s, privilege %q, agent %d: %s, want %s", c.flags, c.privilege, c.agent, text, c.want)
		}
	}
}

func TestPrivilegeOfAnotherIsDeferredWithoutRoot(t *testing.T) {
	b := newHarness(t, "-", "touch ran", "")
	b.agent.UID = 4242
	b.deliver(alice+"r           prog h.example bob 501\n", "A: b\n\n")
	if !strings.Contains(b.reported, "\x014.3.5\x01") || !strings.Contains(b.reported, "deferred the recipient's privilege is uid 501") {
		t.Errorf("%q", b.reported)
	}
	if _, err := os.Stat(filepath.Join(b.dir, "ran")); err == nil {
		t.Error("it ran all the same")
	}
}

func TestRootRunsProgramsAsTheirRecipients(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	b := newHarness(t, "n", "", "")
	b.agent.Mailer = mailer(t, "x n /bin/sh sh -c id${IFS}-u;id${IFS}-g;id${IFS}-G;pwd;echo${IFS}$$HOME;cat${IFS}/dev/stdin;exit${IFS}75")
	b.agent.Account = func(uid int) (*ta.Account, error) {
		return &ta.Account{Name: "bob", Home: "/home/bob", UID: uid, GID: 4243, Groups: []int{4243, 4244}}, nil
	}
	b.deliver(alice+"r           prog h.example bob 4242\n", "A: b\n\nx\n")
	_, got, _ := strings.Cut(b.reported, "deferred ")
	expect(t, got, "exit status 75 (temporary failure)\r4242\r4243\r4243 4244\r/\r/home/bob\rA: b\r\rx\n")
}

func TestProgramOfAnUnknownUserHasNotOurHome(t *testing.T) {
	env := strings.Join(environment(user{&ta.Account{UID: 4242}, false}), "\n")
	if !strings.HasSuffix(env, "USER=4242\nLOGNAME=4242\nHOME=/\nSHELL=/bin/sh") {
		t.Errorf("%q", env)
	}
}

func TestFindAccount(t *testing.T) {
	root, err := findAccount(0)
	if err != nil || root.Name != "root" || root.GID != 0 {
		t.Errorf("%+v, %v", root, err)
	}
	none, err := findAccount(3999999999)
	if err != nil || none.Name != "" || none.GID != nobody || none.Groups != nil {
		t.Errorf("%+v, %v", none, err)
	}
}
