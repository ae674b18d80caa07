package spool

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/internal/testing/memdisk"
	"zsched/scheduler"
	"zsched/scheduler/view"
)

// TestManyMovesAtOnce: messages that are moved together are each moved once; one that
// cannot be moved does not keep the others.
func TestManyMovesAtOnce(t *testing.T) {
	o := newRoutedSpool(t)
	const messages = 300
	for i := range messages {
		name := fmt.Sprint(1000 + i)
		o.put(name, control(name, toBob))
	}
	o.write("transport/999", control("999", toBob)) // without a message file
	o.open(Options{Node: "mx1", HashLevels: 1})
	for i := range messages + 2 { // the last one does not exist
		o.s.Resubmit(uint64(i), scheduler.Resubmit{Path: fmt.Sprint(999 + i), Channel: "xfer", Host: "mx2"})
	}
	moved := map[string]bool{}
	for range messages + 2 {
		answer := answered[scheduler.Resubmit](o)
		switch answer.Op {
		case 0:
			if answer.Err == nil {
				t.Errorf("a message without its file was moved: %+v", answer)
			}
		case messages + 1:
			if !answer.Missing {
				t.Errorf("a message that does not exist: %+v", answer)
			}
		default:
			if answer.Err != nil || len(answer.Offsets) != 1 || answer.Recipients[0].Tag != ctlfile.Delivered || moved[answer.Name.Path] {
				t.Fatalf("%+v", answer)
			}
			moved[answer.Name.Path] = true
			o.read("queue/" + answer.Name.Path)
		}
	}
	if text := o.read("transport/1000"); !strings.Contains(text, "delivered (rerouted)\tsent to xfer/mx2 in message S") {
		t.Errorf("the control file does not say what became of the recipient: %q", text)
	}
	if len(moved) != messages {
		t.Errorf("%d messages were moved", len(moved))
	}
	if left, _ := os.ReadDir(filepath.Join(o.dir, "queue/.tmp")); len(left) > 0 {
		t.Errorf("%d files are left in queue/.tmp", len(left))
	}
}

// TestHeldMovesShareARecord: messages that are sent elsewhere together and are held by one order have one
// record.
func TestHeldMovesShareARecord(t *testing.T) {
	o := newRoutedSpool(t)
	var batch []*resubmission
	var copies []string
	for _, name := range []string{"1001", "1002", "1003"} {
		o.write("hold/transport/"+name, control(name, toBob))
		o.write("hold/queue/"+name, "Subject: x\n\nbody\n")
	}
	o.open(Options{})
	for _, name := range []string{"1001", "1002", "1003"} {
		m := o.begun(scheduler.Resubmit{Path: "hold/" + name, Hold: &view.Hold{By: "root"}, Channel: "uucp", Host: "relay"})
		defer m.old.close()
		batch, copies = append(batch, m), append(copies, m.staged[0].spoolID)
	}
	o.s.mover.publish(batch)
	records, err := o.s.holds.HoldRecords()
	if err != nil || len(records) != 1 || !slices.Equal(records[0].Messages, copies) {
		t.Errorf("%+v, %v, want one of %q", records, err, copies)
	}
	for _, m := range batch {
		if m.err != nil || !m.staged[0].item.Claimed {
			t.Errorf("%v, %+v", m.err, m.staged[0].item)
		}
	}
}

// TestMoveAndOutcomesOfTheSameFile: an outcome that comes while a message is moved is
// written after that, and a closed spool leaves no worker behind.
func TestMoveAndOutcomesOfTheSameFile(t *testing.T) {
	o := newRoutedSpool(t)
	text := control("7", toBob, toCarol)
	o.put("7", text)
	o.open(Options{Node: "mx1", Workers: 1})
	bob, carol := offset(t, text, "bob@"), offset(t, text, "carol")
	o.s.Resubmit(1, scheduler.Resubmit{Path: "7", Offsets: []int64{bob}, Channel: "xfer", Host: "mx2"})
	o.s.Mark(2, "7", []ctlfile.Mark{{Offset: carol, Tag: ctlfile.Failed, Diagnose: true}})
	for range 2 {
		switch r := o.next().(type) {
		case Answered:
			check(t, r.Err)
		default:
			t.Fatalf("%+v", r)
		}
	}
	if got := o.tagsIn("transport/7"); got != "+-" {
		t.Errorf("the tags are %q", got)
	}
	for i := range 50 {
		o.s.Resubmit(uint64(i), scheduler.Resubmit{Path: "7", Channel: "xfer", Host: "mx2"})
	}
	o.close() // hangs if a worker does
}

// BenchmarkMoves reroutes messages to channel xfer, as mailq move does. Their senders
// want notices of success, so that a d line is written for each.
func BenchmarkMoves(b *testing.B) {
	const messages = 10_000
	var took time.Duration
	for b.Loop() {
		o := newTestSpool(b)
		for i := range messages {
			name := fmt.Sprint(1_000_000 + i)
			check(b, errors.Join(
				os.WriteFile(filepath.Join(o.dir, "queue", name), make([]byte, 2000), 0o640),
				os.WriteFile(filepath.Join(o.dir, "transport", name), []byte(control(name, toBob, "N NOTIFY=SUCCESS")), 0o640)))
		}
		o.open(Options{Node: "mx1", Unwatched: true})
		startedAt := time.Now()
		for i := range messages {
			o.s.Resubmit(uint64(i), scheduler.Resubmit{Path: fmt.Sprint(1_000_000 + i), Channel: "xfer", Host: "mx2"})
		}
		for done := 0; done < messages; {
			for _, r := range <-o.s.Results() {
				if answer, ok := r.(Answered); ok {
					check(b, answer.Err)
					done++
				}
			}
		}
		took += time.Since(startedAt)
		o.close()
	}
	b.ReportMetric(0, "ns/op") // mostly the filling
	b.ReportMetric(float64(messages)*float64(b.N)/took.Seconds(), "moved/s")
}

// A fault leaves a hash directory whose name may not be on disk. The next move must not put a file
// there before it is.
func TestMoveFinishesTheHashDirectoryOfAnEarlierOne(t *testing.T) {
	d := memdisk.New("/office", os.Geteuid(), rand.New(rand.NewPCG(1, 1)))
	defer postoffice.Mount("/office", d)()
	for _, dir := range []string{"queue", "hold", "queue/F"} {
		check(t, postoffice.MakeDir(postoffice.WorkingDir, "/office/"+dir, 0o755))
	}
	check(t, postoffice.WriteFile(postoffice.WorkingDir, "/office/queue/F/5", []byte("mail"), true))
	check(t, postoffice.SyncDir("/office/queue/F"))
	from, err := postoffice.OpenDir(postoffice.WorkingDir, "/office/queue")
	check(t, err)
	to, err := postoffice.OpenDir(postoffice.WorkingDir, "/office/hold")
	check(t, err)
	d.SetFaults(memdisk.Faults{Probability: 1, Error: unix.EMFILE, At: "open"})
	if err := moveFile(from, "F/5", to, "F/5", 0o750); err != unix.EMFILE {
		t.Errorf("without descriptors: %v", err)
	}
	d.SetFaults(memdisk.Faults{})
	check(t, moveFile(from, "F/5", to, "F/5", 0o750))
	check(t, postoffice.SyncDir("/office/queue/F"))
	check(t, postoffice.SyncDir("/office/hold/F"))
	d.Cut()
	d.PowerOn(0)
	if !postoffice.Exists(postoffice.WorkingDir, "/office/hold/F/5") {
		t.Error("the file is lost")
	}
}
