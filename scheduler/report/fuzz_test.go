package report

import (
	"slices"
	"strings"
	"testing"

	"zsched/queue"
)

// FuzzForm uses any file as a form: the notice has the fields of a notice once, its
// parts are as without a form, and copies go to plain addresses only.
func FuzzForm(f *testing.F) {
	f.Add("HDR From: The Post Office <postmaster@example.org>\nADR Cc: Copies <copies@example.org>\nSUB Subject: Über\n\nsorry\n")
	f.Add("ADR Bcc: |/bin/sh, a@b, \"x y\"@c\nHDR Content-Type: text/html\r\nHDR X: a\rb\x00\n\n--boundary\n.\n")
	f.Add("\nno fields\n")
	without, err := Compose(plain())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n := plain()
		n.Form = ParseForm(text)
		for _, address := range n.Form.Copies {
			if !queue.PlainAddress(address) {
				t.Errorf("a copy goes to %q", address)
			}
		}
		p, q := parse(t, n), parseMessage(t, without.Header+"\n"+string(without.Body))
		for _, name := range []string{"To", "Subject", "Content-Type", "Mime-Version", "Auto-Submitted"} {
			if len(p.Header[name]) != 1 {
				t.Errorf("the notice has %s: %q", name, p.Header[name])
			}
		}
		if !slices.Equal(p.kinds, q.kinds) || !slices.Equal(p.parts[1:], q.parts[1:]) && !strings.Contains(text, "\n") {
			t.Errorf("the parts are %q", p.kinds)
		}
	})
}
