package admin

import (
	"testing"

	"zsched/mailq"
	"zsched/scheduler"
)

// Each order about mail is one of the core, which has no other.
func TestOrdersOfTheCore(t *testing.T) {
	for _, info := range mailq.Verbs {
		aboutMail := info.Message || info.Where
		if known := scheduler.VerbNamed(string(info.Verb)) != 0; known != aboutMail {
			t.Errorf("%s: it is about mail: %v; the core knows it: %v", info.Verb, aboutMail, known)
		}
	}
}
