package spool

// The janitor removes temporary files that a crash has left, and moves orphan message files to
// quarantine.

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/queue"
)

const (
	// janitorInterval is the time between two passes of the janitor.
	janitorInterval = time.Hour
	// orphanAge is how long an orphan must have been unchanged.
	orphanAge = 24 * time.Hour
)

// janitor looks for what is left over.
type janitor struct {
	s *Spool
	// suspects are the orphans of the last pass: a message file whose control file was just
	// removed is about to be removed.
	suspects map[string]bool
}

// run is the goroutine. It works slowly, since no mail waits for it.
func (j *janitor) run() {
	for {
		j.removeStale()
		if !j.s.pause(janitorInterval) {
			return
		}
		j.pass(time.Now())
	}
}

// pause waits. It returns false if the spool was closed or taken over meanwhile.
func (s *Spool) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-s.done:
		return false
	case <-timer.C:
		return s.standing.owned()
	}
}

// pass walks through queue/ and hold/queue, and moves the orphans of this pass and the last to
// corrupt/queue.
func (j *janitor) pass(now time.Time) {
	found := make(map[string]bool)
	for _, place := range []string{"", underHold} {
		j.slowWalk(place+"queue", func(path string) {
			path = place + path
			switch {
			case !j.orphaned(path, now):
			case j.suspects[path]:
				j.quarantine(path)
			default:
				found[path] = true
			}
		})
	}
	j.suspects = found
}

// hasStaged reports whether there are staged control files, of any program, whose messages
// may be in queue/ already. Their programs complete or remove them.
func (at *places) hasStaged() bool {
	for _, dir := range queue.StagingDirs {
		names, _ := postoffice.ReadNamesAt(at.pairs[Queue].transport, dir)
		if slices.ContainsFunc(names, func(name string) bool {
			_, ok := ctlfile.SpoolNumber(name)
			return ok
		}) {
			return true
		}
	}
	return false
}

// orphaned reports whether a message file has had no control file for a day, in
// its place or another, under its own name or the temporary one of ZMailer's router.
func (j *janitor) orphaned(path string, now time.Time) bool {
	place, path := placeOf(path)
	pairs := &j.s.places.pairs
	if postoffice.Exists(pairs[place].transport, path) || j.s.places.gone(pairs[place].transport, path) != errGone {
		return false
	}
	var st unix.Stat_t
	if postoffice.Stat(pairs[place].queue, path, &st) != nil || !postoffice.IsRegular(&st) {
		return false
	}
	since := now.Add(-orphanAge)
	if time.Unix(st.Mtim.Unix()).After(since) || time.Unix(st.Ctim.Unix()).After(since) {
		return false
	}
	id, base := nameOf(path).ID, filepath.Base(path)
	for _, p := range []Place{Queue, Hold} {
		for levels := range maxDepth + 1 {
			dir := ctlfile.HashDir(id, levels)
			if postoffice.Exists(pairs[p].transport, dir+base) || postoffice.Exists(pairs[p].transport, dir+"."+base) {
				return false
			}
		}
	}
	return !j.s.places.hasStaged()
}

// quarantine moves an orphan to corrupt/queue.
func (j *janitor) quarantine(path string) {
	const reason = "it has had no control file for a day"
	place, in := placeOf(path)
	name := place.dir() + "queue/" + in
	if err := j.s.places.quarantine(path, reason); err != nil {
		j.s.warn(fmt.Sprintf("%s: %s; moving it to corrupt/queue: %v", name, reason, err))
		return
	}
	j.s.warn(fmt.Sprintf("%s: %s; it is in corrupt/queue now", name, reason))
}
