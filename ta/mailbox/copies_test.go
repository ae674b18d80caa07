package mailbox

import (
	"strings"
	"testing"
)

// A sender can make any number of addresses of one mailbox, and names and domains that
// differ in the case of their letters.
func TestMailboxGetsOneCopyOfAMessage(t *testing.T) {
	addresses := []string{"bob+1@a.example 0", "bob+2@a.example 0", "bob@A.EXAMPLE 0", "BOB@b.example 0", "Carol@a.example 0", "bob 0"}
	t.Run("mbox", func(t *testing.T) {
		o := newTestSpool(t)
		log := o.path("log")
		said, tags := o.deliver(o.agent(Options{Log: log}), mail(addresses...))
		expect(t, tags, "++++++")
		text := o.read("spool/bob")
		if strings.Count(text, "hello") != 1 || !strings.Contains(text, "X-Orig-To: bob+1@a.example\n") {
			t.Errorf("bob got %s", text)
		}
		if text := o.read("spool/Carol"); strings.Count(text, "hello") != 1 {
			t.Errorf("Carol got %s", text)
		}
		if lines := strings.Count(o.read("log"), "\n"); lines != 2 {
			t.Errorf("%d lines in the delivery log", lines)
		}
		if n := strings.Count(said, "\tok"); n != len(addresses) {
			t.Errorf("%d successes in %q", n, said)
		}
		// It is another message the next time.
		o.delivered(o.agent(Options{}), mail(addresses...))
		if n := strings.Count(o.read("spool/bob"), "hello"); n != 2 {
			t.Errorf("%d copies of two messages", n)
		}
	})
	t.Run("Maildir", func(t *testing.T) {
		o := newTestSpool(t)
		o.delivered(o.agent(Options{Place: Place{Path: o.path("spool") + "/%u/"}}), mail(addresses...))
		if n := len(o.names("spool/bob/new")); n != 1 {
			t.Errorf("%d copies", n)
		}
	})
	t.Run("a Maildir for each domain", func(t *testing.T) {
		o := newTestSpool(t)
		o.mkdir("spool/a.example")
		o.mkdir("spool/b.example")
		o.delivered(o.agent(Options{Place: Place{Path: o.path("spool") + "/%D/%u/"}}), mail(addresses[:5]...))
		if a, b := len(o.names("spool/a.example/bob/new")), len(o.names("spool/b.example/bob/new")); a != 1 || b != 1 {
			t.Errorf("%d and %d copies", a, b)
		}
	})
}

// Recipients with a header of their own get their own copy.
func TestCopiesDifferInHeaderAndSender(t *testing.T) {
	o := newTestSpool(t)
	_, tags := o.deliver(o.agent(Options{}), mail("bob 0\nm\nSubject: first\n\ns smtp mx carol@example.net 0\nr           local - bob+1 0", "bob+2 0"))
	expect(t, tags, "+++")
	if text := o.read("spool/bob"); strings.Count(text, "hello") != 2 || !strings.Contains(text, "Subject: first") || !strings.Contains(text, "Subject: x") {
		t.Errorf("bob got %s", text)
	}
}

// The other addresses of a mailbox wait with the first, and none of them hides a loop of
// another.
func TestAddressesOfOneMailboxShareTheOutcome(t *testing.T) {
	o := newTestSpool(t)
	o.write("spool/bob.lock", "")
	said, tags := o.deliver(o.agent(Options{}), mail("bob+1 0", "bob+2 0"))
	if expect(t, tags, "  "); strings.Count(said, "\tdeferred ") != 2 {
		t.Errorf("%q", said)
	}
	o = newTestSpool(t)
	m := mail("bob@a.example 0", "bob@b.example 0", "bob+1@a.example 0", "bob+1@b.example 0")
	m.headers += "Delivered-To: bob@a.example\n"
	_, tags = o.deliver(o.agent(Options{}), m)
	expect(t, tags, "-+-+")
	if n := strings.Count(o.read("spool/bob"), "hello"); n != 1 {
		t.Errorf("%d copies", n)
	}
}

// Commands of aliases may be the same and yet mean different addresses.
func TestCommandRunsForEachAddress(t *testing.T) {
	o := newTestSpool(t)
	a := o.agent(Options{Environ: []string{"PATH=/usr/bin:/bin"}})
	o.delivered(a, mail(command("echo x >>runs"), command("echo x >>runs")))
	expect(t, o.read("home/runs"), "x\nx\n")
}
