package queue

import (
	"io"
	"os"
	"sync"
	"testing"
	"testing/synctest"

	"zsched/internal/postoffice"
)

// While the first file is committed, others collect: they are one batch. Each is committed
// once.
func TestFilesThatWaitAreOneBatch(t *testing.T) {
	office := newPostoffice(t)
	g, err := NewGroupCommit(Router{Postoffice: office})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		singly, together := 0, 0
		g.SyncFile = func(*postoffice.File) error { singly++; <-release; return nil }
		g.SyncAll = func() error { together++; return nil }
		names := make([]string, 10)
		var writers sync.WaitGroup
		for i := range names {
			file, err := postoffice.CreateTemp(office, "test-")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(file, "x"); err != nil {
				t.Fatal(err)
			}
			writers.Go(func() {
				if names[i], err = g.Commit(file); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		if g.Waiting() != 9 {
			t.Errorf("%d wait", g.Waiting())
		}
		close(release)
		writers.Wait()
		if singly != 1 || together != 1 || g.busy {
			t.Errorf("%d syncs of a file, %d of all", singly, together)
		}
		for _, name := range names {
			if err := os.Remove(office + "/router/" + name); err != nil {
				t.Error(err)
			}
		}
	})
}

// Many writers at once: one batch is committed at a time.
func TestBatchesDoNotOverlap(t *testing.T) {
	office := newPostoffice(t)
	g, err := NewGroupCommit(Router{Postoffice: office})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	working := false
	work := func() error {
		if working {
			t.Error("two batches at once")
		}
		working = true
		working = false
		return nil
	}
	g.SyncAll, g.SyncFile = work, func(*postoffice.File) error { return work() }
	var writers sync.WaitGroup
	for range 20 {
		writers.Go(func() {
			for range 20 {
				file, err := postoffice.CreateTemp(office, "test-")
				if err == nil {
					_, err = g.Commit(file)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	if names, err := os.ReadDir(office + "/router"); err != nil || len(names) != 400 {
		t.Errorf("%d submissions, %v", len(names), err)
	}
}
