package router

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"zsched/internal/process"
	"zsched/queue"
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
	w, now := newWaiting(nil), time.Now()
	w.add("7", 12345, now)
	w.add("8", 12345, now)
	w.add("8", 0, now)
	var order []string
	for range 3 {
		name, _ := w.next()
		order = append(order, name)
	}
	if !slices.Equal(order, []string{"7", "8", "8"}) {
		t.Errorf("the names: %q", order)
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
		name, _ := r.waiting.next()
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
	// After twenty a minute the rest waits.
	if left := o.files("router"); len(left) != 2*batchLimit-queue.MaxUserRecipients/unreadableCost-1 {
		t.Errorf("%d left", len(left))
	}
}

func TestSubmissionsThatCannotBePutAsideStay(t *testing.T) {
	o := newOffice(t, 0)
	o.writeBad(t, 12345, 50)
	o.write("corrupt", "in the way")
	o.write("router/1", "from <a@b.example>\nto <x@a.example>\nenv-end\n\nbody\n")
	r := o.router()
	r.drain()
	if queued, left := o.files("transport"), o.files("router"); len(queued) != 1 || len(left) != 50 {
		t.Errorf("queued %q, %d left in router/", queued, len(left))
	}
}

// All mail of the SMTP server has one owner.
func TestTrustedOwnerHasLongTurns(t *testing.T) {
	w, now := newWaiting(map[int]bool{0: true}), time.Now()
	for i := range 100 {
		for _, uid := range []int{12345, 0, 22222} {
			w.add(fmt.Sprint(uid, i), uid, now)
		}
	}
	counts := map[string]int{}
	for range 3 * (trustedTurn + 2) {
		name, _ := w.next()
		counts[strings.Fields(name)[0]]++
	}
	if want := map[string]int{"12345": 3, "0": 3 * trustedTurn, "22222": 3}; !maps.Equal(counts, want) {
		t.Errorf("submissions in three turns: %v; want %v", counts, want)
	}
}

func TestWorkCountsAsRecipients(t *testing.T) {
	o := newOffice(t, 0)
	o.write("router/1", "from <a@b.example>\nto <x@a.example>\nenv-end\n"+strings.Repeat("X: "+strings.Repeat("x", 996)+"\n", 10)+"\nbody\n")
	r := o.router()
	clear(r.machine.Trusted)
	r.drain()
	if n := r.waiting.spent[os.Geteuid()]; n != 1+10_100/bytesPerRecipient {
		t.Errorf("it counts as %d recipients", n)
	}
	// So does one that a message has many times, and a header that is removed.
	r.waiting = newWaiting(nil)
	o.write("router/2", "from <a@b.example>\n"+strings.Repeat("to <x@a.example>\n", 50)+"env-end\nBcc: "+strings.Repeat("x", 20_000)+"\n\nbody\n")
	r.drain()
	if n := r.waiting.spent[os.Geteuid()]; n != 50+21_000/bytesPerRecipient {
		t.Errorf("the other one counts as %d recipients", n)
	}
}

// A name in router/ may be another user's file by the time of its turn: the owner of the file pays.
func TestOwnerOfTheFileHasItsRecipients(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to a user")
	}
	o := newOffice(t, 0)
	o.write("router/1", "from <a@b.example>\nto <x@a.example>\nenv-end\n\nbody\n")
	if err := os.Chown(filepath.Join(o.dir, "router/1"), 12345, -1); err != nil {
		t.Fatal(err)
	}
	r := o.router()
	r.waiting.add("1", 22222, time.Now())
	r.batch()
	if r.waiting.spent[12345] == 0 || r.waiting.spent[22222] != 0 {
		t.Errorf("recipients by user: %v", r.waiting.spent)
	}
}

// However many submissions users have, the recipients of one are few in a minute.
func TestUserWithTooManyRecipientsWaits(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to a user")
	}
	o := newOffice(t, 0)
	for i := range 30 {
		name := fmt.Sprintf("router/%d", 1000+i)
		o.write(name, "from <>\nto <x@a.example>\nto <y@a.example>\nto <z@a.example>\nenv-end\n\nbody\n")
		if err := os.Chown(filepath.Join(o.dir, name), 10000+i%2*10000+i/20*10000, -1); err != nil { // of users 10000, 20000, and 30000
			t.Fatal(err)
		}
	}
	r := o.router()
	var log bytes.Buffer
	r.log, r.machine.MaxUserRecipients, r.machine.Trusted[30000] = zerolog.New(&log), 10, true
	left := func() map[uint32]int {
		r.drain()
		left := map[uint32]int{}
		for _, path := range o.files("router") {
			info, err := os.Lstat(path)
			if err != nil {
				t.Fatal(err)
			}
			left[info.Sys().(*syscall.Stat_t).Uid]++
		}
		return left
	}
	// The fourth one of a user has too many.
	if got, want := left(), map[uint32]int{10000: 6, 20000: 11}; !maps.Equal(got, want) {
		t.Errorf("left are %v; want %v", got, want)
	}
	if n := strings.Count(log.String(), "too many recipients in a minute"); n != 2 {
		t.Errorf("%d users are in the log: %s", n, &log)
	}
	r.waiting.minute = r.waiting.minute.Add(-time.Minute)
	clear(r.waiting.paused)
	if got, want := left(), map[uint32]int{10000: 2, 20000: 7}; !maps.Equal(got, want) {
		t.Errorf("in the next minute, left are %v; want %v", got, want)
	}
}
