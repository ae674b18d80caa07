package daemon

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"zsched/ctlfile"
	"zsched/mailq"
	"zsched/mailq/server"
	"zsched/scheduler"
	"zsched/scheduler/spool"
	"zsched/ta"
)

// act gives an order as it would be typed.
func (w *world) act(command string) (mailq.Outcome, error) {
	w.t.Helper()
	o := mailq.Order{By: mailq.Actor{User: "postmaster", Peer: "uid 0"}}
	words := strings.Fields(command)
	if words[len(words)-1] == "DRYRUN" {
		o.DryRun, words = true, words[:len(words)-1]
	}
	o.Verb = mailq.Verb(words[0])
	if o.Verb == mailq.Reroute {
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
			w.t.Fatal(err)
		}
		o.Where = &sel
	}
	return w.daemon.Queue().Act(w.t.Context(), o)
}

// want is the outcome that an order has to have.
func (w *world) want(command string, messages, recipients, threads int) {
	w.t.Helper()
	did, err := w.act(command)
	if want := (mailq.Outcome{Messages: messages, Recipients: recipients, Threads: threads}); err != nil || did != want {
		w.t.Errorf("%s did %+v, %v; want %+v", command, did, err, want)
	}
	synctest.Wait()
}

// delivered are the hosts that mail was delivered to, in order.
func (w *world) delivered() string {
	var hosts []string
	for line := range strings.Lines(w.stats.String()) {
		if words := strings.Fields(line); strings.HasPrefix(words[3], "ok") {
			hosts = append(hosts, strings.TrimPrefix(words[4], "smtp/"))
		}
	}
	return strings.Join(hosts, " ")
}

// loaded is a world with three messages that wait for a retry, at two hosts,
// and with agents that deliver from now on.
func loaded(t *testing.T) *world {
	w := newWorld(t, nil)
	good := false
	w.play = func(p *puppet, job ta.Job) {
		if good {
			p.reportAll(job, ta.OK2, "delivered")
		} else {
			deferAll(p, job)
		}
	}
	w.run()
	for i, hosts := range [][]string{{"a.example", "b.example"}, {"a.example"}, {"b.example"}} {
		w.spool.bring(uint64(i+1), hosts...)
		synctest.Wait()
	}
	good = true
	return w
}

func TestKillDropsMailSilently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := loaded(t)
		w.want("KILL MSG 1 DRYRUN", 1, 2, 2)
		w.want("KILL MSG 1", 1, 2, 2)
		w.want("KILL MSG 1", 0, 0, 0)
		w.want("KILL THREAD SMTP A.example", 1, 1, 1)
		if w.spool.left() != 1 || w.stats.String() != "" {
			t.Errorf("%d control files left, statistics %q", w.spool.left(), w.stats)
		}
		w.stop(syscall.SIGTERM)
	})
}

func TestExpireFailsMailWithANotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := loaded(t)
		w.want("EXPIRE WHERE host=b.*", 2, 2, 1)
		if n := strings.Count(w.stats.String(), " expire smtp/b.example\n"); n != 2 {
			t.Errorf("statistics are %q", w.stats)
		}
		w.stop(syscall.SIGTERM)
	})
}

func TestRetryMakesMailDueNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := loaded(t)
		w.want("RETRY THREAD smtp a.example", 2, 2, 1)
		if got := w.delivered(); got != "a.example a.example" {
			t.Errorf("delivered to %s", got)
		}
		w.want("RETRY MSG 3", 1, 1, 1)
		if got := w.delivered(); got != "a.example a.example b.example" {
			t.Errorf("delivered to %s", got)
		}
		w.stop(syscall.SIGTERM)
	})
}

