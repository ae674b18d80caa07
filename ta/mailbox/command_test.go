package mailbox

import (
	"os"
	"strings"
	"testing"
	"time"

	"zsched/ta"
)

func command(line string) string {
	return `"|` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(line) + `" ` + us
}

func TestCommandGetsTheLetterAndItsEnvironment(t *testing.T) {
	o := newTestSpool(t)
	m := mail(command("cat >letter; pwd; env | sort >environment"))
	m.body = "From here\nno line end"
	m.dsn = "NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;bob+2Bx@example.org"
	a := o.agent(Options{Environ: []string{"PATH=/usr/bin:/bin", "ZCONFIG=/z"}})
	o.delivered(a, m)
	expect(t, o.read("home/letter"), "From alice@example.net Sat Nov 21 12:00:00 2026\n"+
		"Return-Path: <alice@example.net>\nDelivered-To: bob+x@example.org\nX-Orig-To: bob+x@example.org\nSubject: x\n\n"+
		"From here\nno line end")
	for _, want := range []string{
		"ENV", "HOME=" + o.path("home"), "USER=bob", "LOGNAME=bob", "UID=" + us, "SHELL=/bin/sh",
		"PATH=/usr/bin:/bin", "ZCONFIG=/z", "SENDER=alice@example.net", "RECIPIENT=bob+x@example.org",
		"ORCPT=rfc822;bob+2Bx@example.org", "NOTIFY=SUCCESS,FAILURE", "MESSAGEID=<m@example.net>", "MSGSPOOLID=S7A",
	} {
		if has := strings.Contains("\n"+o.read("home/environment"), "\n"+want); has != (want != "ENV") {
			t.Errorf("%s: %t in\n%s", want, has, o.read("home/environment"))
		}
	}
	if got := o.read("home/environment"); strings.Contains(got, "GOROOT") || strings.Contains(got, "HELPER") {
		t.Errorf("our own environment is in\n%s", got)
	}
	m.sender, m.rcpts = "", []string{command("echo $SENDER >sender")}
	o.delivered(a, m)
	expect(t, o.read("home/sender"), "<>\n")
}

func TestCommandEndsByItsExitCode(t *testing.T) {
	o := newTestSpool(t)
	a := o.agent(Options{Environ: []string{"PATH=/usr/bin:/bin"}})
	for _, c := range []struct{ line, status, pattern string }{
		{"echo no such format; echo really >&2; exit 65", "error2", "5\\.6\\.0.*exit status 65 \\(data format error\\)\rno such format\rreally"},
		{"exit 67", "error2", `5\.1\.1`},
		{"exit 68", "error2", `5\.1\.2`},
		{"exit 69", "error2", `5\.3\.0`},
		{"exit 77", "error2", `5\.7\.0`},
		{"exit 64", "deferred", `4\.3\.5.*exit status 64`},
		{"exit 70", "deferred", `4\.3\.0`},
		{"exit 75", "deferred", `4\.3\.0`},
		{"exit 1", "deferred", `4\.3\.0`},
		{"/none/such", "deferred", `4\.3\.0.*exit status 127`},
		{"kill -TERM $$", "deferred", `signal 15 \(terminated\)`},
		{"kill -QUIT $$", "deferred", `signal 3 \(quit\)`},
	} {
		o.refused(a, mail(command(c.line)), c.status, c.pattern)
	}
}

// A command need not read its mail, may leave others behind, and may say more
// than anybody wants to know.
func TestCommandsThatAreNotPolite(t *testing.T) {
	o := newTestSpool(t)
	a := o.agent(Options{Environ: []string{"PATH=/usr/bin:/bin"}})
	m := mail(command("exit 0"))
	m.body = strings.Repeat("0123456789abcde\n", 1<<17)
	o.delivered(a, m)
	o.refused(a, mail(command(`printf 'a\033[2Jb\001c\r\n'; exit 65`)), "error2", "status 65 \\(data format error\\)\ra\\[2Jbc\n")
	m.rcpts = []string{command("yes | head -c 1000000; exit 65")}
	said, tags := o.deliver(a, m)
	if tags != "-" || len(said) > 8000 {
		t.Errorf("%d bytes are said, tag %q", len(said), tags)
	}
}

// What comes through a pipe ends where the agent is killed.
func TestCommandGetsAllOrNothing(t *testing.T) {
	o := newTestSpool(t)
	a := o.agent(Options{Environ: []string{"PATH=/usr/bin:/bin"}})
	o.delivered(a, mail(command("test -f /dev/stdin && cat /dev/stdin /dev/stdin >twice")))
	if got := o.read("home/twice"); strings.Count(got, "hello\n") != 2 {
		t.Errorf("got %q", got)
	}
	t.Setenv("TMPDIR", o.path("none"))
	o.refused(a, mail(command("touch ran")), "deferred", "write the message")
	if _, err := os.Stat(o.path("home/ran")); err == nil {
		t.Error("it ran")
	}
}

func TestCommandIsNoOptionOfTheShell(t *testing.T) {
	o := newTestSpool(t)
	a := o.agent(Options{Environ: []string{"PATH=/usr/bin:/bin"}})
	o.refused(a, mail(command("-c 'exit 65'")), "deferred", `exit status 127`)
}

func TestCommandHasItsTime(t *testing.T) {
	o := newTestSpool(t)
	a := o.agent(Options{Environ: []string{"PATH=/usr/bin:/bin"}, TimeLimit: time.Second})
	// What it starts dies with it, or the wait for its output would last.
	o.refused(a, mail(command("sleep 1000 & sleep 1000")), "deferred", `killed after 1s`)
}

func TestPrivilegeOfNobodyIsRefused(t *testing.T) {
	o := newTestSpool(t)
	a := o.agent(Options{})
	for _, privilege := range []string{"65534", "65535", "-1", "-2", "4294967294", "", "99999"} {
		o.refused(a, mail(`"|touch `+o.path("home/done")+`" `+privilege), "error2", `5\.7\.1.*commands is not allowed`)
		o.refused(a, mail(o.path("home/done")+" "+privilege), "error2", `5\.7\.1.*files is not allowed`)
	}
	if _, err := os.Stat(o.path("home/done")); err == nil {
		t.Error("it was done")
	}
}

func TestOrdinaryUserDeliversOnlyToItself(t *testing.T) {
	o := newTestSpool(t)
	a := o.agent(Options{})
	a.uid = 4712
	for _, r := range []string{"bob 0", command("true"), o.path("home/file") + " " + us} {
		o.refused(a, mail(r), "deferred", `runs as user 4712 and cannot act as "bob"`)
	}
}

func TestEmptyCommandIsNone(t *testing.T) {
	o := newTestSpool(t)
	for _, word := range []string{"|", `"| "`, `|""`} {
		o.refused(o.agent(Options{}), mail(word+" "+us), "error2", `5\.1\.3`)
	}
}

func TestUnknownUser(t *testing.T) {
	o := newTestSpool(t)
	a := o.agent(Options{})
	for _, user := range []string{"eve", "Eve", "BOb2", "carol", "-", `""`, "+bob", "eve+bob"} {
		o.refused(a, mail(user+" 0"), "error2", `5\.1\.1 \(no such user\)`)
	}
	o.delivered(a, mail("Bob 0", "BOB@example.com 0", "Carol 0", "bob+lists 0", "Bob+a+b@example.com 0"))
	a.ByName = func(string) (*ta.Account, error) { return nil, os.ErrDeadlineExceeded }
	o.refused(a, mail("bob 0"), "deferred", `look up user "bob": `)
}
