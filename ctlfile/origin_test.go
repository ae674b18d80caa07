package ctlfile

import (
	"strings"
	"testing"
)

func TestOriginSurvivesWriting(t *testing.T) {
	for _, o := range []Origin{
		{Node: "mx1", SpoolID: "S258367XMVQKNOA", Offset: 109, Attempts: 3},
		{Node: "host:/var/spool/postoffice", SpoolID: "S1A", Offset: 58},
		{Node: "mx1", SpoolID: "S1A", Offset: 58, Class: 2, Channel: "smtp", Host: "((a.example)(b.example c.example))"},
		{Node: "mx1", SpoolID: "S1A", Offset: 58, Channel: `"odd channel"`, Host: "-"},
	} {
		got, err := ParseOrigin(o.String())
		if err != nil || got != o {
			t.Errorf("%q is read as %+v, %v", o.String(), got, err)
		}
	}
}

func TestOriginThatCannotBeRead(t *testing.T) {
	for _, value := range []string{
		"", "mx1", "mx1/S1A", "/S1A/58 0", "mx1//58 0", "mx1/S1A/58", "mx1/S1A/many 0", "mx1/S1A/58 -1",
		"mx1/S1A/58 0 0", "mx1/S1A/58 0 0 smtp", "mx1/S1A/58 0 x smtp host", "mx1/S1A/58 0 0 \"smtp host",
	} {
		if o, err := ParseOrigin(value); err == nil {
			t.Errorf("%q is read as %+v", value, o)
		}
	}
}

// TestControlFileKeepsOriginsAndDelays: what a moved recipient brings with it is in the
// control file, and a list of hosts stays one if the caller says that it may.
func TestControlFileKeepsOriginsAndDelays(t *testing.T) {
	c := Contents{Name: "7", HostLists: true, Blocks: []HeaderBlock{{Envelopes: []Envelope{{
		Sender: Address{"smtp", "-", "a@example", "0"},
		Recipients: []EnvelopeRecipient{{
			Address: Address{"smtp", "((mx1)(mx2 mx3))", "b@example", "0"}, Class: 2, Delays: 12, DSN: "NOTIFY=NEVER", Origin: "mx1/S1A/58 3",
		}},
	}}}}}
	text, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	f, err := Parse(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	r := &f.Recipients[0]
	if r.Origin != "mx1/S1A/58 3" || r.Delays != 12 || r.PID() != 0 || r.Host != "((mx1)(mx2 mx3))" || r.RouteHost() != "mx1" || r.Class != 2 {
		t.Errorf("%+v", r)
	}
	if again := f.Extract([]int{0}).Blocks[0].Envelopes[0].Recipients[0]; again.Origin != r.Origin || again.Delays != 12 {
		t.Errorf("a copy has %+v", again)
	}
	c.HostLists = false
	c.Blocks[0].Envelopes[0].Recipients[0].Host = "((mx1)(mx2))"
	if _, err := c.Encode(); err == nil || !strings.Contains(err.Error(), "list of hosts") {
		t.Errorf("without HostLists: %v", err)
	}
}
