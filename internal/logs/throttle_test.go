package logs

import (
	"strconv"
	"testing"
	"time"
)

func TestOnceInAPeriodForEachKey(t *testing.T) {
	l, start := Throttle{Period: time.Minute}, time.Unix(1e9, 0)
	for _, c := range []struct {
		key   string
		after time.Duration
		want  bool
	}{
		{"a", 0, true}, {"a", time.Second, false}, {"b", time.Second, true},
		{"a", 59 * time.Second, false}, {"a", time.Minute, true}, {"b", time.Minute, false},
	} {
		if got := l.Allow(c.key, start.Add(c.after)); got != c.want {
			t.Errorf("%s after %v: %v", c.key, c.after, got)
		}
	}
}

// New keys beyond the bound share one: what they do becomes rare, and is counted.
func TestKeysAreBoundedAndTheRestShareOne(t *testing.T) {
	l, start := Throttle{Period: time.Minute}, time.Unix(1e9, 0)
	for i := range maxKeys {
		if !l.Allow(strconv.Itoa(i), start.Add(time.Second)) {
			t.Fatalf("key %d is refused", i)
		}
	}
	for _, c := range []struct {
		key     string
		after   time.Duration
		missing int
		ok      bool
	}{
		{"more", 0, 0, true}, {"another", time.Second, 0, false}, {"more", time.Second, 0, false}, {"0", time.Second, 0, false},
		{"a third", time.Minute, 2, true}, {"more", time.Minute, 0, false},
	} {
		if missing, ok := l.Take(c.key, start.Add(c.after)); missing != c.missing || ok != c.ok || len(l.byKey) != maxKeys {
			t.Errorf("%s after %v: %d missing, %v; %d keys", c.key, c.after, missing, ok, len(l.byKey))
		}
	}
	if !l.Allow("more", start.Add(2*time.Minute)) || len(l.byKey) != 1 {
		t.Errorf("%d keys when the period of the rest is over", len(l.byKey))
	}
}

func TestLinesOfEachKindAreBoundedAndTheRestCounted(t *testing.T) {
	l, start := Throttle{Number: 5, Period: time.Second}, time.Unix(1e9, 0)
	logged := 0
	for range 1000 {
		if _, ok := l.Take("a", start); ok {
			logged++
		}
	}
	if logged != 5 {
		t.Errorf("%d lines in a second", logged)
	}
	if missing, ok := l.Take("b", start); missing != 0 || !ok {
		t.Errorf("another kind: %d missing, logged: %v", missing, ok)
	}
	if missing, ok := l.Take("a", start.Add(time.Second)); missing != 995 || !ok {
		t.Errorf("in the next second: %d missing, logged: %v", missing, ok)
	}
}
