package queue

// Group commit: submissions that are complete at the same time share their waits
// for the disk. While one batch of them is committed, the next one collects:
//
//	Commit(a) ──► commits a ─────────┐
//	   Commit(b) ──► waits, then commits b and c ──┐
//	      Commit(c) ──► waits ─────────────────────┴► returns

import (
	"fmt"
	"sync"

	"zsched/internal/postoffice"
)

const (
	// maxBatch bounds the files of a batch.
	maxBatch = 256
	// syncAllFrom is the number of files from which one sync of the file system
	// costs less than a sync of each file.
	syncAllFrom = 3
)

// GroupCommit gives complete files to a router; their writers wait until the files are
// on disk. The writer of the first file of a batch commits all of it.
type GroupCommit struct {
	Router Router
	// SyncAll makes all data of the file system durable, and SyncFile that of one
	// file. Tests replace them before the first Commit.
	SyncAll  func() error
	SyncFile func(*postoffice.File) error

	dir *postoffice.File // the postoffice, for SyncAll

	mu      sync.Mutex
	busy    bool          // some writer commits a batch, or is about to
	waiting []*submitting // for the next one
}

// submitting is a file whose writer waits.
type submitting struct {
	file *postoffice.File
	name string // the result: the name below router/
	err  error
	// turn receives true when the writer has to commit the next batch, and false when its file
	// is committed.
	turn chan bool
}

// NewGroupCommit returns a GroupCommit for a router. Close ends it.
func NewGroupCommit(r Router) (*GroupCommit, error) {
	dir, err := postoffice.OpenDirFile(r.Postoffice)
	if err != nil {
		return nil, fmt.Errorf("open postoffice: %w", err)
	}
	return &GroupCommit{Router: r, SyncAll: dir.SyncAll, SyncFile: (*postoffice.File).Sync, dir: dir}, nil
}

// Close releases the resources. It must not be called while a file is being committed.
func (g *GroupCommit) Close() error { return g.dir.Close() }

// Waiting returns how many files wait for the next batch.
func (g *GroupCommit) Waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting)
}

// Commit syncs a complete file, closes it, and gives it to the router, as Router.Give
// does. When the error is nil, the file and its name below router/, which is
// returned, are on disk. If no name is returned, the file has been removed.
func (g *GroupCommit) Commit(file *postoffice.File) (name string, err error) {
	s := &submitting{file: file, turn: make(chan bool, 1)}
	g.mu.Lock()
	g.waiting = append(g.waiting, s)
	first := !g.busy
	g.busy = true
	g.mu.Unlock()
	if first || <-s.turn {
		g.lead()
	}
	return s.name, s.err
}

// lead commits the files that wait, the first of which is that of this goroutine. If more have
// come meanwhile, the writer of the first of them leads the next batch.
func (g *GroupCommit) lead() {
	g.mu.Lock()
	n := min(len(g.waiting), maxBatch)
	batch := g.waiting[:n:n]
	g.waiting = g.waiting[n:]
	g.mu.Unlock()
	g.commitAll(batch)
	for _, s := range batch[1:] {
		s.turn <- false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.busy = len(g.waiting) > 0; g.busy {
		g.waiting[0].turn <- true
	} else {
		g.waiting = nil
	}
}

// commitAll syncs the files of a batch, renames them and syncs their names. It waits
// for the disk at least twice, and for a batch of two at least three times.
func (g *GroupCommit) commitAll(batch []*submitting) {
	together := len(batch) >= syncAllFrom
	var all error
	if together {
		all = g.SyncAll()
	}
	var good []*submitting
	var files []string
	for _, s := range batch {
		s.err = all
		if !together {
			s.err = g.SyncFile(s.file)
		}
		_ = s.file.Close()
		if s.err != nil {
			s.err = fmt.Errorf("sync message: %w", s.err)
			_ = postoffice.RemovePath(s.file.Name())
			continue
		}
		good, files = append(good, s), append(files, s.file.Name())
	}
	if len(good) == 0 {
		return
	}
	names, errs := g.Router.GiveAll(files, g.syncDirs)
	for i, s := range good {
		if names[i] == "" {
			_ = postoffice.RemovePath(files[i])
		}
		s.name, s.err = names[i], errs[i]
	}
}

func (g *GroupCommit) syncDirs(dirs []*postoffice.File) error {
	if len(dirs) >= syncAllFrom {
		return g.SyncAll()
	}
	return syncEach(dirs)
}
