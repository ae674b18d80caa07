package admin

import (
	"syscall"
	"testing"
	"testing/synctest"

	"zsched/mailq"
	"zsched/scheduler/spool"
)

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
