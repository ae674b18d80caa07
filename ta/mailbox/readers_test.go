package mailbox

import (
	"encoding/json"
	"os/exec"
	"testing"
)

// readBack has Python's mailbox module read a mailbox and print each message's
// subject, trace and body as JSON.
const readBack = `
import json, mailbox, sys
kind, path = sys.argv[1:]
box = mailbox.mbox(path, create=False) if kind == "mbox" else mailbox.Maildir(path, create=False)
out = []
for message in box:
    trace = [message["Return-Path"], message["Delivered-To"], message["X-Orig-To"]]
    out.append([message["Subject"], trace, message.get_payload()])
out.sort()
json.dump(out, sys.stdout)
`

// A reader that is not ours finds the messages that were sent, and no others.
func TestPythonReadsWhatIsDelivered(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 to read mailboxes with")
	}
	bodies := []string{"first\n", "From the second\n\nFrom a third that is none\n", "no line end", ""}
	for kind, place := range map[string]string{"mbox": "box", "maildir": "box/"} {
		o := newTestSpool(t)
		a := o.agent(Options{Place: Place{Path: "%h/" + place}})
		for i, body := range bodies {
			m := mail("bob 0")
			m.headers, m.body = "Subject: "+string(rune('a'+i))+"\n", body
			o.delivered(a, m)
		}
		said, err := exec.Command(python, "-c", readBack, kind, o.path("home/box")).Output()
		if err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		var got [][]any
		if err := json.Unmarshal(said, &got); err != nil || len(got) != len(bodies) {
			t.Fatalf("%s: %v, %s", kind, err, said)
		}
		for i, want := range bodies {
			if kind == "mbox" {
				want = map[string]string{bodies[1]: ">From the second\n\n>From a third that is none\n", bodies[2]: "no line end\n", "": ""}[want]
				if i == 0 {
					want = bodies[0]
				}
			}
			if got[i][2] != want {
				t.Errorf("%s: message %d is %q, want %q", kind, i, got[i][2], want)
			}
			trace, _ := json.Marshal(got[i][1])
			expect(t, string(trace), `["\u003calice@example.net\u003e","bob@example.org","bob"]`)
		}
	}
}
