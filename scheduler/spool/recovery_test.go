package spool

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"zsched/scheduler"
	"zsched/scheduler/view"
)

func TestDirectoryThatCannotBeOpenedIsToldOnce(t *testing.T) {
	o := newTestSpool(t).open(Options{})
	w := newSweeper(o.s)
	o.close() // its warnings are only counted
	for range 2 {
		w.walker.hashDir(-1, "", "A", maxDepth)
	}
	if len(w.failing) != 1 || !w.failing["opening transport/A/: bad file descriptor"] {
		t.Errorf("failing %v", w.failing)
	}
}

// TestCopyThatACrashInterruptedIsRemoved: the recipients of a copy that is not published
// yet are still open in their own control file. If the copy were completed later, they
// would have been delivered or moved by then, and its mail would come a second time. What
// looks like its message file but has a control file, or another time, stays.
func TestCopyThatACrashInterruptedIsRemoved(t *testing.T) {
	for _, asked := range []scheduler.Resubmit{{Path: "7", Channel: "x", Host: "y"}, {Path: "7", Channel: "xfer", Host: "mx2"}, {Path: "hold/7", Hold: new(view.Hold), Channel: "x", Host: "y"}} {
		o := newRoutedSpool(t)
		from, _ := placeOf(asked.Path)
		o.write(from.dir()+"transport/7", control("7", toBob))
		o.write(from.dir()+"queue/7", "Subject: x\n\nbody\n")
		o.open(Options{HashLevels: 1, Node: "mx1"})
		answer := o.resubmitted(asked)
		check(t, answer.Err)
		check(t, os.WriteFile(filepath.Join(o.dir, from.dir()+"transport/7"), []byte(control("7", toBob)), 0o640)) // its recipient is open again
		place, path := placeOf(answer.Name.Path)
		staged := filepath.Join(o.dir, "transport", ".scheduler", answer.SpoolID)
		check(t, os.Rename(filepath.Join(o.dir, place.dir()+"transport", path), staged))
		o.put("9", control("9", toCarol))
		for _, unrelated := range []string{o.spoolID("queue/9"), "S8AAAAAAAA", "x"} {
			o.write("transport/"+".scheduler"+"/"+unrelated, "")
		}
		o.open(Options{HashLevels: 2, Node: "mx1"})
		want := []string{from.dir() + "queue/7", from.dir() + "transport/7", "queue/9", "transport/9", "transport/" + ".scheduler" + "/x"}
		if place == Hold {
			want = append(want, "hold/orders/1")
		}
		slices.Sort(want)
		o.holds(want...)
	}
}