func TestHeldMessageWaitsInItsPlaceUntilReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := loaded(t)
		w.want("HOLD MSG 1", 1, 2, 2)
		if w.spool.left() != 2 || w.spool.heldFiles() != 1 {
			t.Errorf("%d left, %d held", w.spool.left(), w.spool.heldFiles())
		}
		m, found, err := w.daemon.Queue().Message(t.Context(), "1")
		if err != nil || !found || !m.Held || m.Recipients[0].State != "held" {
			t.Errorf("%+v, %v, %v", m, found, err)
		}
		w.want("RETRY MSG 1", 0, 0, 0)
		w.want("HOLD MSG 1", 0, 0, 0)
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := w.delivered(); got != "a.example b.example" && got != "b.example a.example" {
			t.Errorf("delivered to %s", got)
		}
		w.want("RELEASE MSG 1 DRYRUN", 1, 2, 2)
		w.want("RELEASE MSG 1", 1, 2, 2)
		if w.spool.left() != 0 || w.spool.heldFiles() != 0 {
			t.Errorf("%d left, %d held", w.spool.left(), w.spool.heldFiles())
		}
		w.stop(syscall.SIGTERM)
	})
}

// A released message gets an attempt however old it is.
func TestReleasedMessageIsTriedBeforeItExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := loaded(t)
		w.want("HOLD WHERE sender=rayan", 3, 4, 2)
		time.Sleep(30 * 24 * time.Hour)
		w.want("RELEASE WHERE host=a.example", 2, 3, 2)
		if got := w.delivered(); strings.Count(got, "example") != 3 || strings.Contains(w.stats.String(), "expire") {
			t.Errorf("statistics are %q", w.stats)
		}
		w.stop(syscall.SIGTERM)
	})
}

// What somebody else has released since it was looked up does not keep the
// rest.
func TestReleaseOfASelectionGoesOnWhereOneIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := loaded(t)
		w.want("HOLD WHERE sender=rayan", 3, 4, 2)
		w.spool.meanwhile = func() { delete(w.spool.held, "1") }
		w.want("RELEASE WHERE sender=rayan", 2, 2, 2)
		if w.spool.heldFiles() != 0 || w.spool.left() != 0 {
			t.Errorf("%d left, %d held", w.spool.left(), w.spool.heldFiles())
		}
		w.stop(syscall.SIGTERM)
	})
}

// It went to the router: that what is left of it was released by another is no
// failure.
func TestRequeueOfAHeldMessageThatIsReleasedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := loaded(t)
		w.want("HOLD MSG 2", 1, 1, 1)
		w.spool.meanwhile = func() { delete(w.spool.held, "2") }
		w.want("REQUEUE MSG 2", 1, 1, 1)
		w.stop(syscall.SIGTERM)
	})
}

func TestHeldMessageCanEndWhereItLies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := loaded(t)
		w.want("HOLD WHERE host=*", 3, 4, 2)
		w.want("KILL MSG 1", 1, 2, 2)
		w.want("EXPIRE MSG 2", 1, 1, 1)
		if w.spool.heldFiles() != 1 || w.spool.left() != 0 {
			t.Errorf("%d left, %d held", w.spool.left(), w.spool.heldFiles())
		}
		w.want("REQUEUE MSG 3", 1, 1, 1)
		if w.spool.heldFiles() != 0 || w.spool.left() != 0 || fmt.Sprint(w.spool.sent) != "[3 [b.example]]" {
			t.Errorf("%d left, %d held, sent %v", w.spool.left(), w.spool.heldFiles(), w.spool.sent)
		}
		if got := w.delivered(); got != "" {
			t.Errorf("delivered to %s", got)
		}
		w.stop(syscall.SIGTERM)
	})
}

func TestHeldMessageCanBeRerouted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := loaded(t)
		w.want("HOLD MSG 1", 1, 2, 2)
		w.want("REROUTE MSG 1 smtp relay.example", 1, 2, 2)
		if got := w.delivered(); got != "relay.example relay.example" || w.spool.heldFiles() != 0 {
			t.Errorf("delivered to %s, %d held", got, w.spool.heldFiles())
		}
		w.stop(syscall.SIGTERM)
	})
}

// What an agent has is held when it comes back.
func TestHoldWaitsForTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.play = func(p *puppet, job ta.Job) {
			time.Sleep(time.Minute)
			deferAll(p, job)
		}
		w.run()
		w.spool.bring(1, "a.example")
		synctest.Wait()
		w.want("HOLD MSG 1", 1, 1, 1)
		if w.spool.heldFiles() != 0 {
			t.Error("it was taken from the agent")
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if w.spool.heldFiles() != 1 {
			t.Error("it was not held")
		}
		w.stop(syscall.SIGTERM)
	})
}

