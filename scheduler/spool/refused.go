package spool

// Refused control files, which are read again later.

import (
	"sync"
	"time"
)

const (
	// firstRetry is how long after its first refusal a name is announced again. The time
	// doubles with each refusal, up to lastRetry.
	firstRetry = time.Second
	lastRetry  = 16 * time.Second
	// waitLimit bounds the refused names that are remembered. The sweep finds the
	// others again.
	waitLimit = 4096
)

// refusals are the names whose files were refused and will be read again. The spool
// remembers no other names.
type refusals struct {
	mu      sync.Mutex
	waiting map[string]wait // by path
	beyond  int             // refusals in a row that found no room in waiting
	changed chan struct{}   // capacity 1: a name was added
}

// wait is a refused name.
type wait struct {
	name  Name
	at    time.Time // when to announce it again
	tries int
	Unloaded
}

// Unloaded says why and since when a control file is not loaded. It was refused and will be read
// again.
type Unloaded struct {
	Since  time.Time // its mtime at its first refusal
	Reason string    // of the last
}

// Unloaded returns the refused control files that the spool remembers, at most 4096, by path.
func (rs *refusals) Unloaded() map[string]Unloaded {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	all := make(map[string]Unloaded, len(rs.waiting))
	for path, w := range rs.waiting {
		all[path] = w.Unloaded
	}
	return all
}

func newRefusals() *refusals {
	return &refusals{waiting: map[string]wait{}, changed: make(chan struct{}, 1)}
}

// add remembers a refusal and returns how many there were in a row: of this name, or
// of all names that are not remembered. since is when the file was last changed: a restart
// does not make mail that is not loaded any younger.
func (rs *refusals) add(n Name, now, since time.Time, why string) int {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	was, known := rs.waiting[n.Path]
	switch {
	case known:
		since = was.Since
	case len(rs.waiting) >= waitLimit:
		rs.beyond++
		return rs.beyond
	}
	rs.beyond = 0
	at := now.Add(min(lastRetry, firstRetry<<min(was.tries, 10)))
	rs.waiting[n.Path] = wait{n, at, was.tries + 1, Unloaded{since, why}}
	wake(rs.changed)
	return was.tries + 1
}

// remove forgets a name.
func (rs *refusals) remove(path string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	delete(rs.waiting, path)
}

// due returns the names whose time has come, and when the next one is due (zero:
// none waits). One that comes to nothing is due again.
func (rs *refusals) due(now time.Time) (names []Name, next time.Time) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for path, w := range rs.waiting {
		if !w.at.After(now) && len(names) < batchLimit {
			names = append(names, w.name)
			w.at = now.Add(lastRetry)
			rs.waiting[path] = w
		}
		if next.IsZero() || w.at.Before(next) {
			next = w.at
		}
	}
	return names, next
}

// announceRefused is the goroutine that announces refused names again.
func (s *Spool) announceRefused() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-s.refusals.changed:
		case <-timer.C:
		}
		names, next := s.refusals.due(time.Now())
		if len(names) > 0 && !s.announce(names) {
			return
		}
		if !next.IsZero() {
			timer.Reset(time.Until(next))
		}
	}
}
