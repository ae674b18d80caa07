package logs

// Throttle: something may happen a number of times in a period for each key, such as an
// ETRN for each host, or log lines of each kind that any peer can cause.

import (
	"maps"
	"sync"
	"time"
)

// maxKeys bounds the keys that a Throttle remembers.
const maxKeys = 10000

// Throttle remembers what happened for each key. Several goroutines may use it. The zero
// value allows everything.
type Throttle struct {
	Period time.Duration
	Number int // how often in the period; 0 means once

	mu    sync.Mutex
	byKey map[string]*key
	rest  key // of all names that come when there are maxKeys, together
}

// key is what happened for a key in the period since a time.
type key struct {
	since   time.Time
	number  int
	missing int // refused since the last time that something was allowed
}

// Allow reports whether something may happen for a key now, and if so, notes that
// it does. If it has happened for too many keys within the period, all others count as one.
func (t *Throttle) Allow(name string, now time.Time) bool {
	_, ok := t.Take(name, now)
	return ok
}

// Take is Allow for what is counted: when something may happen, missing is how often it was
// refused for the key before.
func (t *Throttle) Take(name string, now time.Time) (missing int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.byKey[name]
	if k == nil {
		k = t.obtain(name, now)
	}
	if now.Sub(k.since) >= t.Period {
		k.since, k.number = now, 0
	}
	if k.number == max(1, t.Number) {
		k.missing++
		return 0, false
	}
	k.number++
	missing, k.missing = k.missing, 0
	return missing, true
}

// obtain makes a key, or returns that of the rest if there are too many. To look for old ones
// among all takes long, so that happens once in a period of the rest.
func (t *Throttle) obtain(name string, now time.Time) *key {
	if len(t.byKey) >= maxKeys && now.Sub(t.rest.since) >= t.Period {
		maps.DeleteFunc(t.byKey, func(_ string, k *key) bool { return now.Sub(k.since) >= t.Period })
	}
	if len(t.byKey) >= maxKeys {
		return &t.rest
	}
	if t.byKey == nil {
		t.byKey = make(map[string]*key)
	}
	k := &key{since: now}
	t.byKey[name] = k
	return k
}
