package spool

// The janitor completes what a crash has interrupted, and moves orphan message
// files to quarantine.

import (
	"fmt"
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
	// orphanLimit bounds the orphans of one pass; the next finds the others.
	orphanLimit = 1000
	// recheckDelay is the time between the two examinations of an orphan. A
	// message file whose control file was just removed is about to be removed.
	recheckDelay = time.Minute
)

// janitor looks for what is left over.
type janitor struct{ s *Spool }

// run is the goroutine that slowly completes the interrupted work that other
// mail need not wait for.
func (j *janitor) run() {
	j.removeStale()
	for ; ; j.removeStale() {
		if !j.s.pause(janitorInterval) {
			return
		}
		suspects := j.orphans(time.Now())
		if len(suspects) > 0 && !j.s.pause(recheckDelay) {
			return
		}
		for _, path := range suspects {
			if text := j.quarantineOrphan(path, time.Now()); text != "" {
				j.s.warn(text)
			}
		}
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

// orphans walks through queue/ and returns the orphans.
func (j *janitor) orphans(now time.Time) []string {
	var found []string
	if j.s.places.hasStaged() {
		return nil
	}
	j.slowWalk("queue", func(path string) bool {
		if j.orphaned(path, now) {
			found = append(found, path)
		}
		return len(found) < orphanLimit
	})
	return found
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
	q := j.s.places.pairs[Queue]
	if postoffice.Exists(q.transport, path) {
		return false
	}
	var st unix.Stat_t
	if postoffice.Stat(q.queue, path, &st) != nil || !postoffice.IsRegular(&st) {
		return false
	}
	since := now.Add(-orphanAge)
	if time.Unix(st.Mtim.Unix()).After(since) || time.Unix(st.Ctim.Unix()).After(since) {
		return false
	}
	_, base := split(path)
	id, _ := ctlfile.Number(base)
	for levels := range maxDepth + 1 {
		dir := ctlfile.HashDir(id, levels)
		if postoffice.Exists(q.transport, dir+base) || postoffice.Exists(q.transport, dir+"."+base) {
			return false
		}
	}
	return !postoffice.Exists(j.s.places.pairs[Hold].transport, path)
}

// quarantineOrphan moves an orphan to corrupt/queue, and returns a text for the log; "" if the
// file is no longer an orphan.
func (j *janitor) quarantineOrphan(path string, now time.Time) string {
	const reason = "it has had no control file for a day"
	if !j.orphaned(path, now) {
		return ""
	}
	if err := j.s.places.quarantine(path, reason); err != nil {
		return fmt.Sprintf("queue/%s: %s; moving it to corrupt/queue: %v", path, reason, err)
	}
	return fmt.Sprintf("queue/%s: %s; it is in corrupt/queue now", path, reason)
}
