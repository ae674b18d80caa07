package xfer

// Group sync: sessions that wait for the disk at the same time wait together.

import (
	"runtime"
	"sync"

	"zsched/internal/postoffice"
	"zsched/queue"
)

// syncAllFrom is the number of files from which one sync of the file system costs less
// than a sync of each.
const syncAllFrom = 3

// yields is how often await lets other sessions run: those that have arrived append their
// lines before they call sync.
const yields = 8

// groupSync makes the files of many sessions durable, in batches (queue.Group). The
// session that syncs first waits for those whose nodes have answered in the meantime: a node
// answers many pushes at once.
type groupSync struct {
	group queue.Group[*syncing]

	mu     sync.Mutex
	coming int           // announced sessions that have not called arrived yet
	all    chan struct{} // closed when coming is 0 again; nil: nobody waits for that
}

// syncing is a file whose session waits.
type syncing struct {
	fd  int
	err error
}

func newGroupSync() *groupSync {
	g := new(groupSync)
	g.group.Gather, g.group.Work = g.await, syncFiles
	return g
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
	s := &syncing{fd: fd}
	g.group.Do(s)
	return s.err
}

// await waits until all announced sessions have arrived, and lets them run.
func (g *groupSync) await() {
	g.mu.Lock()
	if g.coming == 0 {
		g.mu.Unlock()
		return
	}
	all := make(chan struct{})
	g.all = all
	g.mu.Unlock()
	<-all
	for range yields {
		runtime.Gosched()
	}
}

// syncFiles syncs files of one file system.
func syncFiles(files []*syncing) {
	if len(files) >= syncAllFrom {
		err := postoffice.SyncAll(files[0].fd)
		for _, s := range files {
			s.err = err
		}
		return
	}
	for _, s := range files {
		s.err = postoffice.SyncData(s.fd)
	}
}
