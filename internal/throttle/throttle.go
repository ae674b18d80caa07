// Package throttle lets something happen once in a period for each key, such as
// an ETRN for each host.
package throttle

import (
	"sync"
	"time"
)

// maxKeys bounds the keys that a Throttle remembers.
const maxKeys = 10000

// Throttle remembers when something last happened for each key. Several
// goroutines may use it. The zero value allows everything.
type Throttle struct {
	Period time.Duration

	mu   sync.Mutex
	last map[string]time.Time
}

// Allow reports whether something may happen for a key now, and if so, notes that
// it does. If it has happened for too many keys within the period, Allow refuses other
// keys, too.
func (t *Throttle) Allow(key string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at, known := t.last[key]; known && now.Sub(at) < t.Period {
		return false
	}
	if len(t.last) >= maxKeys {
		for k, at := range t.last {
			if now.Sub(at) >= t.Period {
				delete(t.last, k)
			}
		}
		if len(t.last) >= maxKeys {
			return false
		}
	}
	if t.last == nil {
		t.last = make(map[string]time.Time)
	}
	t.last[key] = now
	return true
}
