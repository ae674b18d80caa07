package server

import (
	"strings"
	"testing"
	"time"

	"zsched/mailq"
)

func TestReasonsAreGrouped(t *testing.T) {
	for text, want := range map[string]string{
		"smtp; 451 busy": "smtp; 451 busy",
		"451 busy\r\n ":  "451 busy",
		"\r<<- a\r->> 4.2.2 mailbox of <x@y> busy":                        "->> 4.2.2 mailbox of <...> busy",
		"connect to [192.0.2.1|2599|192.0.2.9|35144]: Connection refused": "connect to [...]: Connection refused",
		"<<- RCPT To:<a@b>": "<<- RCPT To:<...>",
		"open [bracket":     "open [bracket",
		"empty <> stays":    "empty <> stays",
		"\t\x00tab":         "  tab",
		"a <":               "a <",
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
	items, err := gatherReasons(t.Context(), &picture{jobs: []*mailq.Job{
		{Name: mailq.Name{Channel: "smtp", Host: "a"}, Recipients: rcpts("rare", "often <1>", "", "often <2>")},
		{Name: mailq.Name{Channel: "smtp", Host: "b"}, Recipients: rcpts("often <3>", "")},
	}})
	must(t, err)
	if len(items) != 2 || *items[0] != (mailq.ReasonItem{Reason: "often <...>", Recipients: 3, Jobs: 2, Example: "often <1>", Destination: mailq.Name{Channel: "smtp", Host: "a"}}) ||
		items[1].Reason != "rare" || items[1].Recipients != 1 || items[1].Jobs != 1 {
		t.Errorf("%+v", items)
	}
}

func TestShapeHasColumns(t *testing.T) {
	now := time.Unix(1e9, 0)
	job := func(host string, age time.Duration, n int) *mailq.Job {
		return &mailq.Job{Name: mailq.Name{Channel: "smtp", Host: host}, ArrivedAt: now.Add(-age), Recipients: make([]mailq.Recipient, n)}
	}
	q := &picture{jobs: []*mailq.Job{job("small", 0, 1), job("large", 5*time.Minute-1, 2), job("large", 5*time.Minute, 3),
		job("mid", 1280*time.Minute-1, 1), job("mid", 1280*time.Minute, 1), job("mid", 1e6*time.Minute, 1), job("new", -time.Hour, 1)}}
	items, err := gatherShape(t.Context(), q, now)
	must(t, err)
	want := []mailq.ShapeItem{
		{All: true, Total: 10, Ages: [10]int{0: 4, 1: 3, 8: 1, 9: 2}},
		{Name: mailq.Name{Channel: "smtp", Host: "large"}, Total: 5, Ages: [10]int{0: 2, 1: 3}},
		{Name: mailq.Name{Channel: "smtp", Host: "mid"}, Total: 3, Ages: [10]int{8: 1, 9: 2}},
		{Name: mailq.Name{Channel: "smtp", Host: "new"}, Total: 1, Ages: [10]int{0: 1}},
		{Name: mailq.Name{Channel: "smtp", Host: "small"}, Total: 1, Ages: [10]int{0: 1}},
	}
	if len(items) != len(want) {
		t.Fatalf("%d lines", len(items))
	}
	for i := range want {
		if *items[i] != want[i] {
			t.Errorf("%+v, want %+v", *items[i], want[i])
		}
	}
}