func TestHeldThreadKeepsWhatComesAlsoOverARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := loaded(t)
		w.want("HOLD THREAD smtp a.example DRYRUN", 2, 2, 1)
		w.want("HOLD THREAD smtp a.example", 2, 2, 1)
		w.want("HOLD THREAD smtp a.example", 0, 0, 0)
		w.stop(syscall.SIGTERM)
		w.run()
		for i := range 4 {
			w.spool.bring(uint64(i+1), "a.example")
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		row, _, _ := w.daemon.Queue().Thread(t.Context(), mailq.Name{Channel: "smtp", Host: "a.example"})
		if row.Thread == nil || !row.Thread.Held || strings.Contains(w.delivered(), "a.example") {
			t.Errorf("the thread is %+v, delivered to %s", row.Thread, w.delivered())
		}
		w.want("RELEASE THREAD smtp a.example", 4, 4, 1)
		if len(w.spool.threads) != 0 || strings.Count(w.delivered(), "a.example") != 4 {
			t.Errorf("held are %v, delivered to %s", w.spool.threads, w.delivered())
		}
		w.stop(syscall.SIGTERM)
	})
}

// A hold that cannot be written is no hold: it would be gone after a restart.
func TestHoldThatCannotBeWrittenIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := loaded(t)
		w.spool.fail(syscall.EACCES)
		if did, err := w.act("HOLD THREAD smtp a.example"); err == nil {
			t.Errorf("held: %+v", did)
		}
		w.spool.fail(nil)
		w.want("HOLD THREAD smtp b.example", 2, 2, 1)
		if fmt.Sprint(w.spool.threads) != "[{smtp b.example}]" {
			t.Errorf("held are %v", w.spool.threads)
		}
		w.spool.fail(syscall.EACCES)
		if did, err := w.act("RELEASE THREAD smtp b.example"); err == nil {
			t.Errorf("released: %+v", did)
		}
		w.spool.fail(nil)
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := w.delivered(); got != "a.example a.example" {
			t.Errorf("delivered to %s", got)
		}
		w.want("RELEASE WHERE host=b.*", 2, 2, 1)
		if got := w.delivered(); got != "a.example a.example b.example b.example" {
			t.Errorf("delivered to %s", got)
		}
		w.stop(syscall.SIGTERM)
	})
}

func TestRequeueGivesMailBackToTheRouter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := loaded(t)
		w.want("REQUEUE MSG 1", 1, 2, 2)
		w.want("REQUEUE WHERE host=a.example", 1, 1, 1)
		if got := fmt.Sprint(w.spool.sent); got != "[1 [a.example b.example] 2 [a.example]]" || w.spool.left() != 1 {
			t.Errorf("sent are %s, %d left", got, w.spool.left())
		}
		w.stop(syscall.SIGTERM)
	})
}

// The router is given each message once, with all that was selected of it.
func TestRequeueOfASelectionGoesByMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := loaded(t)
		w.want("REQUEUE WHERE host=*.example DRYRUN", 3, 4, 2)
		w.want("REQUEUE WHERE host=*.example", 3, 4, 2)
		if got := fmt.Sprint(w.spool.sent); got != "[1 [a.example b.example] 2 [a.example] 3 [b.example]]" || w.spool.left() != 0 {
			t.Errorf("sent are %s, %d left", got, w.spool.left())
		}
		w.stop(syscall.SIGTERM)
	})
}

func TestRerouteSendsMailAnotherWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := loaded(t)
		w.want("REROUTE THREAD smtp a.example smtp Relay.example", 2, 2, 1)
		if got := w.delivered(); got != "relay.example relay.example" {
			t.Errorf("delivered to %s", got)
		}
		// What comes of it is not met again.
		w.want("REROUTE WHERE channel=smtp smtp relay.example", 2, 2, 1)
		if w.spool.left() != 0 {
			t.Errorf("%d left", w.spool.left())
		}
		w.stop(syscall.SIGTERM)
	})
}

