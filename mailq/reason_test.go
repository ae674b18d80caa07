package mailq

import (
	"strings"
	"testing"
	"time"
)

func TestReasonKind(t *testing.T) {
	for text, want := range map[string]string{
		"smtp; 451 busy": "smtp; 451 busy",
		"451 busy\r\n ":  "451 busy",
		"\r<<- a\r->> 4.2.2 mailbox of <x@y> busy":                        "4.2.2 mailbox of <...> busy",
		"connect to [192.0.2.1|2599|192.0.2.9|35144]: Connection refused": "connect to [...]: Connection refused",
		"421 4.7.0 [TSS04] Messages from 192.0.2.1 deferred":              "421 4.7.0 [TSS04] Messages from ... deferred",
		"450 4.7.1 [TS03] all [a b] of [u@h.example]: [17 x]":             "450 4.7.1 [TS03] all [a b] of [...]: [...]",
		"<<- RCPT To:<a@b>": "no reply to RCPT",
		"open [bracket":     "open [bracket",
		"empty <> stays":    "empty <> stays",
		"\t\x00tab":         "  tab",
		"a <":               "a <",
		"451 4.2.2 mx1.example.com busy until 08:15:09": "451 4.2.2 ... busy until ...",
		"connect to 192.0.2.1:25: refused":              "connect to ...: refused",
		"no route to 2001:db8::1, 8:15":                 "no route to ..., ...",
		"user u@a.example unknown (e.g. 5.1.1)":         "user ... unknown (e.g. 5.1.1)",
		"host xn--bcher-kva.xn--p1ai: 421":              "host ...: 421",
		"ratio 10:99 of a..b":                           "ratio 10:99 of a..b",
		"\r<<- DATA\r->> 421-4.7.28 Gmail has detected an unusual rate\r->> 421 4.7.28 from your IP address. 61c-20020a05af00si8724952.92 - gsmtp": "421 4.7.28 Gmail has detected an unusual rate from your IP address. ... - gsmtp",
		"smtp; 421-4.7.28 Gmail\n421 4.7.28 rate 17":                                  "421 4.7.28 Gmail rate ...",
		"450 4.2.0 Greylisted, come back in 287 seconds":                              "450 4.2.0 Greylisted, come back in ... seconds",
		"\r->> 250-a.example\r->> 250 SIZE\r<<- MAIL\r->> 451 4.3.0 queue 4Xy7Qz1Jz2": "451 4.3.0 queue ...",
		"450 4.7.1 try again in 300s, see RFC 6647 (5.7.1)":                           "450 4.7.1 try again in ..., see RFC ... (5.7.1)",
	} {
		if got := ReasonKind(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := ReasonKind(strings.Repeat("ö", 200)); len(got) > maxReasonKind || strings.Trim(got, "ö") != "" {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}

// A pattern for reasons matches the last reply as lists show it, with all its lines, and
// the line of SHOW REASONS that counts it, but no command of a transcript.
func TestPatternsForReasonsMatchWhatIsShown(t *testing.T) {
	const command = "\r<<- MAIL From:<alice@a.example>\r->> 250 2.0.0 ok\r<<- RCPT To:<bob@b.example>"
	for reason, more := range map[string]string{
		command + "\r->> 452-4.2.2 The inbox is out of storage.\r->> 452-4.2.2 Please direct the recipient to\r->> 452 4.2.2 https://a.example/1 x1si2.1 - gsmtp": "*Please direct the recipient*",
		command + "\r->> 421 4.7.0 [TSS04] Messages from 192.0.2.1 deferred":                                                                                      "*[TSS04]*",
		command + "\r->> 550-5.1.1 " + strings.Repeat("no such user, ", 20) + "\r->> 550 5.1.1 at all 17":                                                         "*at all 17",
		command + "\r->> 550 5.1.1 " + strings.Repeat("x", 183) + " 7":                                                                                            "550*",
		command + "\r->> 550 5.1.1 " + strings.Repeat("ö", 100):                                                                                                   "550*",
		"connect to [192.0.2.1]: timed out":                                                                                                                       "*timed out",
		command:                                                                                                                                                   "no reply to RCPT",
	} {
		job := &JobLine{Recipients: []Recipient{{Reason: reason}}}
		for _, p := range []string{LastReply(reason), ReasonKind(reason), more} {
			if sel := (&Selection{Reason: p}); !sel.Matches(job, time.Now()) {
				t.Errorf("%q does not match %q", p, reason)
			}
		}
		for _, p := range []string{"*alice*", "*bob*", "*MAIL From*", "*250 2.0.0 ok*", "*<<-*", "*->>*"} {
			if sel := (&Selection{Reason: p}); sel.Matches(job, time.Now()) {
				t.Errorf("%q matches %q", p, reason)
			}
		}
	}
}
