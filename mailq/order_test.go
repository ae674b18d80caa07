package mailq

import (
	"strings"
	"testing"
	"time"
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
		"KILL MSG 12345 BECAUSE":                             {Verb: Kill, Message: "12345"},
		"KILL MSG 12345 DRYRUN":                              {Verb: Kill, Message: "12345", DryRun: true},
		"KILL THREAD smtp d1.example":                        {Verb: Kill, Thread: &Name{"smtp", "d1.example"}},
		`HOLD THREAD smtp "" BECAUSE of rain`:                {Verb: Hold, Thread: &Name{"smtp", ""}, Why: "of rain"},
		"RELEASE MSG S12345ABC DRYRUN BECAUSE it is so":      {Verb: Release, Message: "S12345ABC", DryRun: true, Why: "it is so"},
		"RETRY WHERE host=*.se older=3d DRYRUN":              {Verb: Retry, Where: sel("host=*.se older=3d"), DryRun: true},
		"EXPIRE WHERE sender=<>":                             {Verb: Expire, Where: sel("sender=<>")},
		"HOLD WHERE channel=x DRYRUN FOR 1h30m BECAUSE y":    {Verb: Hold, Where: sel("channel=x"), DryRun: true, For: 90 * time.Minute, Why: "y"},
		"HOLD MSG 1 FOR 2d":                                  {Verb: Hold, Message: "1", For: 48 * time.Hour},
		"REQUEUE MSG 1":                                      {Verb: Requeue, Message: "1"},
		"REROUTE MSG 1 smtp relay.example":                   {Verb: Reroute, Message: "1", To: Name{"smtp", "relay.example"}},
		"REROUTE THREAD smtp a local -":                      {Verb: Reroute, Thread: &Name{"smtp", "a"}, To: Name{"local", "-"}},
		`REROUTE WHERE reason="*timed out*" TO smtp "a b"`:   {Verb: Reroute, Where: sel(`reason="*timed out*"`), To: Name{"smtp", "a b"}},
		"REROUTE WHERE channel=x TO smtp b DRYRUN BECAUSE y": {Verb: Reroute, Where: sel("channel=x"), To: Name{"smtp", "b"}, DryRun: true, Why: "y"},
	}
}

func TestOrdersAreReadAsTheyAreWritten(t *testing.T) {
	for line, o := range orders() {
		if got := o.String(); got != line {
			t.Errorf("written %s, want %s", got, line)
		}
		verb, rest := CutRaw(line)
		read, plain, err := ParseOrder(Verb(verb), rest)
		if err != nil || plain && verb == "KILL" || read.String() != line {
			t.Errorf("%s: read %+v, %v", line, read, err)
		}
	}
	o := Order{Verb: Hold, Message: "1", Why: " two\nlines\r\nand a\tTAB "}
	if got := o.String(); got != "HOLD MSG 1 BECAUSE two lines and a TAB " {
		t.Errorf("%q", got)
	}
}

func TestOutcomes(t *testing.T) {
	for _, dry := range []bool{false, true} {
		want := Outcome{Messages: 3, Recipients: 5, Threads: 2, Suspended: map[bool]int{true: 2}[dry], WithAgents: map[bool]int{true: 1}[dry], ThreadHolds: map[bool]int{true: 4}[dry], Held: map[bool]int{true: 6}[dry], HoldsLost: map[bool]int{true: 5}[dry]}
		if dry {
			want.NotLoaded, want.WhyNotLoaded = 2, "open 3 messages not loaded. x: no."
		}
		got, err := ParseOutcome((&Order{Verb: Hold, DryRun: dry}).Reply(want))
		if err != nil || got != want {
			t.Errorf("%+v, %v", got, err)
		}
	}
	for reply, want := range map[string]string{
		"-No HOLD allowed for you.": "No HOLD allowed for you.", "": "not a reply", "-": "not a reply",
		"+OK": "not a reply", "+OK; KILLed something.": "not a reply", "-ERR; x": "ERR; x",
	} {
		if _, err := ParseOutcome(reply); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", reply, err)
		}
	}
}
