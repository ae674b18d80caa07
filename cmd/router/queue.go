package main

// The postoffice: where the router finds submissions, and how a batch of them comes into the
// queue.

import (
	"errors"
	"path/filepath"
	"strconv"
	"time"

	"zsched/internal/postoffice"
	"zsched/internal/process"
	"zsched/queue"
	"zsched/router"
)

// queueDirs are the directories of the postoffice in which the router works.
var queueDirs = [...]string{"router", "queue", "transport"}

// submissions are the directories of the postoffice in which the router works.
type submissions struct {
	*queue.Committer
	dir   string
	claim *process.Claim // nil in tests within one process
	// aside counts the files in corrupt/router/ by their owners, as at asideAt.
	aside   map[int]int
	asideAt time.Time
}

// job is one submission in a batch.
type job struct {
	*submission
	*router.Routed
	queue.Item
}

func openSubmissions(dir string, levels int) (*submissions, error) {
	router, err := postoffice.OpenDirFile(filepath.Join(dir, "router"))
	if err != nil {
		return nil, err
	}
	_ = router.Close()
	q := &submissions{dir: dir}
	if q.Committer, err = queue.OpenRouter(dir, levels); err != nil {
		return nil, err
	}
	q.Check = func() error { return q.claim.Check() }
	if err := q.MakeStaging(); err != nil {
		q.Close()
		return nil, err
	}
	return q, nil
}

func (q *submissions) staging(name string) string { return filepath.Join(q.StagingDir(), name) }

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

// commit puts jobs into the queue together. Each job's Err says what became of it.
func (q *submissions) commit(jobs []*job) {
	items := make([]*queue.Item, len(jobs))
	for i, j := range jobs {
		j.Item.Contents, j.Item.Message, j.Item.File = j.Routed.Contents, filepath.Join(q.dir, "router", j.Name), j.file
		items[i] = &j.Item
	}
	q.Commit(items)
	for _, j := range jobs {
		if errors.Is(j.Err, queue.ErrContents) {
			j.Err = router.Unreadable{Err: j.Err}
		}
	}
}

// recover completes or undoes what an earlier router left, and what this one could
// not complete because of a failure of the file system. It returns the control files
// that it has moved to their names.
func (q *submissions) recover() (paths []string, err error) {
	return q.Recover(&queue.Recovery{
		InRouter: q.inRouter,
		Lost: func(path, name string) error {
			return q.quarantine(path, name+".control", "its message is neither in router/ nor in queue/")
		},
		Other: func(path, name string) error {
			if name == entryName {
				return q.endRemoval()
			}
			return q.quarantine(path, name, "a router of an earlier version left it in transport/.router")
		},
	})
}

// inRouter reports whether the file with inode n is in router/.
func (q *submissions) inRouter(n uint64) (found bool, err error) {
	names, err := q.list()
	if err != nil {
		return false, err
	}
	for _, name := range names {
		if found, err = queue.HasInode(filepath.Join(q.dir, "router", name), n); found || err != nil {
			return found, err
		}
	}
	return false, nil
}
