package spool

// The agents of the scheduler before this one: nothing is read before they have dropped or
// locked what they work on.

import (
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
)

// formerAgentsWait is how long we wait for them. They need milliseconds, whatever their
// sessions do, unless one is stopped by a signal or the disk does not answer.
const formerAgentsWait = 10 * time.Second

// awaitFormerAgents waits until no agent of an earlier scheduler works on mail that it has
// not locked: each has a shared lock on transport/ until then (package ta). Ours begin
// later. An agent that writes no #reports has no such lock, and locks its recipients from
// the beginning.
func (s *Spool) awaitFormerAgents() {
	fd, err := postoffice.OpenDir(postoffice.WorkingDir, filepath.Join(s.options.Postoffice, "transport"))
	if err != nil {
		return // the caller opens it too
	}
	defer postoffice.Close(fd)
	for began := time.Now(); unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == unix.EWOULDBLOCK; {
		if time.Since(began) > formerAgentsWait {
			s.warn(fmt.Sprintf("an agent of an earlier scheduler has not ended or locked its mail in %v: that mail may be delivered twice", formerAgentsWait))
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}
