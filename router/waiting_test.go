package router

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zsched/internal/process"
)

// The owners of submissions take turns.

// A sweep that is under way during a batch adds what the batch has again. Two jobs with one file
// would lose it.
func TestABatchHasAFileOnce(t *testing.T) {
	o := newOffice(t, 0)
	o.write("router/1", "from <a@b.example>\nto <x@a.example>\nenv-end\n\nbody\n")
	r := o.router()
	r.add("1")
	clear(r.waiting.known)
	r.add("1")
	r.batch()
	if control, message := o.files("transport"), o.files("queue"); len(control) != 1 || len(message) != 1 {
		t.Errorf("control files %q, messages %q", control, message)
	}
}

// Names are inode numbers, so a user can leave names waiting that the files of others get.
func TestANameThatAUserHasLeftDelaysNoFileOfAnother(t *testing.T) {
	w, now := newWaiting(), time.Now()
	w.add("1", 12345, now)
	w.add("7", 12345, now)
	w.add("7", 0, now)
	var order []int
	for range 3 {
		_, uid, _ := w.next(false)
		order = append(order, uid)
	}
	if !slices.Equal(order, []int{12345, 0, 12345}) {
		t.Errorf("the owners' turns: %d", order)
	}
}

// User 1000 has the uids from 50000 to 50999.
func init() { process.SubuidFile = "../internal/process/testdata/subuid" }

func TestUserTakesOneTurnWithAllUIDs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to a user")
	}
	o := newOffice(t, 0)
	r := o.router()
	for i, uid := range []int{50001, 50002, 50003, 12345} {
		name := fmt.Sprint(i)
		o.write("router/"+name, "")
		if err := os.Chown(filepath.Join(o.dir, "router", name), uid, -1); err != nil {
			t.Fatal(err)
		}
		r.add(name)
	}
	r.sweep()
	var order []string
	for !r.waiting.empty() {
		name, _, _ := r.waiting.next(false)
		order = append(order, name)
	}
	if !slices.Equal(order, []string{"0", "3", "1", "2"}) {
		t.Errorf("the turns of files: %q", order)
	}
}

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

// However many large submissions a user has, each second batch is for others, as long as any wait;
// and however many of theirs wait, the user has one in the batch between.
func TestLargeSubmissionsOfAUserLeaveEachSecondBatchToOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to a user")
	}
	o := newOffice(t, 0)
	var large strings.Builder
	for i := range batchRecipients {
		fmt.Fprintf(&large, "to <x%d@a.example>\n", i)
	}
	for i := range 4 {
		name := fmt.Sprintf("router/%d", 1000+i)
		o.write(name, "from <>\n"+large.String()+"env-end\n\nbody\n")
		if err := os.Chown(filepath.Join(o.dir, name), 12345, -1); err != nil {
			t.Fatal(err)
		}
	}
	const small = 2*batchLimit + 50
	for i := range small {
		o.write(fmt.Sprintf("router/%d", 2000+i), "from <a@b.example>\nto <x@a.example>\nenv-end\n\nbody\n")
	}
	r := o.router()
	r.sweep()
	hadLarge := false
	for others := small; others > 0; {
		before := r.Counts()
		r.batch()
		after := r.Counts()
		taken := after.Routed - before.Routed
		hasLarge := after.Recipients-before.Recipients > taken
		if hasLarge {
			taken--
		}
		if others -= taken; others > 0 && hasLarge == hadLarge {
			t.Fatalf("a batch has %d submissions of others, and the batches before and now have a large one: %v, %v", taken, hadLarge, hasLarge)
		}
		hadLarge = hasLarge
	}
}
