package queue

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// While the first item is worked on, others collect: they are one batch, or several if it
// has a limit.
func TestItemsThatWaitAreOneBatch(t *testing.T) {
	for _, c := range []struct {
		max  int
		want []int // items of each batch
	}{{0, []int{1, 9}}, {4, []int{1, 4, 4, 1}}} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			var sizes, all []int
			g := Group[int]{Max: c.max}
			g.Work = func(batch []int) {
				if len(sizes) == 0 {
					<-release
				}
				sizes, all = append(sizes, len(batch)), append(all, batch...)
			}
			var callers sync.WaitGroup
			for i := range 10 {
				callers.Go(func() { g.Do(i) })
				synctest.Wait()
			}
			if g.Waiting() != 9 {
				t.Errorf("%d wait", g.Waiting())
			}
			close(release)
			callers.Wait()
			if !slices.Equal(sizes, c.want) || !slices.IsSorted(all) || len(all) != 10 {
				t.Errorf("with at most %d: batches of %v: %v", c.max, sizes, all)
			}
			g.Do(10) // and again, when nobody waits
			if len(all) != 11 || g.busy {
				t.Errorf("after that: %v", all)
			}
		})
	}
}

// Many goroutines at once, each with many items: each item is worked on once.
func TestEachItemIsWorkedOnOnce(t *testing.T) {
	done := make(map[int]int)
	working := false
	g := Group[int]{Max: 7}
	g.Work = func(batch []int) {
		if working {
			t.Error("two batches at once")
		}
		working = true
		for _, item := range batch {
			done[item]++
		}
		working = false
	}
	var callers sync.WaitGroup
	for i := range 20 {
		callers.Go(func() {
			for j := range 200 {
				g.Do(1000*i + j)
			}
		})
	}
	callers.Wait()
	for item, n := range done {
		if n != 1 {
			t.Errorf("item %d: %d times", item, n)
		}
	}
	if len(done) != 4000 {
		t.Errorf("%d items", len(done))
	}
}

// Gather runs before a batch is closed: what comes meanwhile belongs to it.
func TestGatherLetsOthersCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arrived := make(chan struct{})
		var sizes []int
		g := Group[int]{Gather: func() { <-arrived }, Work: func(batch []int) { sizes = append(sizes, len(batch)) }}
		var callers sync.WaitGroup
		for i := range 3 {
			callers.Go(func() { g.Do(i) })
		}
		synctest.Wait()
		close(arrived)
		callers.Wait()
		if !slices.Equal(sizes, []int{3}) {
			t.Errorf("batches of %v", sizes)
		}
	})
}
