package server

import (
	"strings"
	"testing"

	"zsched/mailq"
)

func TestReasonsAreGrouped(t *testing.T) {
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
		if len(it.Reason) > 200 {
			t.Fatalf("a reason of %d bytes", len(it.Reason))
		}
	}
	last := items[len(items)-1]
	if len(items) > maxReasons+1 || total != 10*maxReasons || !last.Others || last.Recipients == 0 {
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
	if len(items) > maxReasons+1 {
		t.Fatalf("%d lines", len(items))
	}
	if first := items[0]; first.Reason != "busy "+inLetters(2*maxReasons) || first.Recipients != 100 || first.Jobs != 50 {
		t.Errorf("the first is %+v", first)
	}
	listed := len(items) - 1
	if last := items[listed]; !last.Others || last.Recipients != 2*(2*maxReasons+1-listed) {
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
