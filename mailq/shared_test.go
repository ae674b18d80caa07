package mailq

import (
	"strings"
	"testing"
	"time"
)

func TestSayTime(t *testing.T) {
	for s, want := range map[int64]string{
		0: "0s", 59: "59s", 60: "1m", 3600: "1h", 3661: "1h1m1s", 86400: "1d", 86460: "1d1m", 86461: "1d1m1s",
		90000: "1d1h", 90061: "1d1h", -5: "-5s", -90061: "-1d1h", 431940: "4d23h", 3601: "1h1s",
	} {
		if got := SayTime(time.Duration(s) * time.Second); got != want {
			t.Errorf("%d s: %s, want %s", s, got, want)
		}
	}
	if got := SayTime(1999 * time.Millisecond); got != "1s" {
		t.Errorf("parts of a second count: %s", got)
	}
}

func TestWords(t *testing.T) {
	for word, want := range map[string]string{
		"example.com": "example.com", "": `""`, "a b": `"a b"`, `"x`: `"\"x"`, `x"y`: `x"y`, `\`: `\`,
		"a\tb": `"a\x09b"`, "a\nb\\": `"a\x0ab\\"`, "ö": "ö", "\x7f": `"\x7f"`, "\xff": "\xff",
	} {
		if got := Quote(word); got != want {
			t.Errorf("Quote(%q) = %s, want %s", word, got, want)
		}
	}
	for text, want := range map[string]string{
		`"a\tb\r\n\x41\X"`: "", `"a\tb\r\n\x41" rest`: "a\tb\r\nA", `  plain "rest`: "plain", `"open`: "", `"glued"on`: "", `"\x4"`: "", `"\`: "",
	} {
		got, _, _, err := CutWord(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("cutWord(%q) = %q, %v", text, got, err)
		}
	}
}

func TestSelections(t *testing.T) {
	for _, good := range []string{
		"channel=smtp", "host=*.example.com", "sender=<>", `reason="*timed out*"`, "older=3d", "younger=1h30m", "older=90s",
		`channel=smtp host=*.example.com sender="\"odd one\"@x" reason=*refused* older=1d younger=7d`,
	} {
		sel, err := ParseSelection(good)
		if err != nil {
			t.Errorf("%s: %v", good, err)
			continue
		}
		if got := sel.String(); strings.ReplaceAll(got, "1m30s", "90s") != good {
			t.Errorf("%s: written as %s", good, got)
		}
	}
	for bad, want := range map[string]string{
		"":                         "one key=value",
		"  ":                       "one key=value",
		"smtp":                     "one key=value",
		"chanel=smtp":              `unknown key "chanel"`,
		"channel=smtp channel=x":   "twice",
		"channel=":                 "needs a value",
		"channel= smtp":            "needs a value",
		`channel=""`:               "needs a value",
		"older=3":                  "",
		"older=3x":                 "not a unit",
		"older=d":                  "no number",
		"older=-3d":                "does not belong",
		"older=0":                  "more than zero",
		"older=99999999999999999d": "longer than 36500d",
		"older=36501d":             "longer than 36500d",
		"channel=smtp DRYRUN":      "no key=value",
		`reason="x`:                "does not end",
		"=x":                       "unknown key",
		`sender="odd one"@x`:       "followed by a blank",
	} {
		_, err := ParseSelection(bad)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", bad, err, want)
		}
	}
}

func TestSelectionMatches(t *testing.T) {
	now := time.Unix(1e9, 0)
	job := &Job{Name: Name{"smtp", "mx.Example.com"}, Sender: "a@b", ArrivedAt: now.Add(-2 * time.Hour),
		Recipients: []Recipient{{Reason: ""}, {Reason: "451 busy, try later"}}}
	bounce := &Job{Name: Name{"local", "x"}, ArrivedAt: now}
	for text, want := range map[string]string{
		"channel=smtp": "j", "channel=SMTP": "j", "channel=smt": "", "channel=*": "jb", "host=*.example.COM": "j", "host=?": "b",
		"sender=<>": "b", "sender=a@*": "j", "sender=*": "jb", "reason=*BUSY*": "j", "reason=*": "jb"[:1],
		"older=1h": "j", "older=2h": "j", "older=3h": "", "younger=2h": "b", "younger=3h": "jb", "channel=smtp older=3h": "",
	} {
		sel, err := ParseSelection(text)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if sel.Matches(job, now) {
			got += "j"
		}
		if sel.Matches(bounce, now) {
			got += "b"
		}
		if got != want {
			t.Errorf("%s matches %q, want %q", text, got, want)
		}
	}
}

// orders is one of each form with its line.
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
		read, counted, err := ParseOrder(Verb(verb), rest)
		if err != nil || !counted && verb == "KILL" || read.String() != line {
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
		want := Outcome{Messages: 3, Recipients: 5, Threads: 2}
		got, err := ParseOutcome(OutcomeReply(&Order{Verb: Hold, DryRun: dry}, want))
		if err != nil || got != want {
			t.Errorf("%+v, %v", got, err)
		}
	}
	for reply, want := range map[string]string{
		"-No HOLD allowed for you.": "No HOLD allowed for you.", "": "no reply", "-": "no reply",
		"+OK": "no reply", "+OK; KILLed something.": "no reply", "-ERR; x": "ERR; x",
	} {
		if _, err := ParseOutcome(reply); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", reply, err)
		}
	}
}

func TestDigest(t *testing.T) {
	for _, v := range [][3]string{
		{"220 MAILQ-V2-CHALLENGE: 1795233126.898330.1", "nobody", "1304725670c8069b18abb3e3eafa7f8f"},
		{"MAILQ-V2-CHALLENGE: 942665308.906504.3", "my-passwd", "bd4baf7e175c6457f092a4d8a72be539"},
	} {
		if got := Digest(v[0], v[1]); got != v[2] {
			t.Errorf("Digest(%q, %q) = %s, want %s", v[0], v[1], got, v[2])
		}
	}
}
