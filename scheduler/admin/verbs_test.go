package admin

import (
	"syscall"
	"testing"
	"testing/synctest"

	"zsched/scheduler/view"
)

// The core carries out each order about mail, and panics on one that it does not know.
func TestTheCoreCarriesOutEachOrderAboutMail(t *testing.T) {
	for _, info := range view.Verbs {
		if !info.Verb.IsAboutMail() {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			h := loaded(t)
			if info.Verb == view.VerbRelease {
				h.want("HOLD MSG 3", 1, 1, 1)
			}
			command := string(info.Verb) + " MSG 3"
			if info.To {
				command += " smtp relay.example"
			}
			h.want(command, 1, 1, 1)
			h.Stop(syscall.SIGTERM)
		})
	}
}
