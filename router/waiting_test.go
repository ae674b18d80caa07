package router

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The owners of submissions take turns.

// writeBad writes n submissions of a user that cannot be read.
func (o *office) writeBad(t *testing.T, uid, n int) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to a user")
	}
	for i := range n {
		name := fmt.Sprintf("router/%d", 1000+i)
		o.write(name, "??")
		if err := os.Chown(filepath.Join(o.dir, name), uid, -1); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBadSubmissionsOfAUserDelayNobodyElsesMail(t *testing.T) {
	o := newOffice(t, 0)
	o.writeBad(t, 12345, 2*batchLimit)
	r := o.router()
	r.sweep()
	o.write("router/1", "from <a@b.example>\nto <x@a.example>\nenv-end\n\nbody\n")
	r.add("1")
	r.batch()
	if queued, left := o.files("transport"), o.files("router"); len(queued) != 1 || len(left) <= batchLimit {
		t.Errorf("after one batch: queued %q, %d left in router/", queued, len(left))
	}
	r.drain()
	if left := o.files("router"); len(left) != 0 {
		t.Errorf("%d left", len(left))
	}
}

func TestOwnerWhoseFilesCannotBePutAsideIsLeftAlone(t *testing.T) {
	o := newOffice(t, 0)
	o.writeBad(t, 12345, 50)
	o.write("corrupt", "in the way")
	r := o.router()
	r.drain()
	if len(r.failed) != 1 {
		t.Errorf("%d submissions were tried", len(r.failed))
	}
	o.write("router/1", "from <a@b.example>\nto <x@a.example>\nenv-end\n\nbody\n")
	r.drain()
	if queued, left := o.files("transport"), o.files("router"); len(queued) != 1 || len(left) != 50 {
		t.Errorf("queued %q, %d left in router/", queued, len(left))
	}
}

// A sweep that is under way during a batch finds what the batch has, and does not add it: a file
// with two jobs would be lost.
func TestWhatABatchHasIsNotAddedAgain(t *testing.T) {
	w, now := newWaiting(), time.Now()
	w.add("1", 7, now)
	if name, uid, ok := w.next(); name != "1" || uid != 7 || !ok {
		t.Fatalf("next is %q of %d, %v", name, uid, ok)
	}
	if w.add("1", 7, now); !w.empty() {
		t.Error("a sweep has added it during the batch")
	}
	w.endBatch()
	if w.add("1", 7, now); w.empty() {
		t.Error("after the batch, a sweep cannot add it")
	}
}
