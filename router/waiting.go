package router

// The submissions that wait. Their owners take turns.

import (
	"slices"
	"sync"
	"time"
)

// waiting are the submissions that wait for a batch. Their owners take turns, so that one
// with many files delays nobody else's. An owner is a user as process.UserOf names it. The loop
// and a sweep use them at the same time.
type waiting struct {
	// ready has a value when submissions may wait.
	ready chan struct{}

	mu    sync.Mutex
	names map[int][]string // by owner, in order of arrival; no owner has an empty list
	turns []int            // the keys of names, the next first
	taken int              // how many of the first one's turn
	// known has all of them, with the owner: a name that a user has left may be another's now.
	known map[owned]bool
	// paused has the owners whose submissions are left alone until then.
	paused map[int]time.Time
	// trusted owners have no limit, and turns of trustedTurn.
	trusted map[int]bool
	// spent has how many recipients the submissions of owners had in the minute that began at minute.
	spent  map[int]int
	minute time.Time
}

// owned is the name of a submission and its owner.
type owned struct {
	name string
	uid  int
}

// trustedTurn is how many submissions a trusted owner has a turn: all mail of the SMTP server has one owner.
const trustedTurn = 20

func newWaiting(trusted map[int]bool) *waiting {
	return &waiting{trusted: trusted, ready: make(chan struct{}, 1), names: map[int][]string{}, known: map[owned]bool{}, paused: map[int]time.Time{}, spent: map[int]int{}}
}

// add adds a submission, a name below router/, unless it waits already or its owner is paused.
// A later sweep finds those of an owner who is paused.
func (w *waiting) add(name string, uid int, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known[owned{name, uid}] || now.Before(w.paused[uid]) {
		return
	}
	if w.names[uid] == nil {
		w.turns = append(w.turns, uid)
	}
	w.known[owned{name, uid}] = true
	w.names[uid] = append(w.names[uid], name)
	w.wake()
}

// wake makes the loop look for what waits.
func (w *waiting) wake() {
	select {
	case w.ready <- struct{}{}:
	default: // it will look
	}
}

// empty reports whether none waits.
func (w *waiting) empty() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.turns) == 0
}

// next removes the first submission of the owner whose turn it is. It returns false if none waits.
// A sweep may add it again while its batch is routed.
func (w *waiting) next() (name string, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.turns) == 0 {
		return "", false
	}
	uid := w.turns[0]
	name, w.names[uid] = w.names[uid][0], w.names[uid][1:]
	delete(w.known, owned{name, uid})
	w.taken++
	switch {
	case len(w.names[uid]) == 0:
		delete(w.names, uid)
		w.turns, w.taken = w.turns[1:], 0
	case !w.trusted[uid] || w.taken >= trustedTurn:
		w.turns, w.taken = append(w.turns[1:], uid), 0
	}
	return name, true
}

// spend counts recipients of an owner. If those of a minute are more than the limit, the owner's
// submissions are left alone until the minute is over, and it returns false.
func (w *waiting) spend(uid, recipients, limit int, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.trusted[uid] {
		return true
	}
	if now.Sub(w.minute).Abs() >= time.Minute {
		w.minute = now
		clear(w.spent)
	}
	if w.spent[uid] += recipients; w.spent[uid] <= limit {
		return true
	}
	w.paused[uid] = w.minute.Add(time.Minute)
	for _, name := range w.names[uid] {
		delete(w.known, owned{name, uid})
	}
	delete(w.names, uid)
	if i := slices.Index(w.turns, uid); i >= 0 {
		if i == 0 {
			w.taken = 0
		}
		w.turns = slices.Delete(w.turns, i, i+1)
	}
	return false
}
