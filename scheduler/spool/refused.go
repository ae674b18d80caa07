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

// refusals are the names whose files were refused and will be read again.
type refusals struct {
	mu      sync.Mutex
	waiting map[string]wait // by path
	beyond  int             // refusals in a row that found no room in waiting
	// announce announces a name again.
	announce func(Name)
}

// wait is a refused name.
type wait struct {
	again *time.Timer // which announces it
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

// add remembers a refusal and returns how many there were in a row: of this name, or
// of all names that are not remembered. since is when the file was last changed: a restart
// does not make mail that is not loaded any younger.
func (rs *refusals) add(n Name, since time.Time, why string) int {
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
	if known {
		was.again.Stop()
	}
	again := time.AfterFunc(min(lastRetry, firstRetry<<min(was.tries, 10)), func() { rs.announce(n) })
	rs.waiting[n.Path] = wait{again, was.tries + 1, Unloaded{since, why}}
	return was.tries + 1
}

// remove forgets a name.
func (rs *refusals) remove(path string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if was, known := rs.waiting[path]; known {
		was.again.Stop()
		delete(rs.waiting, path)
	}
}
