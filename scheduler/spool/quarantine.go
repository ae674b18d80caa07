package spool

// Quarantine: malformed messages are moved to corrupt/.

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
)

// quarantineTries bounds the names that are tried for one message.
const quarantineTries = 1000

// reasonSuffix ends the name of the file that says why a message is in quarantine.
const reasonSuffix = ".reason"

// quarantine moves both files of a malformed message to corrupt/ and writes the
// reason into a file beside the control file. If the name is in use there, the
// files get ".1", ".2" and so on.
func (at *places) quarantine(path, reason string) error {
	at.moving.Lock()
	defer at.moving.Unlock()
	place, path := placeOf(path)
	q := at.pairs[place]
	c := at.pairs[Corrupt]
	prefix, _ := split(path)
	if err := postoffice.MakeHashDirs(c.transport, prefix, Corrupt.prefixMode()); err != nil {
		return fmt.Errorf("making corrupt/transport/%s: %w", prefix, err)
	}
	for try := range quarantineTries {
		to := path
		if try > 0 {
			to += "." + strconv.Itoa(try)
		}
		// A name is free when it has no control file and no message file. If ours
		// is not in the queue any more, the message file there is ours: an
		// earlier attempt moved it.
		if postoffice.Exists(c.transport, to) || postoffice.Exists(q.queue, path) && postoffice.Exists(c.queue, to) {
			continue
		}
		text := fmt.Sprintf("%stransport/%s and %squeue/%s, %s\n%s\n",
			place.dir(), path, place.dir(), path, time.Now().UTC().Format(time.RFC3339), reason)
		if err := postoffice.WriteFile(c.transport, to+reasonSuffix, []byte(text), false); err != nil {
			return fmt.Errorf("writing corrupt/transport/%s.reason: %w", to, err)
		}
		_, err := moveBoth(q, path, c, to, Corrupt.prefixMode())
		if errors.Is(err, unix.ENOENT) && at.gone(q.transport, path) == errGone {
			err = moveFile(q.queue, path, c.queue, to, Corrupt.prefixMode())
		}
		if err != nil && err != unix.ENOENT {
			return fmt.Errorf("moving %q to corrupt/%s: %w", path, to, err)
		}
		return nil
	}
	return fmt.Errorf("quarantining %q: %w", path, unix.EEXIST)
}
