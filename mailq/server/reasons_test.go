package server

import (
	"strings"
	"testing"

	"zsched/mailq"
)

func TestReasonsAreGrouped(t *testing.T) {
	for text, want := range map[string]string{
		"smtp; 451 busy": "smtp; 451 busy",
		"451 busy\r\n ":  "451 busy",
		"\r<<- a\r->> 4.2.2 mailbox of <x@y> busy":                        "4.2.2 mailbox of <...> busy",
		"connect to [192.0.2.1|2599|192.0.2.9|35144]: Connection refused": "connect to [...]: Connection refused",
		"<<- RCPT To:<a@b>": "<<- RCPT To:<...>",
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
		if got := reasonKey(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := reasonKey(strings.Repeat("ö", 200)); len(got) > maxReasonKey || strings.Trim(got, "ö") != "" {
		t.Errorf("%d bytes: %q", len(got), got)
	}
	rcpts := func(reasons ...string) (list []mailq.Recipient) {
		for _, r := range reasons {
			list = append(list, mailq.Recipient{Reason: r})
		}
		return list
	}
	items, err := gatherReasons(t.Context(), &fakeQueue{jobs: []*mailq.Job{
		{Name: mailq.Name{Channel: "smtp", Host: "a"}, Recipients: rcpts("rare", "often <1>", "", "often <2>")},
		{Name: mailq.Name{Channel: "smtp", Host: "b"}, Recipients: rcpts("often <3>", "")},
	}})
	must(t, err)
	if len(items) != 2 || *items[0] != (mailq.ReasonItem{Reason: "often <...>", Recipients: 3, Jobs: 2, Example: "often <1>", Destination: mailq.Name{Channel: "smtp", Host: "a"}}) ||
		items[1].Reason != "rare" || items[1].Recipients != 1 || items[1].Jobs != 1 {
		t.Errorf("%+v", items)
	}
}

// TestManyReasonsAreBounded: diagnostics that all differ do not fill memory.
func TestManyReasonsAreBounded(t *testing.T) {
	p := &fakeQueue{}
	for i := range 5 * maxReasons {
		p.jobs = append(p.jobs, &mailq.Job{Recipients: []mailq.Recipient{{Reason: strings.Repeat("x", 1000+i)}, {Reason: "busy " + inLetters(i)}}})
	}
	items, err := gatherReasons(t.Context(), p)
	must(t, err)
	total := 0
	for _, it := range items {
		total += it.Recipients
		if len(it.Reason) > maxReasonKey {
			t.Fatalf("a reason of %d bytes", len(it.Reason))
		}
	}
	last := items[len(items)-1]
	if len(items) != maxReasons+1 || total != 10*maxReasons || !last.Others || last.Recipients == 0 {
		t.Errorf("%d reasons for %d recipients, last %+v", len(items), total, last)
	}
}

// TestMostFrequentReasonsHaveLines: the most frequent diagnostic is found last, after more
// others than there are lines.
func TestMostFrequentReasonsHaveLines(t *testing.T) {
	p := &fakeQueue{}
	for i := range 2*maxReasons + 50 {
		text := "busy " + inLetters(min(i, 2*maxReasons))
		p.jobs = append(p.jobs, &mailq.Job{Recipients: []mailq.Recipient{{Reason: text}, {Reason: text}}})
	}
	items, err := gatherReasons(t.Context(), p)
	must(t, err)
	if len(items) != maxReasons+1 {
		t.Fatalf("%d lines", len(items))
	}
	if first := items[0]; first.Reason != "busy "+inLetters(2*maxReasons) || first.Recipients != 100 || first.Jobs != 50 {
		t.Errorf("the first is %+v", first)
	}
	if last := items[maxReasons]; !last.Others || last.Recipients != 2*(maxReasons+1) {
		t.Errorf("the last is %+v", last)
	}
}

// inLetters writes a number in letters.
func inLetters(n int) string {
	word := ""
	for ; n > 0; n /= 26 {
		word += string(rune('a' + n%26))
	}
	return word
}
