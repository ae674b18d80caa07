package admin

import (
	"sync"
	"time"

	"zsched/mailq/server"
)

// chatter is how many lines a second a kind of note may be worth that
// strangers cause: a flood of connections must not become one of the log.
const chatter = 5

// restraint counts them.
type restraint struct {
	mu   sync.Mutex
	said map[server.NoteKind]*spoken
}

// spoken is what was said of a kind within a second.
type spoken struct {
	since  time.Time
	lines  int
	unsaid int // since the last line
}

// speak says whether another line may be logged, and how many of its kind were
// not before it.
func (r *restraint) speak(kind server.NoteKind, now time.Time) (unsaid int, ok bool) {
	if kind == server.NoteOrder || kind == server.NoteTrigger {
		return 0, true // those of whom they are were let in to do that
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.said == nil {
		r.said = make(map[server.NoteKind]*spoken)
	}
	s := r.said[kind]
	if s == nil {
		s = new(spoken)
		r.said[kind] = s
	}
	if now.Sub(s.since) >= time.Second {
		s.since, s.lines = now, 0
	}
	if s.lines == chatter {
		s.unsaid++
		return 0, false
	}
	s.lines++
	unsaid, s.unsaid = s.unsaid, 0
	return unsaid, true
}
