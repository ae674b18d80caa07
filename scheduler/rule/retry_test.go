package rule

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestRetryStrategies checks the manual's list (retries) with an interval of
// one minute and without jitter: the waits after each failure.
func TestRetryStrategies(t *testing.T) {
	tests := []struct {
		name    string
		retries []int
		want    []int // minutes
	}{
		{"constant primary interval", []int{1}, []int{1, 1, 1, 1}},
		{"instant backoff", []int{1, 50, 50, 50}, []int{1, 50, 50, 50}},
		{"fibonacci", []int{1, 1, 2, 3, 5, 8, 13, 21, 34}, []int{1, 1, 2, 3, 5, 8, 13, 21, 34}},
		{"s-curve", []int{1, 1, 2, 3, 5, 10, 20, 25, 28, 29, 30}, []int{1, 1, 2, 3, 5, 10, 20, 25, 28, 29, 30}},
		{"exponential", []int{1, 2, 4, 8, 16, 32, 64, 128, 256}, []int{1, 2, 4, 8, 16, 32, 64, 128, 256}},
		{"no retries at all", nil, []int{1, 1, 1}},
	}
	for _, tt := range tests {
		p := &Params{Interval: time.Minute, Retries: tt.retries}
		if got := waits(p, len(tt.want)); !slices.Equal(got, minutes(tt.want)) {
			t.Errorf("%s: waits %v", tt.name, got)
		}
	}
}

// TestRetryBruteForce: retries=0 means as soon as possible, which is one
// second.
func TestRetryBruteForce(t *testing.T) {
	for _, jitter := range []int{0, 10, 100} {
		p := &Params{Interval: time.Hour, Retries: []int{0}, Jitter: jitter}
		for _, wait := range waits(p, 20) {
			if wait != time.Second {
				t.Errorf("jitter %d: waits %v", jitter, wait)
			}
		}
	}
}

// TestRetryGoesOnFromARandomPlace: after its end, the list continues at a
// random number and from there to its end (the manual, retries). The reference
// is a list of all possible sequences.
func TestRetryGoesOnFromARandomPlace(t *testing.T) {
	retries := []int{1, 2, 3, 4}
	p := &Params{Interval: time.Minute, Retries: retries}
	r := rand.New(rand.NewPCG(7, 7))
	seen := make(map[int]bool)
	index := uint8(len(retries))
	for range 200 {
		start, _ := time.Duration(0), 0
		start, index = RetryStep(p, index, 0, r)
		at := int(start/time.Minute) - 1
		seen[at] = true
		for at++; at < len(retries); at++ {
			var wait time.Duration
			if wait, index = RetryStep(p, index, 0, r); wait != time.Duration(retries[at])*time.Minute {
				t.Fatalf("after number %d came %v", at-1, wait)
			}
		}
	}
	if len(seen) != len(retries) {
		t.Errorf("began at %v only", seen)
	}
}

// TestRetryJitter: each wait is within the percentage in either direction, and
// both directions occur.
func TestRetryJitter(t *testing.T) {
	p := &Params{Interval: time.Hour, Retries: []int{1}, Jitter: 10}
	shorter, longer := 0, 0
	for _, wait := range waits(p, 1000) {
		switch {
		case wait < 54*time.Minute || wait > 66*time.Minute:
			t.Fatalf("waits %v", wait)
		case wait < time.Hour:
			shorter++
		default:
			longer++
		}
	}
	if shorter < 400 || longer < 400 {
		t.Errorf("%d shorter, %d longer", shorter, longer)
	}
}

// TestRetryByAge: backoff=age, scheduler.cf(5).
func TestRetryByAge(t *testing.T) {
	p := &Params{Backoff: BackoffAge, MinBackoff: 5 * time.Minute, MaxBackoff: time.Hour}
	for _, tt := range []struct{ age, want time.Duration }{
		{-time.Hour, 5 * time.Minute}, // an mtime in the future
		{0, 5 * time.Minute},
		{20 * time.Minute, 20 * time.Minute},
		{3 * time.Hour, time.Hour},
	} {
		if got, index := RetryStep(p, 3, tt.age, nil); got != tt.want || index != 3 {
			t.Errorf("age %v: waits %v, index %d", tt.age, got, index)
		}
	}
}

// TestRetryOfLargeNumbers: no product overflows.
func TestRetryOfLargeNumbers(t *testing.T) {
	p := &Params{Interval: 365 * 24 * time.Hour, Retries: []int{1_000_000}, Jitter: 100}
	for _, wait := range waits(p, 100) {
		if wait < time.Second || wait > 2*LongestRetry {
			t.Fatalf("waits %v", wait)
		}
	}
}

// waits returns the waits after so many failures.
func waits(p *Params, n int) []time.Duration {
	r := rand.New(rand.NewPCG(1, 2))
	var out []time.Duration
	var index uint8
	for range n {
		var wait time.Duration
		wait, index = RetryStep(p, index, 0, r)
		out = append(out, wait)
	}
	return out
}

func minutes(n []int) []time.Duration {
	out := make([]time.Duration, len(n))
	for i := range n {
		out[i] = time.Duration(n[i]) * time.Minute
	}
	return out
}
