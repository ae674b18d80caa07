package spool

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
)

// Census is the number of messages in one place, and the oldest of them.
type Census struct {
	Messages int
	Oldest   Name      // the one whose message file is oldest
	OldestAt time.Time // mtime of that file; zero if there is none
}

// Count counts the messages in a place by their names, in the caller's goroutine.
// It reads no control file.
func (s *Spool) Count(ctx context.Context, p Place) (c Census, err error) {
	h, err := s.openReader(p)
	if err != nil {
		return c, err
	}
	defer h.close()
	err = h.walk(ctx, func(n Name) bool {
		c.Messages++
		var st unix.Stat_t
		if postoffice.Stat(h.queue, n.Path, &st) != nil {
			return true
		}
		if at := time.Unix(st.Mtim.Unix()); c.OldestAt.IsZero() || at.Before(c.OldestAt) {
			c.Oldest, c.OldestAt = n, at
		}
		return true
	})
	return c, err
}
