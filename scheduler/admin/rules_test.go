package admin

import (
	"strings"
	"testing"
	"time"

	"zsched/scheduler"
	"zsched/scheduler/rule"
)

func TestRetrySentenceNamesReplyRules(t *testing.T) {
	at := time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)
	x := &scheduler.Explanation{Params: &rule.Params{}, Delays: []scheduler.DelayView{
		{Rule: &rule.ReplyRule{File: "replies", Line: 3, Action: "defer 10m"}, Vertices: 1, Until: at},
		{Rule: &rule.ReplyRule{File: "replies", Line: 4, Action: "hold 1h"}, Vertices: 2, Until: at.Add(time.Hour)},
	}}
	const want = "Every job waits for its retry; 1 job waits because of the reply rule of replies:3 (defer 10m), until 2026-11-23T08:00:00Z" +
		"; 2 jobs wait because of the reply rule of replies:4 (hold 1h), until 2026-11-23T09:00:00Z at the latest."
	if got := ruleOf(scheduler.WaitRetry, x, nil).Text; got != want {
		t.Errorf("%s", got)
	}
}

// Each suspension has its own end, also if another one ends later or has no end.
func TestSuspensionsHaveTheirOwnEnds(t *testing.T) {
	at := time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)
	x := &scheduler.Explanation{Params: &rule.Params{}, Thread: &scheduler.ThreadView{
		Feedback: scheduler.FeedbackView{Dead: true}, FailedUntil: at, SuspendedUntil: at.Add(2 * time.Hour),
		Order: &scheduler.HoldOrder{By: "ops", Until: at.Add(time.Hour)},
		Effects: []scheduler.EffectView{{
			Rule: &rule.ReplyRule{File: "replies", Line: 3, Action: "suspend 2h", Verb: rule.ReplySuspend}, Until: at.Add(2 * time.Hour),
		}},
	}}
	for wait, want := range map[scheduler.Wait]string{
		scheduler.WaitSuspend: "The destination has failed, so the thread is suspended until 2026-11-23T08:00:00Z.",
		scheduler.WaitOrder:   "The thread is suspended by ops, until 2026-11-23T09:00:00Z.",
		scheduler.WaitRule:    "The reply rule of replies:3 (suspend 2h) has suspended the thread until 2026-11-23T10:00:00Z.",
	} {
		if got := ruleOf(wait, x, nil).Text; got != want {
			t.Errorf("%s", got)
		}
	}
	x.Thread.Order.Until, x.Thread.SuspendedUntil, x.Thread.WindowLimit = time.Time{}, time.Time{}, 1
	if got := threadOf(x.Thread).WindowText(at); !strings.HasSuffix(got, "suspended by order until lifted") {
		t.Error(got)
	}
}
