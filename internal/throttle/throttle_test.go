package throttle

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
	if l.Allow("more", start.Add(time.Second)) || len(l.last) != maxKeys {
		t.Errorf("%d keys", len(l.last))
	}
	if !l.Allow("more", start.Add(time.Minute)) || len(l.last) != 1 {
		t.Errorf("%d keys after the period", len(l.last))
	}
}
