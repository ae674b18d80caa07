package admin

import (
	"syscall"
	"testing"
	"testing/synctest"

	"zsched/mailq"
)

// An order that concerns only mail which is not loaded says so, and why.
func TestOrderSaysThatMailIsNotLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := loaded(t)
		h.Spool.Put(9, "locked.example")
		h.Spool.Put(10, "new.example")
		h.records.whyUnloaded = map[string]string{"9": "locked by process 4711"}
		const selected = "1 message that matches is not loaded: locked by process 4711"
		for command, want := range map[string]string{
			"KILL MSG 9 BECAUSE spam":                "the message is not loaded: locked by process 4711",
			"HOLD MSG 9 DRYRUN":                      "the message is not loaded: locked by process 4711",
			"RELEASE MSG 9":                          "the message is not loaded: locked by process 4711",
			"EXPIRE MSG 10":                          "the message is not loaded: the scheduler has not read it yet",
			"KILL WHERE host=locked.example":         selected,
			"HOLD WHERE host=locked.*":               selected,
			"RETRY THREAD smtp locked.example":       selected,
			"KILL THREAD smtp LOCKED.example":        selected,
			"REROUTE THREAD smtp locked.example a b": selected,
		} {
			h.refused(command, want)
		}
		// An order that concerns loaded mail too is carried out on that.
		h.Spool.Put(11, "a.example", "locked.example")
		h.records.whyUnloaded["11"] = "locked by process 4712"
		for _, command := range []string{"RETRY WHERE host=a.example DRYRUN", "RETRY THREAD smtp a.example DRYRUN", "EXPIRE WHERE host=a.example"} {
			h.wantOutcome(command, mailq.Outcome{Messages: 2, Recipients: 2, Threads: 1, NotLoaded: 1, WhyNotLoaded: "locked by process 4712"})
		}
		// Orders that the mail will obey, or that concern other mail.
		h.want("HOLD THREAD smtp locked.example", 0, 0, 1)
		h.want("RELEASE MSG 77", 0, 0, 0)
		h.want("KILL WHERE host=new.example", 0, 0, 0)
		h.want("KILL MSG 1", 1, 1, 1)
		h.Stop(syscall.SIGTERM)
	})
}

// A message that is locked by an agent of an earlier scheduler is listed with that reason,
// and no query calls its destination empty.
func TestMailThatIsNotLoadedIsShownWithItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := loaded(t)
		const why = "locked by process 4711"
		h.Spool.Put(9, "locked.example")
		h.records.whyUnloaded = map[string]string{"9": why}
		jobs := h.selected("state=unloaded")
		if len(jobs) != 1 || jobs[0].Path != "9" || jobs[0].State != mailq.StateUnloaded || jobs[0].Recipients[0].Reason != why {
			t.Errorf("listed: %+v", jobs)
		}
		m, _, err := h.queue().Message(t.Context(), "9")
		if err != nil || m.Recipients[0].State != "new" || m.Recipients[0].Reason != "not loaded: "+why {
			t.Errorf("shown: %+v, %v", m, err)
		}
		name := mailq.Name{Channel: "smtp", Host: "locked.example"}
		if x, err := h.queue().Explain(t.Context(), name); err != nil || x.Unloaded.Count != 1 || x.Unloaded.Reason != why {
			t.Errorf("explained: %+v, %v", x, err)
		}
		for _, host := range []string{"LOCKED.example", "other.example"} {
			x, err := h.queue().Explain(t.Context(), mailq.Name{Channel: "smtp", Host: host})
			if err != nil || (x.Unloaded.Reason == why) != (host == "LOCKED.example") {
				t.Errorf("%s explained: %+v, %v", host, x, err)
			}
		}
		h.refused("KILL WHERE state=unloaded", "1 message that matches is not loaded: "+why)
		h.Stop(syscall.SIGTERM)
	})
}
