package admin

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"zsched/mailq"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
	"zsched/scheduler/daemon/daemontest"
	"zsched/scheduler/spool"
	"zsched/scheduler/view"
	"zsched/ta"
)

func TestHeldMessageWaitsInItsPlaceUntilReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := loaded(t)
		h.want("HOLD MSG 1", 1, 2, 2)
		h.wantFiles(2, 1)
		m, found, err := h.queue().Message(t.Context(), "1")
		if err != nil || !found || !m.Held || m.Recipients[0].State != "held" {
			t.Errorf("%+v, %v, %v", m, found, err)
		}
		h.wantKeptBack("RETRY MSG 1", 1)
		h.want("HOLD MSG 1", 1, 2, 2)
		h.pass(time.Hour)
		if got := h.delivered(); got != "a.example b.example" && got != "b.example a.example" {
			t.Errorf("delivered to %s", got)
		}
		h.want("RELEASE MSG 1 DRYRUN", 1, 2, 2)
		h.want("RELEASE MSG 1", 1, 2, 2)
		h.wantFiles(0, 0)
		h.Stop(syscall.SIGTERM)
	})
}

// A released message gets an attempt however old it is.
func TestReleasedMessageIsTriedBeforeItExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := loaded(t)
		h.want("HOLD WHERE sender=rayan", 3, 4, 2)
		h.wantKeptBack("RETRY WHERE channel=smtp", 3)
		h.want("RETRY WHERE host=c.example", 0, 0, 0)
		h.want("RETRY WHERE state=waiting", 0, 0, 0)
		time.Sleep(30 * 24 * time.Hour)
		h.want("RELEASE WHERE host=a.example", 2, 3, 1)
		if got := h.delivered(); strings.Count(got, "example") != 3 || strings.Contains(h.Stats.String(), "expire") {
			t.Errorf("statistics are %q", h.Stats)
		}
		h.Stop(syscall.SIGTERM)
	})
}

// history has what the loop was told of messages that are released.
type history []string

func (h *history) Event(time.Time, scheduler.Event) {}

func (h *history) Action(_ time.Time, a scheduler.Action) {
	switch a := a.(type) {
	case scheduler.Condition:
		if a.Order == string(view.VerbRelease) {
			*h = append(*h, fmt.Sprint("order ", a.Message))
		}
	case scheduler.Release:
		*h = append(*h, fmt.Sprint("release ", a.Message))
	}
}

func (h *history) Result(time.Time, spool.Result) {}
func (h *history) Turn(time.Duration)             {}

func TestOrderIsReportedBeforeTheMessageThatItReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		seen := new(history)
		h.Harness.Options.Config.Events = true
		h.Harness.Options.Observers = []daemon.Observer{seen}
		h.Deliver = deferAll
		h.Run()
		var want []string
		for i := range 50 {
			h.Spool.Announce(uint64(i+1), "a.example")
			synctest.Wait()
			h.want(fmt.Sprint("HOLD MSG ", i+1), 1, 1, 1)
			h.want(fmt.Sprint("RELEASE MSG ", i+1), 1, 1, 1)
			want = append(want, fmt.Sprint("order ", i+1), fmt.Sprint("release ", i+1))
		}
		h.Stop(syscall.SIGTERM)
		if !slices.Equal(*seen, want) {
			t.Errorf("%q", *seen)
		}
	})
}

func TestHeldMessageCanEndWhereItLies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := loaded(t)
		h.want("HOLD WHERE host=*", 3, 4, 2)
		h.want("KILL MSG 1", 1, 2, 2)
		h.want("EXPIRE MSG 2", 1, 1, 1)
		h.wantFiles(0, 1)
		h.wantOutcome("REQUEUE MSG 3", mailq.Outcome{Messages: 1, Recipients: 1, Threads: 1})
		h.wantFiles(0, 0)
		if got := fmt.Sprint(h.Spool.Sent); got != "[3 [b.example]]" {
			t.Errorf("sent %s", got)
		}
		h.wantDelivered("")
		h.Stop(syscall.SIGTERM)
	})
}

func TestHeldMessageCanBeRerouted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := loaded(t)
		h.want("HOLD MSG 1", 1, 2, 2)
		h.want("REROUTE MSG 1 smtp relay.example", 1, 2, 2)
		if got := h.held(); got != "1001 relay.example by postmaster uid 0 open" {
			t.Errorf("held: %s", got)
		}
		h.want("RELEASE MSG 1001", 1, 2, 1)
		h.wantDelivered("relay.example relay.example")
		h.wantFiles(2, 0)
		h.Stop(syscall.SIGTERM)
	})
}

func TestReroutedMailStaysHeldForItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := loaded(t)
		h.want("HOLD WHERE sender=rayan FOR 1h", 3, 4, 2)
		h.want("REROUTE WHERE state=held smtp relay.example DRYRUN", 3, 4, 2)
		h.want("REROUTE WHERE state=held smtp relay.example", 3, 4, 2)
		if got := h.held(); strings.Count(got, " relay.example by postmaster uid 0 1h0m0s") != 3 {
			t.Errorf("held: %s", got)
		}
		h.pass(time.Hour + time.Minute)
		if got := h.delivered(); strings.Count(got, "relay.example") != 4 {
			t.Errorf("delivered to %s", got)
		}
		h.Stop(syscall.SIGTERM)
	})
}

// TestHoldThatHasNotBegunIsLost: the later order replaces it.
func TestHoldThatHasNotBegunIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := slow(t, time.Hour)
		h.wantWithAgent("HOLD MSG 1", 1, 1)
		h.wantOutcome("REQUEUE MSG 1", mailq.Outcome{Messages: 1, Recipients: 1, Threads: 1, WithAgents: 1})
		time.Sleep(2 * time.Hour) // the agent reports
		h.Stop(syscall.SIGTERM)
	})
}

// TestReleaseSaysThatAnOrderWaits: a HOLD replaces it.
func TestReleaseSaysThatAnOrderWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := slow(t, time.Hour)
		h.wantWithAgent("KILL MSG 1", 1, 1)
		h.wantOutcome("RELEASE MSG 1", mailq.Outcome{Refused: 1})
		h.wantWithAgent("HOLD MSG 1", 1, 1)
		h.want("RELEASE MSG 1", 1, 1, 1)
		h.pass(2 * time.Hour)
		h.wantDelivered("a.example")
		h.Stop(syscall.SIGTERM)
	})
}

// TestOrdersOnAPartOfAHeldMessage: the rest of it stays held.
func TestOrdersOnAPartOfAHeldMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := loaded(t)
		h.want("HOLD MSG 1", 1, 2, 2)
		h.want("KILL WHERE msg=1 thread=smtp/a.example", 1, 1, 1)
		if got := h.held(); got != "1 b.example by postmaster uid 0 open" || h.Spool.HeldFiles() != 1 {
			t.Errorf("held: %s", got)
		}
		h.want("REROUTE WHERE state=held host=b.example smtp relay.example", 1, 1, 1)
		if got := h.held(); got != "1001 relay.example by postmaster uid 0 open" {
			t.Errorf("held: %s", got)
		}
		h.Stop(syscall.SIGTERM)
	})
}

// TestOrdersAreAboutHeldMailToo, but those that would let it go leave it, unless they are about
// held mail.
func TestOrdersAreAboutHeldMailToo(t *testing.T) {
	for _, order := range []string{"KILL", "EXPIRE", "RETRY", "REQUEUE", "REROUTE"} {
		t.Run(order, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := loaded(t)
				h.want("HOLD MSG 1", 1, 2, 2)
				to := map[string]string{"REROUTE": " smtp relay.example"}[order]
				did := mailq.Outcome{Messages: 2, Recipients: 2, Threads: 1}
				if order == "RETRY" || order == "REQUEUE" {
					did = mailq.Outcome{Messages: 1, Recipients: 1, Threads: 1, KeptBack: 1}
				}
				h.wantOutcome(order+" THREAD smtp A.example"+to+" DRYRUN", did)
				h.wantOutcome(order+" WHERE host=a.example"+to+" DRYRUN", did)
				if order != "RETRY" {
					h.wantOutcome(order+" WHERE state=held"+to, mailq.Outcome{Messages: 1, Recipients: 2, Threads: 2})
				}
				h.Stop(syscall.SIGTERM)
			})
		})
	}
}

// slow is a loop whose agent has message 1 for so long, and then defers it. After
// that it delivers.
func slow(t *testing.T, patience time.Duration) *harness {
	h := newHarness(t, nil)
	h.Deliver = func(a *daemontest.FakeAgent, job ta.JobLine) {
		if patience == 0 {
			a.ReportAll(job, ta.OK2, "delivered")
			return
		}
		time.Sleep(patience)
		patience = 0
		deferAll(a, job)
	}
	h.Run()
	h.Spool.Announce(1, "a.example")
	synctest.Wait()
	return h
}

// What an agent has is held when it comes back.
func TestHoldWaitsForTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := slow(t, time.Minute)
		h.wantWithAgent("HOLD MSG 1", 1, 1)
		if h.Spool.HeldFiles() != 0 {
			t.Error("it was taken from the agent")
		}
		h.pass(2 * time.Minute)
		if h.Spool.HeldFiles() != 1 {
			t.Error("it was not held")
		}
		h.Stop(syscall.SIGTERM)
	})
}

