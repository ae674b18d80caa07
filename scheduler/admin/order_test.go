package admin

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"zsched/ctlfile"
	"zsched/internal/units"
	"zsched/mailq"
	"zsched/scheduler/daemon"
	"zsched/scheduler/daemon/daemontest"
	"zsched/scheduler/rule"
	"zsched/scheduler/spool"
	"zsched/scheduler/view"
	"zsched/ta"
)

// act gives an order as it would be typed.
func (h *harness) act(command string) (mailq.Outcome, error) {
	h.t.Helper()
	o := mailq.Order{By: mailq.Actor{User: "postmaster", Peer: "uid 0"}}
	words := strings.Fields(command)
	if words[len(words)-1] == "DRYRUN" {
		o.DryRun, words = true, words[:len(words)-1]
	}
	if n := len(words) - 2; words[n] == "FOR" {
		o.For, words = parseSpan(h.t, words[n+1]), words[:n]
	}
	o.Verb = view.Verb(words[0])
	if o.Verb == view.VerbReroute {
		n := len(words)
		o.To, words = mailq.Name{Channel: words[n-2], Host: words[n-1]}, words[:n-2]
	}
	switch words[1] {
	case "MSG":
		o.Message = words[2]
	case "THREAD":
		o.Thread = &mailq.Name{Channel: words[2], Host: words[3]}
	case "WHERE":
		sel, err := mailq.ParseSelection(strings.Join(words[2:], " "))
		if err != nil {
			h.t.Fatal(err)
		}
		o.Where = &sel
	}
	return h.queue().Act(h.t.Context(), o)
}

func parseSpan(t *testing.T, s string) time.Duration {
	d, err := units.ParseInterval(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// wantKeptBack is the outcome of an order on mail that is held, and on no other.
func (h *harness) wantKeptBack(command string, messages int) {
	h.t.Helper()
	h.wantOutcome(command, mailq.Outcome{KeptBack: messages})
}

// want is the outcome that an order has to have.
func (h *harness) want(command string, messages, recipients, threads int) {
	h.t.Helper()
	h.wantOutcome(command, mailq.Outcome{Messages: messages, Recipients: recipients, Threads: threads})
}

// wantWithAgent is the outcome of an order about one message that an agent has.
func (h *harness) wantWithAgent(command string, recipients, threads int) {
	h.t.Helper()
	h.wantOutcome(command, mailq.Outcome{Messages: 1, Recipients: recipients, Threads: threads, WithAgents: 1})
}

func (h *harness) wantOutcome(command string, want mailq.Outcome) {
	h.t.Helper()
	if did, err := h.act(command); err != nil || did != want {
		h.t.Errorf("%s did %+v, %v; want %+v", command, did, err, want)
	}
	synctest.Wait()
}

// delivered are the hosts that mail was delivered to, in order.
func (h *harness) delivered() string {
	var hosts []string
	for line := range strings.Lines(h.Stats.String()) {
		if words := strings.Fields(line); strings.HasPrefix(words[3], "ok") {
			hosts = append(hosts, strings.TrimPrefix(words[4], "smtp/"))
		}
	}
	return strings.Join(hosts, " ")
}

func (h *harness) wantDelivered(hosts string) {
	h.t.Helper()
	if got := h.delivered(); got != hosts {
		h.t.Errorf("delivered to %q, not to %q", got, hosts)
	}
}

// wantFiles checks how many control files are in the queue, and how many are held.
func (h *harness) wantFiles(queued, held int) {
	h.t.Helper()
	if h.Spool.Left() != queued || h.Spool.HeldFiles() != held {
		h.t.Errorf("%d left, %d held; want %d and %d", h.Spool.Left(), h.Spool.HeldFiles(), queued, held)
	}
}

// pass lets time pass, and waits until all that is due then has happened.
func (h *harness) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// loaded is a world with three messages that wait for a retry, at two hosts,
// and with agents that deliver from now on.
func loaded(t *testing.T) *harness {
	h := newHarness(t, nil)
	good := false
	h.Deliver = func(a *daemontest.FakeAgent, job ta.JobLine) {
		if good {
			a.ReportAll(job, ta.OK2, "delivered")
		} else {
			deferAll(a, job)
		}
	}
	h.Run()
	for i, hosts := range [][]string{{"a.example", "b.example"}, {"a.example"}, {"b.example"}} {
		h.Spool.Announce(uint64(i+1), hosts...)
		synctest.Wait()
	}
	good = true
	return h
}

func TestKillDropsMailSilently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := loaded(t)
		h.want("KILL MSG 1 DRYRUN", 1, 2, 2)
		h.want("KILL MSG 1", 1, 2, 2)
		h.want("KILL MSG 1", 0, 0, 0)
		h.want("KILL THREAD SMTP A.example", 1, 1, 1)
		if h.Spool.Left() != 1 || h.Stats.String() != "" {
			t.Errorf("%d control files left, statistics %q", h.Spool.Left(), h.Stats)
		}
		h.Stop(syscall.SIGTERM)
	})
}

func TestExpireFailsMailWithANotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := loaded(t)
		h.want("EXPIRE WHERE host=b.*", 2, 2, 1)
		if n := strings.Count(h.Stats.String(), " expire smtp/b.example\n"); n != 2 {
			t.Errorf("statistics are %q", h.Stats)
		}
		h.Stop(syscall.SIGTERM)
	})
}

func TestRetryMakesMailDueNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := loaded(t)
		h.want("RETRY THREAD smtp a.example", 2, 2, 1)
		h.wantDelivered("a.example a.example")
		h.want("RETRY MSG 3", 1, 1, 1)
		h.wantDelivered("a.example a.example b.example")
		h.Stop(syscall.SIGTERM)
	})
}

func TestRequeueGivesMailBackToTheRouter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := loaded(t)
		h.want("REQUEUE MSG 1", 1, 2, 2)
		h.want("REQUEUE WHERE host=a.example", 1, 1, 1)
		if got := fmt.Sprint(h.Spool.Sent); got != "[1 [a.example b.example] 2 [a.example]]" || h.Spool.Left() != 1 {
			t.Errorf("sent are %s, %d left", got, h.Spool.Left())
		}
		h.Stop(syscall.SIGTERM)
	})
}

// The router is given each message once, with all that was selected of it.
func TestRequeueOfASelectionGoesByMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := loaded(t)
		h.want("REQUEUE WHERE host=*.example DRYRUN", 3, 4, 2)
		h.want("REQUEUE WHERE host=*.example", 3, 4, 2)
		if got := fmt.Sprint(h.Spool.Sent); got != "[1 [a.example b.example] 2 [a.example] 3 [b.example]]" || h.Spool.Left() != 0 {
			t.Errorf("sent are %s, %d left", got, h.Spool.Left())
		}
		h.Stop(syscall.SIGTERM)
	})
}

func TestRerouteSendsMailAnotherWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := loaded(t)
		h.want("REROUTE THREAD smtp a.example smtp Relay.example", 2, 2, 1)
		h.wantDelivered("relay.example relay.example")
		// What comes of it is not met again.
		h.want("REROUTE WHERE channel=smtp smtp relay.example", 2, 2, 1)
		if h.Spool.Left() != 0 {
			t.Errorf("%d left", h.Spool.Left())
		}
		h.Stop(syscall.SIGTERM)
	})
}

// What could not be sent elsewhere is in the queue as before.
func TestRerouteThatFailsLeavesTheMail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := loaded(t)
		h.Spool.Fail(syscall.EACCES)
		h.want("REROUTE MSG 2 smtp relay.example", 1, 1, 1)
		h.Spool.Fail(nil)
		synctest.Wait()
		h.want("RETRY MSG 2", 1, 1, 1) // it waits, as before
		h.wantDelivered("a.example")
		h.Stop(syscall.SIGTERM)
	})
}

// A large order is given in parts and waits for the disk; meanwhile the loop
// hears others.
func TestLargeOrderIsGivenInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, func(p *rule.Params) { p.QueueOnly = true })
		h.Run()
		const total = 5000
		for first := 0; first < total; first += 250 {
			var names []spool.Name
			for i := range 250 {
				names = append(names, h.Spool.Put(uint64(first+i+1), fmt.Sprintf("h%d.example", i)))
			}
			h.Spool.Names <- names
		}
		synctest.Wait()
		h.want("KILL WHERE host=*.example DRYRUN", total, total, 250)
		h.want("KILL WHERE host=*.example", total, total, 250)
		h.pass(time.Minute)
		if h.Spool.Left() != 0 {
			t.Errorf("%d left", h.Spool.Left())
		}
		h.Stop(syscall.SIGTERM)
	})
}

