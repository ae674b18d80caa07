package server

import (
	"fmt"
	"iter"
	"runtime"
	"slices"
	"testing"
	"time"

	"zsched/mailq"
	"zsched/scheduler/view"
)

func count(t *testing.T, key string, limit int, jobs iter.Seq2[*mailq.JobLine, error]) []*mailq.CountItem {
	t.Helper()
	c := counting{key: countKeys[key], limit: limit, now: time.Unix(1e9, 0), lines: make(map[string]*mailq.CountItem), groups: make(map[string]string)}
	items, err := c.count(jobs)
	must(t, err)
	return items
}

func TestReasonsAreGrouped(t *testing.T) {
	rcpts := func(reasons ...string) (list []mailq.Recipient) {
		for _, r := range reasons {
			list = append(list, mailq.Recipient{Reason: r})
		}
		return list
	}
	items := count(t, "reason", maxCounted, each2(
		&mailq.JobLine{Name: mailq.Name{Channel: "smtp", Host: "a"}, Recipients: rcpts("rare", "often <1>", "", "often <2>")},
		&mailq.JobLine{Name: mailq.Name{Channel: "smtp", Host: "b"}, Recipients: rcpts("often <3>", "")},
	))
	if len(items) != 4 || items[0].Key != "often <...>" || items[0].Recipients != 3 || items[0].Messages != 2 || items[0].Destination.Host != "a" ||
		items[1].Key != mailq.NotTried || items[1].Recipients != 2 || items[2].Key != "rare" || items[2].Recipients != 1 ||
		items[3].Recipients != 6 || items[3].Lines != 3 {
		t.Errorf("%+v", items)
	}
}

// each2 is a sequence of jobs.
func each2(all ...*mailq.JobLine) iter.Seq2[*mailq.JobLine, error] {
	return func(yield func(*mailq.JobLine, error) bool) {
		for _, job := range all {
			if !yield(job, nil) {
				return
			}
		}
	}
}

func TestCountsHaveAges(t *testing.T) {
	now := time.Unix(1e9, 0)
	job := func(host string, age time.Duration, n int) *mailq.JobLine {
		return &mailq.JobLine{Name: mailq.Name{Channel: "smtp", Host: host}, ArrivedAt: now.Add(-age), Recipients: make([]mailq.Recipient, n)}
	}
	items := count(t, "destination", maxCounted, each2(job("small", 0, 1), job("large", 5*time.Minute-1, 2), job("large", 5*time.Minute, 3),
		job("mid", 1280*time.Minute-1, 1), job("mid", 1280*time.Minute, 1), job("mid", 1e6*time.Minute, 1), job("new", -time.Hour, 1)))
	for i, want := range []mailq.CountItem{
		{Key: "smtp/large", Recipients: 5, Ages: [10]int{0: 2, 1: 3}}, {Key: "smtp/mid", Recipients: 3, Ages: [10]int{8: 1, 9: 2}},
		{Key: "smtp/new", Recipients: 1, Ages: [10]int{0: 1}}, {Key: "smtp/small", Recipients: 1, Ages: [10]int{0: 1}},
		{Recipients: 10, Ages: [10]int{0: 4, 1: 3, 8: 1, 9: 2}},
	} {
		if got := items[i]; got.Key != want.Key || got.Recipients != want.Recipients || got.Ages != want.Ages {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

// TestSendersCountDestinations: a message counts once for each of its destinations.
func TestSendersCountDestinations(t *testing.T) {
	job := func(number uint64, sender string, n int) *mailq.JobLine {
		return &mailq.JobLine{Message: view.MessageID(number), Sender: sender, Recipients: make([]mailq.Recipient, n)}
	}
	jobs := each2(job(1, "Ann@A.example", 2), job(1, "Ann@A.example", 1), job(2, "ann@a.example", 1), job(3, "", 1), job(4, "odd", 1))
	for key, want := range map[string][]string{
		"sender": {"ann@a.example 3 4", "<> 1 1", "odd 1 1", " 5 6"},
		"domain": {"a.example 3 4", "(no domain) 1 1", "<> 1 1", " 5 6"},
	} {
		var got []string
		for _, it := range count(t, key, maxCounted, jobs) {
			got = append(got, fmt.Sprint(it.Key, " ", it.Messages, " ", it.Recipients))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q", key, got)
		}
	}
}

// TestLargestHaveLines: of more values than are counted, the largest have lines, also those that
// come last or are spread over the queue; the sums stay exact, and memory is bounded.
func TestLargestHaveLines(t *testing.T) {
	const limit, forged = 1000, 30_000
	var most, before runtime.MemStats
	jobs := func(yield func(*mailq.JobLine, error) bool) {
		for i := range uint64(forged) {
			yield(&mailq.JobLine{Message: view.MessageID(2 * i), Sender: fmt.Sprintf("sender%d@forged%d.example", i, i), Recipients: make([]mailq.Recipient, 1)}, nil)
			if i%100 == 0 {
				yield(&mailq.JobLine{Message: view.MessageID(2*i + 1), Sender: "bulk@shop.example", Recipients: make([]mailq.Recipient, 2)}, nil)
			}
		}
		for i := range uint64(20) {
			yield(&mailq.JobLine{Message: view.MessageID(3*forged + i), Sender: "late@shop.example", Recipients: make([]mailq.Recipient, 1)}, nil)
		}
		runtime.GC()
		runtime.ReadMemStats(&most)
	}
	runtime.GC()
	runtime.ReadMemStats(&before)
	items := count(t, "sender", limit, jobs)
	if grown := int64(most.HeapAlloc) - int64(before.HeapAlloc); grown > 1<<20 {
		t.Errorf("%d bytes are in use", grown)
	}
	total, others := items[len(items)-1], items[len(items)-2]
	var sum mailq.CountItem
	for _, it := range items[:len(items)-1] {
		sum.Add(it)
	}
	if len(items) > limit+2 || items[0].Key != "bulk@shop.example" || items[0].Messages != forged/100 || items[1].Key != "late@shop.example" ||
		!others.Others || !total.Total || total.Messages != forged+forged/100+20 || sum.Messages != total.Messages {
		t.Errorf("%d lines; %+v, %+v, %+v, %+v", len(items), items[0], items[1], others, total)
	}
}
