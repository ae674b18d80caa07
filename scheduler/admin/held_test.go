package admin

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"zsched/mailq"
	"zsched/scheduler/spool"
	"zsched/scheduler/view"
)

// held is what SHOW HELD has.
func (h *harness) held() string {
	var all []string
	for item, err := range h.queue().Held(h.t.Context()) {
		if err != nil {
			h.t.Fatal(err)
		}
		end := "open"
		if !item.Until.IsZero() {
			end = item.Until.Sub(item.Since).String()
		}
		if item.IsThread() {
			all = append(all, fmt.Sprintf("%s %d by %s %s", item.Host, item.Messages, item.By, end))
		} else {
			all = append(all, fmt.Sprintf("%s %s by %s %s", item.Path, item.Host, item.By, end))
		}
	}
	return strings.Join(all, ", ")
}

// The record of what a REROUTE of held mail has made is there before the mail.
func TestAHoldThatArrivesEndsOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := loaded(t)
		h.Spool.PutHeld(7, view.Hold{Until: time.Now().Add(6 * time.Second), By: "root"}, "c.example")
		h.Spool.AnnounceHeld(7)
		synctest.Wait()
		if got := h.held(); !strings.HasPrefix(got, "7 c.example by root ") {
			t.Errorf("held: %s", got)
		}
		h.pass(10 * time.Second)
		h.wantDelivered("c.example")
		h.Stop(syscall.SIGTERM)
	})
}

func TestHoldsEndByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := loaded(t)
		h.want("HOLD MSG 1 FOR 2h", 1, 2, 2)
		h.want("HOLD MSG 2", 1, 1, 1)
		h.want("HOLD THREAD smtp b.example FOR 1h", 2, 2, 1)
		if got := h.held(); got != "b.example 2 by postmaster uid 0 1h0m0s, 1 a.example by postmaster uid 0 2h0m0s, "+
			"1 b.example by postmaster uid 0 2h0m0s, 2 a.example by postmaster uid 0 open" {
			t.Errorf("held: %s", got)
		}
		totals, err := h.queue().Totals(t.Context())
		if err != nil || totals.Held.Count != 2 || totals.HeldThreads.Count != 1 || totals.Held.OldestAt.IsZero() {
			t.Errorf("%+v, %v", totals, err)
		}
		if want := time.Now().Truncate(time.Second); !totals.HeldThreads.OldestAt.Equal(want) {
			t.Errorf("the thread is held since %v, not %v", totals.HeldThreads.OldestAt, want)
		}
		time.Sleep(time.Minute)
		h.want("HOLD THREAD smtp c.example", 0, 0, 1)
		h.want("RELEASE THREAD smtp b.example DRYRUN", 2, 2, 1)
		if totals, err := h.queue().Totals(t.Context()); err != nil || time.Since(totals.HeldThreads.OldestAt) < time.Minute {
			t.Errorf("%+v, %v", totals, err)
		}
		h.want("RELEASE THREAD smtp c.example", 0, 0, 1)
		h.pass(58 * time.Minute)
		h.wantDelivered("")
		h.pass(2 * time.Minute)
		h.wantDelivered("b.example")
		h.pass(time.Hour)
		if got := h.delivered(); strings.Count(got, "b.example") != 2 || strings.Count(got, "a.example") != 1 {
			t.Errorf("delivered to %s", got)
		}
		if got := h.held(); got != "2 a.example by postmaster uid 0 open" {
			t.Errorf("held: %s", got)
		}
		h.Stop(syscall.SIGTERM)
	})
}