// A message of very many destinations counts as many.
func TestOrderAboutLargeMessagesIsGivenInSmallParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, func(p *rule.Params) { p.QueueOnly = true })
		h.Options.Verbose = true
		h.Run()
		hosts := make([]string, 1500)
		for i := range hosts {
			hosts[i] = fmt.Sprintf("h%d.example", i)
		}
		for i := range 6 {
			h.Spool.Announce(uint64(i+1), hosts...)
		}
		synctest.Wait()
		h.want("HOLD WHERE sender=rayan", 6, 6*1500, 1500)
		if n := strings.Count(h.Log.String(), `"event":"Ordered"`); n != 6 {
			t.Errorf("given in %d parts", n)
		}
		h.Stop(syscall.SIGTERM)
	})
}

func TestOrderWithoutSenseIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := loaded(t)
		for _, o := range []mailq.Order{
			{Verb: view.VerbKill},
			{Verb: view.VerbReroute, Message: "1"},
			// No control file can say that.
			{Verb: view.VerbReroute, Message: "1", To: mailq.Name{Channel: "smtp", Host: "a\nr"}},
			{Verb: view.VerbReroute, Message: "1", To: mailq.Name{Channel: "smtp\x00", Host: "a"}},
		} {
			if did, err := h.queue().Act(t.Context(), o); err == nil {
				t.Errorf("%+v did %+v", o, did)
			}
		}
		h.want("KILL MSG rubbish", 0, 0, 0)
		h.want("KILL MSG 99", 0, 0, 0)
		h.Stop(syscall.SIGTERM)
	})
}

// meanwhile does something before a question of an order.
type meanwhile struct {
	daemon.Port
	asked int
	do    func(asked int)
}

func (p *meanwhile) Ask(ctx context.Context, f func(*daemon.Loop)) error {
	p.asked++
	p.do(p.asked)
	return p.Port.Ask(ctx, f)
}

// A message that leaves the queue after it was looked up gives its number to another one. The order is
// not about that one.
func TestOrderIsNotAboutALaterMessageOfThatNumber(t *testing.T) {
	for _, command := range []string{
		"KILL MSG 1", "KILL MSG old", "EXPIRE MSG old", "HOLD MSG old", "KILL THREAD smtp a.example", "KILL WHERE host=a.example",
		"REROUTE WHERE recipient=u@a.example smtp c.example",
	} {
		for at := 3; replaceBefore(t, command, at); at++ {
		}
	}
}

// replaceBefore gives an order, and replaces message 1 before a question of that order to the loop. It
// reports whether the order asks as often.
func replaceBefore(t *testing.T, command string, at int) (asked bool) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, func(p *rule.Params) { p.QueueOnly = true })
		h.Run()
		defer h.Stop(syscall.SIGTERM)
		h.Spool.Announce(1, "a.example", "b.example")
		synctest.Wait()
		old := ctlfile.SpoolID(1, time.Now())
		others := h.queue()
		port := &meanwhile{Port: h.Daemon}
		port.do = func(question int) {
			if asked = question == at; !asked {
				return
			}
			if did, err := others.Act(t.Context(), mailq.Order{Verb: view.VerbKill, Message: old}); did.Messages != 1 || err != nil {
				t.Errorf("the first message: %+v, %v", did, err)
			}
			h.pass(time.Second)
			h.Spool.Announce(1, "a.example", "c.example")
			synctest.Wait()
			port.do = func(int) {}
		}
		h.server = New(Options{Port: port, Files: memoryFiles{h.Spool, &h.records}, Log: h.Options.Log})
		did, err := h.act(strings.Replace(command, "old", old, 1))
		synctest.Wait()
		if looks := strings.Contains(command, "WHERE") && at == 3; !asked || looks {
			return // it has not looked the message up yet
		}
		if err != nil || did.Recipients != 0 {
			t.Errorf("%s, before question %d: %+v, %v", command, at, did, err)
		}
		h.wantFiles(1, 0)
	})
	return asked
}
