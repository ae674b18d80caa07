package mailq

import (
	"reflect"
	"slices"
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
		"KILL THREAD smtp d1.example":                        {Verb: Kill, Thread: &Name{Channel: "smtp", Host: "d1.example"}},
		`HOLD THREAD smtp "" BECAUSE of rain`:                {Verb: Hold, Thread: &Name{Channel: "smtp", Host: ""}, Because: "of rain"},
		"RELEASE MSG S12345ABC DRYRUN BECAUSE it is so":      {Verb: Release, Message: "S12345ABC", DryRun: true, Because: "it is so"},
		"RETRY WHERE host=*.se older=3d DRYRUN":              {Verb: Retry, Where: sel("host=*.se older=3d"), DryRun: true},
		"EXPIRE WHERE sender=<>":                             {Verb: Expire, Where: sel("sender=<>")},
		"HOLD WHERE channel=x DRYRUN FOR 1h30m BECAUSE y":    {Verb: Hold, Where: sel("channel=x"), DryRun: true, For: 90 * time.Minute, Because: "y"},
		"HOLD MSG 1 FOR 2d":                                  {Verb: Hold, Message: "1", For: 48 * time.Hour},
		"REQUEUE MSG 1":                                      {Verb: Requeue, Message: "1"},
		"REROUTE MSG 1 smtp relay.example":                   {Verb: Reroute, Message: "1", To: Name{Channel: "smtp", Host: "relay.example"}},
		"REROUTE THREAD smtp a local -":                      {Verb: Reroute, Thread: &Name{Channel: "smtp", Host: "a"}, To: Name{Channel: "local", Host: "-"}},
		`REROUTE WHERE reason="*timed out*" TO smtp "a b"`:   {Verb: Reroute, Where: sel(`reason="*timed out*"`), To: Name{Channel: "smtp", Host: "a b"}},
		"REROUTE WHERE channel=x TO smtp b DRYRUN BECAUSE y": {Verb: Reroute, Where: sel("channel=x"), To: Name{Channel: "smtp", Host: "b"}, DryRun: true, Because: "y"},
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
	o := Order{Verb: Hold, Message: "1", Because: " two\nlines\r\nand a\tTAB "}
	if got := o.String(); got != "HOLD MSG 1 BECAUSE two lines and a TAB " {
		t.Errorf("%q", got)
	}
}

// TestOutcomes: each count comes back from the wire, is added, and has a sentence of its own.
func TestOutcomes(t *testing.T) {
	full := Outcome{Messages: 3, Recipients: 5, Threads: 2}
	for i, c := range counts {
		*c.of(&full) = i + 1
	}
	for _, want := range []Outcome{{}, {Messages: 1}, full} {
		if got, err := ParseOutcome(want.Reply()); err != nil || got != want {
			t.Errorf("%+v, %v", got, err)
		}
	}
	var sum Outcome
	sum.Add(full)
	sum.Add(full)
	for i, c := range counts {
		if got := *c.of(&sum); got != 2*i+2 {
			t.Errorf("count %d: %d", i, got)
		}
	}
	if sum.Recipients != 10 {
		t.Errorf("%+v", sum)
	}
	sentences := full.Sentences(&Order{Verb: Hold})
	slices.Sort(sentences)
	if len(slices.Compact(sentences)) != len(counts)+1 {
		t.Errorf("%q", sentences)
	}
	// Every field but the three numbers is a count.
	if fields := reflect.TypeFor[Outcome]().NumField(); fields != len(counts)+3 {
		t.Errorf("%d fields, %d counts", fields, len(counts))
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
