package admin

import (
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"zsched/mailq"
	"zsched/scheduler/spool"
)

// While the queue is still being loaded, the totals say so, and so do orders, except a HOLD or RELEASE of a
// thread, which concerns later mail too.
func TestWhatIsAnsweredWhileTheQueueIsLoadedSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		h.Deliver, h.loading = deferAll, true
		h.Run()
		h.Spool.Announce(1, "a.example", "b.example")
		synctest.Wait()
		for _, loading := range []bool{true, false} {
			totals, err := h.queue().Totals(t.Context())
			notes := strings.Join(totals.Notes(time.Now()), "\n")
			if err != nil || totals.Loading != loading || strings.Contains(notes, "still being loaded") != loading {
				t.Errorf("%+v, %v: %s", totals, err, notes)
			}
			h.wantOutcome("KILL MSG 2", mailq.Outcome{Loading: loading})
			h.wantOutcome("RETRY THREAD smtp a.example", mailq.Outcome{Messages: 1, Recipients: 1, Threads: 1, Loading: loading})
			h.wantOutcome("KILL WHERE sender=rayan DRYRUN", mailq.Outcome{Messages: 1, Recipients: 2, Threads: 2, Loading: loading})
			h.wantOutcome("LIFT THREAD smtp a.example", mailq.Outcome{Loading: loading})
			h.want("HOLD THREAD smtp a.example", 1, 1, 1)
			h.want("RELEASE THREAD smtp a.example", 1, 1, 1)
			h.Spool.Answer(spool.Swept{})
			synctest.Wait()
		}
		h.Stop(syscall.SIGTERM)
	})
}

// A message that is locked by an agent of an earlier scheduler is listed with that reason, and no
// order finds it.
func TestMailThatIsNotLoadedIsShownWithItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := loaded(t)
		const why = "locked by process 4711"
		h.Spool.Put(9, "locked.example")
		h.records.unloaded = map[string]spool.Unloaded{"9": {Reason: why}}
		jobs := h.selected("state=unloaded")
		if len(jobs) != 1 || jobs[0].Path != "9" || jobs[0].State != mailq.StateUnloaded || jobs[0].Recipients[0].Reason != why {
			t.Errorf("listed: %+v", jobs)
		}
		m, _, err := h.queue().Message(t.Context(), "9")
		if err != nil || m.Recipients[0].State != "new" || m.Recipients[0].Reason != "not loaded: "+why {
			t.Errorf("shown: %+v, %v", m, err)
		}
		h.want("KILL WHERE state=unloaded", 0, 0, 0)
		h.want("KILL MSG 9", 0, 0, 0)
		h.Stop(syscall.SIGTERM)
	})
}