// The end of a hold is on disk. If it comes while no scheduler runs, the next one
// ends the hold when it starts. A release and a later hold count more than an
// earlier one with an end.
func TestEndOfAHoldOutlivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := loaded(t)
		h.want("HOLD MSG 1 FOR 1h", 1, 2, 2)
		h.want("HOLD MSG 2 FOR 1h", 1, 1, 1)
		h.want("HOLD MSG 3 FOR 3h", 1, 1, 1)
		h.want("HOLD MSG 3 FOR 1d", 1, 1, 1)
		h.want("HOLD THREAD smtp c.example FOR 1h", 0, 0, 1)
		h.want("RELEASE MSG 2 DRYRUN", 1, 1, 1)
		h.Stop(syscall.SIGTERM)
		time.Sleep(2 * time.Hour)
		h.Run()
		h.Spool.AnnounceHeld(1, 2, 3)
		h.pass(time.Minute)
		if got := h.held(); got != "3 b.example by postmaster uid 0 24h0m0s" {
			t.Errorf("held: %s", got)
		}
		if err := h.queue().orders.pruneHolds(t.Context()); err != nil {
			t.Error(err)
		}
		if got := fmt.Sprint(h.Spool.Recorded()); got != "[3]" {
			t.Errorf("recorded is %s", got)
		}
		h.Stop(syscall.SIGTERM)
	})
}

func TestTotalsDoNotNeedTheDirectoriesOfHeldMail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := loaded(t)
		h.records.unreadable = true
		for range 2 {
			if totals, err := h.queue().Totals(t.Context()); err != nil || totals.Messages != 3 || totals.Held.Count != 0 {
				t.Errorf("%+v, %v", totals, err)
			}
		}
		h.records.unreadable = false
		h.records.unloaded = map[string]spool.Unloaded{
			"8": {Since: time.Unix(1e9, 0), Reason: "locked by process 4711"}, "9": {Since: time.Unix(2e9, 0)},
		}
		if totals, err := h.queue().Totals(t.Context()); err != nil || totals.Unloaded.Count != 2 ||
			!strings.HasSuffix(totals.KeptText(time.Unix(1e9+3600, 0)), "2 messages not loaded (oldest 1h: locked by process 4711)") {
			t.Errorf("%+v, %v", totals, err)
		}
		h.want("HOLD MSG 1", 1, 2, 2)
		time.Sleep(time.Minute)
		if totals, err := h.queue().Totals(t.Context()); err != nil || totals.Held.Count != 1 {
			t.Errorf("%+v, %v", totals, err)
		}
		h.Stop(syscall.SIGTERM)
	})
}

// What takes long to count is counted again after half a minute.
func TestCountsAreReusedForHalfAMinuteAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := loaded(t)
		h.records.slow = 10 * time.Second
		if _, err := h.queue().Totals(t.Context()); err != nil {
			t.Error(err)
		}
		h.want("HOLD MSG 1", 1, 2, 2)
		for _, known := range []bool{false, true} {
			time.Sleep(25 * time.Second)
			if totals, err := h.queue().Totals(t.Context()); err != nil || totals.Held.OldestAt.IsZero() == known {
				t.Errorf("%+v, %v", totals.Held, err)
			}
		}
		h.Stop(syscall.SIGTERM)
	})
}

// A hold without a time limit replaces one that has a limit. It keeps the reason of the
// earlier one if it has none.
func TestHoldCanBeMadePermanent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := loaded(t)
		for _, target := range []struct {
			order                        string
			messages, recipients, places int
		}{{"MSG 1", 1, 2, 2}, {"THREAD smtp a.example", 2, 2, 1}} {
			hold := mailq.Order{Verb: view.VerbHold, For: time.Hour, Because: "they asked", By: mailq.Actor{User: "postmaster"}}
			if hold.Message = "1"; target.places == 1 {
				hold.Message, hold.Thread = "", &mailq.Name{Channel: "smtp", Host: "a.example"}
			}
			if did, err := h.queue().Act(t.Context(), hold); err != nil || did.Messages != target.messages {
				t.Errorf("%s: %+v, %v", target.order, did, err)
			}
			synctest.Wait()
			h.want("HOLD "+target.order+" DRYRUN", target.messages, target.recipients, target.places)
			h.want("HOLD "+target.order, target.messages, target.recipients, target.places)
			h.want("HOLD "+target.order+" FOR 2h", target.messages, target.recipients, target.places)
			h.want("HOLD "+target.order, target.messages, target.recipients, target.places)
		}
		h.pass(3 * time.Hour)
		if got := h.held(); strings.Count(got, "open") != 3 || h.Spool.HeldFiles() != 1 {
			t.Errorf("held: %s", got)
		}
		for item, err := range h.queue().Held(t.Context()) {
			if err != nil || !item.Until.IsZero() {
				t.Errorf("%+v, %v", item, err)
			}
		}
		h.Stop(syscall.SIGTERM)
	})
}