// What could not be sent elsewhere is due where it was.
func TestRerouteThatFailsLeavesTheMail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := loaded(t)
		w.spool.fail(syscall.EACCES)
		w.want("REROUTE MSG 2 smtp relay.example", 1, 1, 1)
		w.spool.fail(nil)
		synctest.Wait()
		if got := w.delivered(); got != "a.example" {
			t.Errorf("delivered to %s", got)
		}
		w.stop(syscall.SIGTERM)
	})
}

// A recipient that went counts as gone although another stayed locked.
func TestRerouteInPartFailsAsAWhole(t *testing.T) {
	for _, c := range []struct {
		went   []int64
		states []spool.State
		err    error
		done   bool
	}{
		{went: []int64{100, 150}, done: true},
		{went: []int64{100, 150}, err: syscall.EIO, done: true},
		{went: []int64{100}, states: []spool.State{{Offset: 150, Tag: ctlfile.Delivered}}, done: true},
		{went: []int64{100}, states: []spool.State{{Offset: 150, Tag: ctlfile.Locked}}},
		{err: syscall.ENOSPC},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil)
			w.options.Verbose = true
			d := New(w.options)
			d.resubmits[5] = []int64{100, 150}
			d.resubmitAnswered(spool.Resubmitted{Op: 5, Offsets: c.went, Recipients: c.states, Err: c.err})
			if done := strings.Contains(w.log.String(), `"event":"Done"`); done != c.done {
				t.Errorf("%+v: done is %v", c, done)
			}
		})
	}
}

// What was put aside because agents died on it is let go by a release.
func TestReleaseGivesPoisonAnotherChance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		deaths := 0
		w.play = func(p *puppet, job ta.Job) {
			if deaths++; deaths <= 3 {
				p.Signal(syscall.SIGSEGV)
				return
			}
			p.reportAll(job, ta.OK2, "delivered")
		}
		w.run()
		w.spool.bring(1, "a.example")
		time.Sleep(time.Hour)
		synctest.Wait()
		if deaths != 3 || w.spool.left() != 1 {
			t.Fatalf("%d deaths, %d left", deaths, w.spool.left())
		}
		row, _, err := w.daemon.Queue().Thread(t.Context(), mailq.Name{Channel: "smtp", Host: "a.example"})
		if err != nil || row.Thread.Pending != mailq.PendingPoison || row.Thread.Attempts != 3 {
			t.Errorf("the thread shows %+v, %v", row.Thread, err)
		}
		w.want("RELEASE MSG 1", 1, 1, 1)
		if w.spool.left() != 0 {
			t.Error("it was not delivered")
		}
		w.stop(syscall.SIGTERM)
	})
}

// A large order is given in parts and waits for the disk; meanwhile the loop
// hears others.
func TestLargeOrderIsGivenInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(p *scheduler.Params) { p.QueueOnly = true })
		w.run()
		const total = 5000
		for first := 0; first < total; first += 250 {
			var names []spool.Name
			for i := range 250 {
				names = append(names, w.spool.put(uint64(first+i+1), fmt.Sprintf("h%d.example", i)))
			}
			w.spool.found <- names
		}
		synctest.Wait()
		w.want("KILL WHERE host=*.example DRYRUN", total, total, 250)
		w.want("KILL WHERE host=*.example", total, total, 250)
		time.Sleep(time.Minute)
		synctest.Wait()
		if w.spool.left() != 0 {
			t.Errorf("%d left", w.spool.left())
		}
		w.stop(syscall.SIGTERM)
	})
}

// A message of very many destinations counts as many.
func TestOrderAboutLargeMessagesIsGivenInSmallParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(p *scheduler.Params) { p.QueueOnly = true })
		w.options.Verbose = true
		w.run()
		hosts := make([]string, 1500)
		for i := range hosts {
			hosts[i] = fmt.Sprintf("h%d.example", i)
		}
		for i := range 6 {
			w.spool.bring(uint64(i+1), hosts...)
		}
		synctest.Wait()
		w.want("HOLD WHERE sender=rayan", 6, 6*1500, 1500)
		if n := strings.Count(w.log.String(), `"event":"Ordered"`); n != 6 {
			t.Errorf("given in %d parts", n)
		}
		w.stop(syscall.SIGTERM)
	})
}

func TestOrderWithoutSenseIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := loaded(t)
		for _, o := range []mailq.Order{
			{Verb: mailq.Kill},
			{Verb: mailq.Reroute, Message: "1"},
			// No control file can say that.
			{Verb: mailq.Reroute, Message: "1", To: mailq.Name{Channel: "smtp", Host: "a\nr"}},
			{Verb: mailq.Reroute, Message: "1", To: mailq.Name{Channel: "smtp\x00", Host: "a"}},
		} {
			if did, err := w.daemon.Queue().Act(t.Context(), o); err == nil {
				t.Errorf("%+v did %+v", o, did)
			}
		}
		w.want("KILL MSG rubbish", 0, 0, 0)
		w.want("KILL MSG 99", 0, 0, 0)
		w.stop(syscall.SIGTERM)
	})
}

// Strangers who come in thousands do not fill the log; orders are all there.
func TestStrangersAreLoggedWithRestraint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		d := New(w.options)
		for range 1000 {
			d.noteQuery(server.Note{Kind: server.NoteFull, Peer: "192.0.2.1"})
			d.noteQuery(server.Note{Kind: server.NoteOrder, Order: &mailq.Order{Verb: mailq.Kill, Message: "7"}})
		}
		time.Sleep(time.Second)
		d.noteQuery(server.Note{Kind: server.NoteFull, Peer: "192.0.2.1"})
		log := w.log.String()
		if n, orders := strings.Count(log, string(server.NoteFull)), strings.Count(log, "KILL MSG 7"); n != chatter+1 || orders != 1000 {
			t.Errorf("%d lines, and %d of orders", n, orders)
		}
		if !strings.Contains(log, `"unlogged":995`) {
			t.Error("how many are missing is not said")
		}
	})
}

// Who gave which order, and why, is in the log.
func TestOrderIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		d := New(w.options)
		d.noteQuery(server.Note{
			Kind: server.NoteOrder, User: "postmaster", Peer: "192.0.2.1",
			Order:   &mailq.Order{Verb: mailq.Kill, Message: "7", Why: "spam run"},
			Outcome: mailq.Outcome{Messages: 1, Recipients: 2, Threads: 1},
		})
		for _, want := range []string{`"user":"postmaster"`, `"peer":"192.0.2.1"`, `"order":"KILL MSG 7"`, `"reason":"spam run"`, `"recipients":2`, `"message":"order"`} {
			if !strings.Contains(w.log.String(), want) {
				t.Errorf("no %s in %s", want, w.log)
			}
		}
		d.noteQuery(server.Note{Kind: server.NoteTrigger, User: "etrn", Peer: "192.0.2.2", Host: "a.example", Text: "192.0.2.9@mx", Started: true})
		if !strings.Contains(w.log.String(), `"host":"a.example","request":"192.0.2.9@mx","started":true`) {
			t.Errorf("the log is %s", w.log)
		}
	})
}

// The loop hears nobody else while it looks: with a list through a list a
// million recipients would take it a quarter of an hour.
func TestResubmittedOfAMillion(t *testing.T) {
	const n = 1_000_000
	asked := make([]int64, n)
	r := spool.Resubmitted{Offsets: make([]int64, n/2), Recipients: make([]spool.State, n)}
	for i := range asked {
		asked[i] = int64(100 * i)
		r.Recipients[i] = spool.State{Offset: asked[i], Tag: ctlfile.Open}
		if i < n/2 {
			r.Offsets[i] = asked[i]
		} else {
			r.Recipients[i].Tag = ctlfile.Delivered
		}
	}
	if !allWent(asked, r) {
		t.Error("not all went")
	}
	r.Recipients[n-1].Tag = ctlfile.Locked
	if allWent(asked, r) {
		t.Error("all went, also the one who is locked")
	}
}
