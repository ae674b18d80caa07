package admin

import (
	"syscall"
	"testing"
	"testing/synctest"
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
		// Orders that the mail will obey, or that concern other mail.
		h.want("HOLD THREAD smtp locked.example", 0, 0, 1)
		h.want("RELEASE MSG 77", 0, 0, 0)
		h.want("KILL WHERE host=new.example", 0, 0, 0)
		h.want("KILL MSG 1", 1, 2, 2)
		h.Stop(syscall.SIGTERM)
	})
}