// A release withdraws a hold that waits for an agent.
func TestReleaseWithdrawsAHoldThatHasNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := slow(t, time.Minute)
		h.wantWithAgent("HOLD MSG 1", 1, 1)
		h.want("RELEASE MSG 1 DRYRUN", 1, 1, 1)
		h.want("RELEASE MSG 1", 1, 1, 1)
		h.want("RELEASE MSG 1", 0, 0, 0)
		h.pass(2 * time.Hour)
		h.wantDelivered("a.example")
		h.Stop(syscall.SIGTERM)
	})
}

// A hold ends at its time also if an agent still has the message.
func TestHoldThatHasNotBegunEndsAtItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := slow(t, 90*time.Minute)
		h.wantWithAgent("HOLD MSG 1 FOR 1h", 1, 1)
		h.pass(80 * time.Minute)
		if h.Spool.HeldFiles() != 0 || h.held() != "" {
			t.Errorf("held: %s", h.held())
		}
		h.pass(time.Hour)
		h.wantDelivered("a.example") // the end of the hold has come
		h.Stop(syscall.SIGTERM)
	})
}

// A hold does not end before its time, which is recorded in whole seconds.
func TestAHoldDoesNotEndEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := loaded(t)
		time.Sleep(300 * time.Millisecond)
		h.want("HOLD MSG 2 FOR 10s", 1, 1, 1)
		h.want("HOLD THREAD smtp b.example FOR 10s", 2, 2, 1)
		least := time.Now().Add(10 * time.Second)
		for until := range h.ends() {
			if until.Before(least) || until.Nanosecond() != 0 {
				t.Errorf("it ends %v, given for 10s at %v", until, time.Now())
			}
		}
		h.Stop(syscall.SIGTERM)
	})
}

// ends yields the recorded ends of holds.
func (h *harness) ends() iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		for _, r := range h.Spool.Records {
			yield(r.Until)
		}
	}
}

// Of two orders about a thread, the second of which comes while the first is being recorded,
// the second is in force, and recorded.
func TestLastOrderOnAThreadIsInForce(t *testing.T) {
	for _, orders := range [][2]string{{"HOLD", "RELEASE"}, {"RELEASE", "HOLD"}} {
		t.Run(orders[0]+" "+orders[1], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := loaded(t)
				keeps := orders[1] == "HOLD"
				if keeps { // so that the first order changes something
					h.want(orders[1]+" THREAD smtp a.example", 2, 2, 1)
				}
				h.Spool.Slow = time.Second
				ended := make(chan error, 2)
				for _, verb := range orders {
					go func() {
						_, err := h.act(verb + " THREAD smtp a.example")
						ended <- err
					}()
					synctest.Wait()
				}
				if err := errors.Join(<-ended, <-ended); err != nil {
					t.Error(err)
				}
				h.Spool.Slow = 0
				if recorded := len(h.Spool.Recorded()) > 0; recorded != keeps {
					t.Errorf("recorded are %q", h.Spool.Recorded())
				}
				h.pass(time.Hour)
				if got := h.delivered(); strings.Contains(got, "a.example") == keeps {
					t.Errorf("delivered to %s", got)
				}
				h.Stop(syscall.SIGTERM)
			})
		})
	}
}
