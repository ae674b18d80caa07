package spool

import (
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// quarantineTries bounds the names that are tried for one file.
const quarantineTries = 1000

// reasonSuffix ends the name of what says why a message is in quarantine.
const reasonSuffix = ".reason"

// quarantine moves both files of a message that cannot be understood to
// corrupt/, with the reason in words beside the control file. What lies there
// under the same name stays: then the newcomer's files get ".1" and so on.
func (s *Spool) quarantine(path, reason string) error {
	s.moving.Lock()
	defer s.moving.Unlock()
	q, c := s.pairs[Queue], s.pairs[Corrupt]
	prefix, _ := split(path)
	if err := makePrefix(c.transport, prefix, Corrupt.prefixMode()); err != nil {
		return fmt.Errorf("making corrupt/transport/%s: %w", prefix, err)
	}
	for try := range quarantineTries {
		to := numberedPath(path, try)
		// A name is free when it has no control file, and no message file
		// unless we come after ours.
		if exists(c.transport, to) || exists(q.queue, path) && exists(c.queue, to) {
			continue
		}
		text := fmt.Sprintf("transport/%s and queue/%s, %s\n%s\n",
			path, path, time.Now().UTC().Format(time.RFC3339), reason)
		if err := writeFile(c.transport, to+reasonSuffix, []byte(text), false); err != nil {
			return fmt.Errorf("writing corrupt/transport/%s.reason: %w", to, err)
		}
		err := transfer(q.queue, path, c.queue, to, Corrupt.prefixMode())
		if err != nil && err != unix.ENOENT {
			return fmt.Errorf("moving queue/%s to corrupt/queue/%s: %w", path, to, err)
		}
		moved := err == nil
		err = transfer(q.transport, path, c.transport, to, Corrupt.prefixMode())
		if err == nil || err == unix.ENOENT {
			return nil
		}
		if moved {
			_ = rename(c.queue, to, q.queue, path)
		}
		return fmt.Errorf("moving transport/%s to corrupt/transport/%s: %w", path, to, err)
	}
	return fmt.Errorf("quarantining %q: %w", path, unix.EEXIST)
}

// numberedPath is the path itself, then with ".1", ".2" and so on.
func numberedPath(path string, n int) string {
	if n == 0 {
		return path
	}
	return path + "." + strconv.Itoa(n)
}
