package server

import (
	"strconv"
	"testing"
	"time"

	"zsched/mailq"
)

func TestShapeHasColumns(t *testing.T) {
	now := time.Unix(1e9, 0)
	job := func(host string, age time.Duration, n int) *mailq.Job {
		return &mailq.Job{Name: mailq.Name{Channel: "smtp", Host: host}, ArrivedAt: now.Add(-age), Recipients: make([]mailq.Recipient, n)}
	}
	q := &fakeQueue{jobs: []*mailq.Job{job("small", 0, 1), job("large", 5*time.Minute-1, 2), job("large", 5*time.Minute, 3),
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

// TestLargestDestinationsHaveLines: the largest destination is found last, after more
// others than there are lines.
func TestLargestDestinationsHaveLines(t *testing.T) {
	q := &fakeQueue{}
	for i := range maxShapes + 10 {
		name := mailq.Name{Channel: "smtp", Host: strconv.Itoa(min(i, maxShapes+1))}
		q.jobs = append(q.jobs, &mailq.Job{Name: name, Recipients: make([]mailq.Recipient, 1)})
	}
	items, err := gatherShape(t.Context(), q, time.Now())
	must(t, err)
	first, last := items[1], items[len(items)-1]
	if len(items) > maxShapes+2 || first.Host != strconv.Itoa(maxShapes+1) || first.Total != 9 || !last.Others ||
		last.Total != maxShapes/2 || last.Ages[9] != last.Total {
		t.Errorf("%d lines, the first is %+v, the last %+v", len(items), first, last)
	}
}
