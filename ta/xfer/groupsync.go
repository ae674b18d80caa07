package xfer

// Group sync: sessions that wait for the disk at the same time wait together.

import (
	"sync"

	"zsched/internal/postoffice"
)

// syncAllFrom is the number of files from which one sync of the file system costs less
// than a sync of each.
const syncAllFrom = 3

// groupSync makes the files of many sessions durable. While one batch is synced, the
// next one collects; the session that came first syncs for all of its batch.
type groupSync struct {
	mu   sync.Mutex
	busy bool
	next *syncBatch // collects; nil: nobody waits
}

// syncBatch are files that are synced together.
type syncBatch struct {
	fds  []int
	lead chan struct{} // closed when its first session may sync
	done chan struct{} // closed when err is set
	err  error
}

func (g *groupSync) sync(fd int) error {
	g.mu.Lock()
	b := g.next
	if b != nil {
		b.fds = append(b.fds, fd)
		g.mu.Unlock()
		<-b.done
		return b.err
	}
	b = &syncBatch{fds: []int{fd}, lead: make(chan struct{}), done: make(chan struct{})}
	if g.busy {
		g.next = b
		g.mu.Unlock()
		<-b.lead
		g.mu.Lock()
		g.next = nil
	}
	g.busy = true
	g.mu.Unlock()

	b.err = syncFiles(b.fds)
	close(b.done)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.next == nil {
		g.busy = false
	} else {
		close(g.next.lead)
	}
	return b.err
}

// syncFiles syncs files of one file system.
func syncFiles(fds []int) error {
	if len(fds) >= syncAllFrom {
		return postoffice.SyncAll(fds[0])
	}
	for _, fd := range fds {
		if err := postoffice.SyncData(fd); err != nil {
			return err
		}
	}
	return nil
}
