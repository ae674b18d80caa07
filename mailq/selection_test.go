package mailq

import (
	"strings"
	"testing"
	"time"
)

func TestSelections(t *testing.T) {
	for _, good := range []string{
		"channel=smtp", "host=*.example.com", "sender=<>", `reason="*timed out*"`, "older=3d", "younger=1h30m", "older=90s",
		"thread=smtp/x.example thread=local/fred msg=S12AbC msg=12 sender=eve@x", "recipient=*@x", "source=login:bob", "message-id=<1@x>", "state=held",
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
		"":                         "at least one key=value",
		"  ":                       "at least one key=value",
		"smtp":                     "at least one key=value",
		"chanel=smtp":              `unknown key "chanel"`,
		"channel=smtp channel=x":   "given twice",
		"thread=smtp":              "is not channel/host",
		"thread=smtp/*.example":    "not a pattern",
		"thread=a/b host=x host=y": "given twice",
		"channel=":                 "needs a value",
		"channel= smtp":            "needs a value",
		`channel=""`:               "needs a value",
		"older=3":                  "",
		"older=3x":                 "an interval consists of",
		"older=d":                  "an interval consists of",
		"older=-3d":                "an interval consists of",
		"older=0":                  "more than zero",
		"older=99999999999999999d": "longer than 36500d",
		"older=36501d":             "longer than 36500d",
		"channel=smtp DRYRUN":      "not a key=value pair",
		`reason="x`:                "does not end",
		"=x":                       "unknown key",
		"state=hold":               "not one of due, waiting",
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
	job := &JobLine{Name: Name{Channel: "smtp", Host: "mx.Example.com"}, Sender: "a@b", Source: "login:bob", ArrivedAt: now.Add(-2 * time.Hour),
		State: "waiting", Message: 12, SpoolID: "S12x", MessageID: "<1@x>",
		Recipients: []Recipient{{Reason: "", User: "U@x.example"}, {Reason: "451 busy, try later"}}}
	bounce := &JobLine{Message: 13, Name: Name{Channel: "local", Host: "x"}, ArrivedAt: now, State: "due", Held: true}
	for text, want := range map[string]string{
		"thread=smtp/MX.example.com": "j", "thread=local/x": "b", "thread=local/x thread=smtp/mx.example.com": "jb",
		"thread=local/x sender=a@b": "", "msg=12": "j", "msg=S12x": "j", "msg=S12y": "", "msg=A/12": "j", "msg=12 msg=13": "jb", "msg=1": "",
		"channel=smtp": "j", "channel=SMTP": "j", "channel=smt": "", "channel=*": "jb", "host=*.example.COM": "j", "host=?": "b",
		"sender=<>": "b", "sender=a@*": "j", "sender=*": "jb", "source=login:BOB": "j", "source=login:*": "", "reason=*BUSY*": "j", `reason="(not tried yet)"`: "j", "reason=*": "jb"[:1],
		"older=1h": "j", "older=2h": "j", "older=3h": "", "younger=2h": "b", "younger=3h": "jb", "channel=smtp older=3h": "",
		"state=waiting": "j", "state=held": "b", "state=DUE": "b", "state=fed": "",

		"recipient=u@x.example": "j", "recipient=<u@*>": "j", "recipient=v@*": "", "message-id=1@x": "j", "message-id=<1@*>": "j",
	} {
		sel, err := ParseSelection(text)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if sel.Matches(job, now) && sel.MatchesFile(job) {
			got += "j"
		}
		if sel.Matches(bounce, now) && sel.MatchesFile(bounce) {
			got += "b"
		}
		if got != want {
			t.Errorf("%s matches %q, want %q", text, got, want)
		}
	}
}
