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

func TestKeysAreBounded(t *testing.T) {
	l, start := Throttle{Period: time.Minute}, time.Unix(1e9, 0)
	for i := range maxKeys {
		if !l.Allow(strconv.Itoa(i), start) {
			t.Fatalf("key %d is refused", i)
		}
	}
	if l.Allow("more", start.Add(time.Second)) || len(l.byKey) != maxKeys {
		t.Errorf("%d keys", len(l.byKey))
	}
	if !l.Allow("more", start.Add(time.Minute)) || len(l.byKey) != 1 {
		t.Errorf("%d keys after the period", len(l.byKey))
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
