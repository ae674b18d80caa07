package mailq

import (
	"strings"
	"testing"
	"time"

	"zsched/scheduler/view"
)

func orders() map[string]Order {
	sel := func(s string) *Selection {
		v, err := ParseSelection(s)
		if err != nil {
			panic(err)
		}
		return &v
	}
	return map[string]Order{
		"KILL MSG 12345 BECAUSE":                             {Verb: view.VerbKill, Message: "12345"},
		"KILL MSG 12345 DRYRUN":                              {Verb: view.VerbKill, Message: "12345", DryRun: true},
		"KILL THREAD smtp d1.example":                        {Verb: view.VerbKill, Thread: &Name{Channel: "smtp", Host: "d1.example"}},
		`HOLD THREAD smtp "" BECAUSE of rain`:                {Verb: view.VerbHold, Thread: &Name{Channel: "smtp", Host: ""}, Because: "of rain"},
		"RELEASE MSG S12345ABC DRYRUN BECAUSE it is so":      {Verb: view.VerbRelease, Message: "S12345ABC", DryRun: true, Because: "it is so"},
		"RETRY WHERE host=*.se older=3d DRYRUN":              {Verb: view.VerbRetry, Where: sel("host=*.se older=3d"), DryRun: true},
		"EXPIRE WHERE sender=<>":                             {Verb: view.VerbExpire, Where: sel("sender=<>")},
		"HOLD WHERE channel=x DRYRUN FOR 1h30m BECAUSE y":    {Verb: view.VerbHold, Where: sel("channel=x"), DryRun: true, For: 90 * time.Minute, Because: "y"},
		"HOLD MSG 1 FOR 2d":                                  {Verb: view.VerbHold, Message: "1", For: 48 * time.Hour},
		"REQUEUE MSG 1":                                      {Verb: view.VerbRequeue, Message: "1"},
		"REROUTE MSG 1 smtp relay.example":                   {Verb: view.VerbReroute, Message: "1", To: Name{Channel: "smtp", Host: "relay.example"}},
		"REROUTE THREAD smtp a local -":                      {Verb: view.VerbReroute, Thread: &Name{Channel: "smtp", Host: "a"}, To: Name{Channel: "local", Host: "-"}},
		`REROUTE WHERE reason="*timed out*" TO smtp "a b"`:   {Verb: view.VerbReroute, Where: sel(`reason="*timed out*"`), To: Name{Channel: "smtp", Host: "a b"}},
		"REROUTE WHERE channel=x TO smtp b DRYRUN BECAUSE y": {Verb: view.VerbReroute, Where: sel("channel=x"), To: Name{Channel: "smtp", Host: "b"}, DryRun: true, Because: "y"},
	}
}

func TestOrdersAreReadAsTheyAreWritten(t *testing.T) {
	for line, o := range orders() {
		if got := o.String(); got != line {
			t.Errorf("written %s, want %s", got, line)
		}
		verb, rest := CutRaw(line)
		read, plain, err := ParseOrder(view.Verb(verb), rest)
		if err != nil || plain && verb == "KILL" || read.String() != line {
			t.Errorf("%s: read %+v, %v", line, read, err)
		}
	}
	o := Order{Verb: view.VerbHold, Message: "1", Because: " two\nlines\r\nand a\tTAB "}
	if got := o.String(); got != "HOLD MSG 1 BECAUSE two lines and a TAB " {
		t.Errorf("%q", got)
	}
}

// TestOutcomes: an outcome comes back from the wire, and nothing else is one.
func TestOutcomes(t *testing.T) {
	for _, want := range []Outcome{{}, {Messages: 1}, {Messages: 3, Recipients: 5, Threads: 2, WithAgents: 1, Refused: 2, KeptBack: 3}} {
		if got, err := ParseOutcome(FormatOutcome(want)); err != nil || got != want {
			t.Errorf("%+v, %v", got, err)
		}
	}
	for reply, want := range map[string]string{
		"-No HOLD allowed for you.": "No HOLD allowed for you.", "": "not a reply", "-": "not a reply",
		"+OK": "not a reply", "+OK; KILLed something.": "not a reply", "-ERR; x": "ERR; x",
		"+OK; HOLD 1 messages, 1 recipients, 1 threads.": "not a reply", "+OK; {": "not a reply",
	} {
		if _, err := ParseOutcome(reply); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", reply, err)
		}
	}
}
