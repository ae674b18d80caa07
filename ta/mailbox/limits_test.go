package mailbox

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"zsched/ta"
)

// A file that must not grow so far leaves mailboxes as they were.
func TestFileSizeLimitDefers(t *testing.T) {
	for _, name := range []string{"spool/bob", "spool/box/"} {
		o := newTestSpool(t)
		if name == "spool/bob" {
			o.write(name, "old\n\n")
		}
		_, said := startProcess(t, "limited", o.requestFor(name).json(t), "100000")
		var out outcome
		if err := json.NewDecoder(said).Decode(&out); err != nil {
			t.Fatal(err)
		}
		if out.Status != ta.Deferred || out.Code != "4.2.2 (over quota)" || !strings.Contains(out.Text, "file too large") {
			t.Errorf("%s: %+v", name, out)
		}
		left := fmt.Sprint(o.names("spool"), o.names("spool/box/tmp"), o.names("spool/box/new"))
		expect(t, left, map[bool]string{true: "[bob] [] []", false: "[box] [] []"}[name == "spool/bob"])
		if name == "spool/bob" {
			expect(t, o.read(name), "old\n\n")
		}
	}
}

func TestErrorsMeanWhatTheyShould(t *testing.T) {
	for _, c := range []struct {
		err    error
		fatal  bool
		status ta.Status
		code   string
	}{
		{syscall.EDQUOT, false, ta.Deferred, "4.2.2"},
		{syscall.EDQUOT, true, ta.Error, "5.2.2"},
		{syscall.EFBIG, true, ta.Deferred, "4.2.2"},
		{syscall.ENOSPC, true, ta.Deferred, "4.3.1"},
		{syscall.EACCES, true, ta.Deferred, "4.2.0"},
		{syscall.EIO, true, ta.Deferred, "4.3.0"},
	} {
		err := &os.PathError{Op: "write", Path: "box", Err: c.err}
		if out := failed(err, c.fatal); out.Status != c.status || !strings.HasPrefix(out.Code, c.code) {
			t.Errorf("%v, fatal %t: %+v", c.err, c.fatal, out)
		}
	}
}

// Sessions of one process keep out of each other's way as processes do.
func TestManyDeliverToOneMbox(t *testing.T) {
	const sessions, messages = 4, 5
	o := newTestSpool(t)
	var wait sync.WaitGroup
	for range sessions {
		wait.Go(func() {
			for range messages {
				request := o.requestFor("spool/bob")
				request.LockWait = patience
				body := strings.NewReader(strings.Repeat("a line\n", 20000))
				request.Message = &message{Separator: []byte("From x\n"), Header: []byte("A: b\n"), Length: body.Size(), file: body}
				if out := request.do(); out.Status != ta.OK {
					t.Errorf("%+v", out)
				}
			}
		})
	}
	wait.Wait()
	text := o.read("spool/bob")
	one := "From x\nA: b\n\n" + strings.Repeat("a line\n", 20000) + "\n"
	if text != strings.Repeat(one, sessions*messages) {
		t.Errorf("%d bytes of %d, %d separators", len(text), len(one)*sessions*messages, strings.Count(text, "From x"))
	}
	expect(t, fmt.Sprint(o.names("spool")), "[bob]")
}

func TestDeliveryLog(t *testing.T) {
	o := newTestSpool(t)
	log := o.path("log")
	a := o.agent(Options{Log: log, Environ: []string{"PATH=/usr/bin:/bin"}})
	o.delivered(a, mail("bob 0", command("cat >letter"), "/dev/null "+us))
	size := len(o.read("spool/bob"))
	o.delivered(a, mail("bob 0"))
	o.refused(a, mail("eve 0"), "error2", "no such user")
	expect(t, o.read("log"), fmt.Sprintf("<m@example.net> 0 %d %s\n<m@example.net> 0 %d |cat >letter\n<m@example.net> 0 0 /dev/null\n<m@example.net> %d %d %s\n",
		size, o.path("spool/bob"), len(o.read("home/letter")), size, size, o.path("spool/bob")))

	var warned []string
	a.Log, a.Warn = o.path("none/such"), func(line string) { warned = append(warned, line) }
	o.delivered(a, mail("bob 0"))
	if len(warned) != 1 || !strings.Contains(warned[0], "delivery log") {
		t.Errorf("%q", warned)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, options := range []Options{{Place: Place{Path: "relative"}}, {RootAs: "no such user"}} {
		if _, err := New(options); err == nil {
			t.Errorf("%+v is accepted", options)
		}
	}
}

// A message file with holes may be larger than what can be read in a day.
func TestMessageThatTakesTooLongToReadIsDeferred(t *testing.T) {
	o := newTestSpool(t)
	o.write("spool/bob", "old\n\n")
	for _, options := range []Options{{}, {Place: Place{Path: o.path("spool") + "/%u.d/"}}} {
		options.MailboxLimit, options.TimeLimit = 1, 1
		a := o.agent(options)
		o.refused(a, mail("bob"), "deferred", "took more than 1ns")
		o.refused(a, mail(command("touch ran")), "deferred", "took more than 1ns")
	}
	expect(t, o.read("spool/bob"), "old\n\n")
	expect(t, fmt.Sprint(o.names("spool/bob.d/new"), o.names("spool/bob.d/tmp")), "[] []")
}
