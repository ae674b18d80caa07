package throttle

// The limit on log lines that any peer can cause.

import (
	"sync"
	"time"
)

// Lines bounds the log lines of each kind in a second, and counts the rest. A flood of
// connections must not become a flood of log lines. Several goroutines may use it.
type Lines struct {
	PerSecond int

	mu     sync.Mutex
	byKind map[string]*kind
}

// kind is what was logged of one kind within a second.
type kind struct {
	since   time.Time
	lines   int
	missing int // lines not logged since the last logged line
}

// Take reports whether a line may be logged now, and how many of its kind before it were
// not. The kinds are few, and no peer chooses them.
func (l *Lines) Take(name string, now time.Time) (missing int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byKind == nil {
		l.byKind = make(map[string]*kind)
	}
	k := l.byKind[name]
	if k == nil {
		k = new(kind)
		l.byKind[name] = k
	}
	if now.Sub(k.since) >= time.Second {
		k.since, k.lines = now, 0
	}
	if k.lines == l.PerSecond {
		k.missing++
		return 0, false
	}
	k.lines++
	missing, k.missing = k.missing, 0
	return missing, true
}
