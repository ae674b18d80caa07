package xfer

// Group sync: sessions that wait for the disk at the same time wait together.

import (
	"runtime"
	"sync"

	"zsched/internal/postoffice"
)

// syncAllFrom is the number of files from which one sync of the file system costs less
// than a sync of each.
const syncAllFrom = 3

// yields is how often a session lets the others run that have arrived but do not wait for
// it yet: they are appending their lines.
const yields = 8

// groupSync makes the files of many sessions durable. While one batch is synced, the
// next one collects; the session that came first syncs for all of its batch. It first
// waits for the sessions whose nodes have answered in the meantime: a node answers many
// pushes at once.
type groupSync struct {
	mu     sync.Mutex
	busy   bool
	next   *syncBatch    // collects; nil: nobody waits
	coming int           // sessions that will soon call sync, or turn out not to
	all    chan struct{} // closed when nobody is coming any more; nil: nobody waits for that
}

// syncBatch are files that are synced together.
type syncBatch struct {
	fds  []int
	lead chan struct{} // closed when its first session may sync
	done chan struct{} // closed when err is set
	err  error
}

// expect announces sessions. Each of them calls arrived, shortly before it calls sync or
// when it will not.
func (g *groupSync) expect(sessions int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.coming += sessions
}

func (g *groupSync) arrived() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.coming--; g.coming == 0 && g.all != nil {
		close(g.all)
		g.all = nil
	}
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
	g.next = b
	if g.busy {
		g.mu.Unlock()
		<-b.lead
		g.mu.Lock()
	}
	g.busy = true
	if g.coming > 0 {
		all := make(chan struct{})
		g.all = all
		g.mu.Unlock()
		<-all
		for range yields {
			runtime.Gosched()
		}
		g.mu.Lock()
	}
	g.next = nil
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
