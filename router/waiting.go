package router

// The submissions that wait. Their owners take turns.

import (
	"slices"
	"sync"
	"time"
)

// pauseLength is how long an owner's submissions wait after one that cannot be read could not be
// moved aside either.
const pauseLength = 2 * time.Minute

// waiting are the submissions that wait for a batch. Their owners take turns, so that one
// with many files delays nobody else's. An owner is a user as process.UserOf names it. The loop
// and a sweep use them at the same time.
type waiting struct {
	// ready has a value when submissions may wait.
	ready chan struct{}

	mu    sync.Mutex
	names map[int][]string // by owner, in order of arrival; no owner has an empty list
	turns []int            // the keys of names, the next first
	// known has all of them, with the owner: a name that a user has left may be another's now.
	known map[owned]bool
	// paused has the owners whose submissions are left alone until then.
	paused map[int]time.Time
	// large has the owners whose last submission was large.
	large map[int]bool
}

// owned is the name of a submission and its owner.
type owned struct {
	name string
	uid  int
}

func newWaiting() *waiting {
	return &waiting{ready: make(chan struct{}, 1), names: map[int][]string{}, known: map[owned]bool{}, paused: map[int]time.Time{}, large: map[int]bool{}}
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

// next removes the first submission of the owner whose turn it is. With largeLast, owners whose
// last one was large have none while others wait. It returns false if none waits. A sweep may
// add it again while its batch is routed.
func (w *waiting) next(largeLast bool) (name string, uid int, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.turns) == 0 {
		return "", 0, false
	}
	turn := 0
	if largeLast {
		turn = max(0, slices.IndexFunc(w.turns, func(u int) bool { return !w.large[u] }))
	}
	uid = w.turns[turn]
	w.turns = slices.Delete(w.turns, turn, turn+1)
	delete(w.large, uid)
	name, w.names[uid] = w.names[uid][0], w.names[uid][1:]
	delete(w.known, owned{name, uid})
	if len(w.names[uid]) > 0 {
		w.turns = append(w.turns, uid)
	} else {
		delete(w.names, uid)
	}
	return name, uid, true
}

// setLarge says that the last submission of an owner was large.
func (w *waiting) setLarge(uid int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.large[uid] = true
}

// pause leaves an owner's submissions alone for a while.
func (w *waiting) pause(uid int, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paused[uid] = now.Add(pauseLength)
	for _, name := range w.names[uid] {
		delete(w.known, owned{name, uid})
	}
	delete(w.names, uid)
	w.turns = slices.DeleteFunc(w.turns, func(u int) bool { return u == uid })
}