func TestHeldThreadKeepsWhatComesAlsoOverARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := loaded(t)
		h.want("HOLD THREAD smtp a.example DRYRUN", 2, 2, 1)
		h.want("HOLD THREAD smtp a.example", 2, 2, 1)
		h.Stop(syscall.SIGTERM)
		h.Run()
		for i := range 4 {
			h.Spool.Announce(uint64(i+1), "a.example")
		}
		h.pass(time.Hour)
		thread, _ := h.queue().Thread(t.Context(), mailq.Name{Channel: "smtp", Host: "a.example"})
		if thread == nil || !thread.Held || strings.Contains(h.delivered(), "a.example") {
			t.Errorf("the thread is %+v, delivered to %s", thread, h.delivered())
		}
		h.want("RELEASE THREAD smtp a.example", 4, 4, 1)
		if len(h.Spool.Recorded()) != 0 || strings.Count(h.delivered(), "a.example") != 4 {
			t.Errorf("held are %v, delivered to %s", h.Spool.Recorded(), h.delivered())
		}
		h.Stop(syscall.SIGTERM)
	})
}

// A hold that cannot be written is no hold: it would be gone after a restart.
func TestHoldThatCannotBeWrittenIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := loaded(t)
		h.Spool.Fail(syscall.EACCES)
		if did, err := h.act("HOLD THREAD smtp a.example"); err == nil {
			t.Errorf("held: %+v", did)
		}
		h.Spool.Fail(nil)
		h.want("HOLD THREAD smtp b.example", 2, 2, 1)
		if fmt.Sprint(h.Spool.Recorded()) != "[smtp/b.example]" {
			t.Errorf("held are %v", h.Spool.Recorded())
		}
		h.Spool.Fail(syscall.EACCES)
		if did, err := h.act("RELEASE THREAD smtp b.example"); err == nil {
			t.Errorf("released: %+v", did)
		}
		h.Spool.Fail(nil)
		h.pass(time.Hour)
		h.wantDelivered("a.example a.example")
		h.want("RELEASE WHERE host=b.*", 2, 2, 1)
		h.wantDelivered("a.example a.example b.example b.example")
		h.Stop(syscall.SIGTERM)
	})
}

// A hold that is recorded stays in force although the files cannot be moved: a restart, which reads
// the record, changes nothing.
func TestHoldWhoseFilesCannotBeMovedStaysInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := slow(t, time.Minute)
		h.wantWithAgent("HOLD MSG 1", 1, 1)
		h.Spool.Fail(syscall.EACCES)
		for range 2 {
			h.pass(24 * time.Hour)
			h.wantFiles(1, 0)
			h.wantDelivered("")
			if got := h.held(); got != "1 a.example by postmaster uid 0 open" {
				t.Errorf("held: %s", got)
			}
			h.Stop(syscall.SIGTERM)
			h.Run()
			h.Spool.Again(1)
		}
		h.Spool.Fail(nil)
		h.pass(time.Minute)
		h.wantFiles(0, 1)
		h.want("RELEASE MSG 1", 1, 1, 1)
		h.wantDelivered("a.example")
		h.Stop(syscall.SIGTERM)
	})
}

// A REROUTE that waits for an agent says where it sends the mail, of whole job lines and of
// single recipients.
func TestPendingRerouteSaysWhereTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := slow(t, time.Minute)
		h.wantWithAgent("REROUTE MSG 1 smtp relay.example", 1, 1)
		m, _, err := h.queue().Message(t.Context(), "1")
		if err != nil || m.Recipients[0].Order != string(view.VerbReroute) || m.Recipients[0].OrderTo != "smtp/relay.example" {
			t.Errorf("%+v, %v", m, err)
		}
		h.wantWithAgent("KILL MSG 1", 1, 1)
		if m, _, err := h.queue().Message(t.Context(), "1"); err != nil || m.Recipients[0].OrderTo != "" {
			t.Errorf("%+v, %v", m, err)
		}
		h.pass(2 * time.Hour)
		h.Stop(syscall.SIGTERM)
	})
}

// TestLastHoldOfAThreadCounts: a hold for a time replaces one without, also after a restart, and when
// its record is removed.
func TestLastHoldOfAThreadCounts(t *testing.T) {
	for _, pruned := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := loaded(t)
			h.want("HOLD THREAD smtp a.example", 2, 2, 1)
			h.want("HOLD THREAD smtp a.example FOR 1h", 2, 2, 1)
			h.pass(3 * time.Hour)
			if pruned {
				if err := h.queue().orders.pruneHolds(t.Context()); err != nil || len(h.Spool.Recorded()) > 0 {
					t.Errorf("recorded are %v, %v", h.Spool.Recorded(), err)
				}
			}
			h.Stop(syscall.SIGTERM)
			h.Run()
			if thread, _ := h.queue().Thread(t.Context(), mailq.Name{Channel: "smtp", Host: "a.example"}); thread != nil && thread.Held || h.held() != "" {
				t.Errorf("pruned %v: held again: %+v, %s", pruned, thread, h.held())
			}
			h.Stop(syscall.SIGTERM)
		})
	}
}
