package spool

import (
	"os"
	"strings"
	"testing"

	"zsched/ctlfile"
)

// file7 is the control file of these tests.
const file7 = "transport/7"

// recalled recalls recipients, and reports whether they are ours now.
func (o *testSpool) recalled(path string, offsets ...int64) bool {
	o.t.Helper()
	o.s.Recall(9, path, offsets)
	r := answer[Recalled](o)
	if r.Op != 9 || r.Err != nil || r.Missing {
		o.t.Fatalf("recalling %s: %+v", path, r)
	}
	return r.Taken
}

func TestRecallTakesAllRecipientsOrNone(t *testing.T) {
	text := control("7", toBob, toCarol, locked(os.Getppid()))
	o := newTestSpool(t)
	o.put("7", text)
	o.open(Options{})
	bob, carol, other := offset(t, text, "bob@b"), offset(t, text, "carol"), offset(t, text, "r~")
	if o.recalled("7", bob, carol, other) || o.tags(file7) != "  ~" {
		t.Errorf("with a recipient that an agent has: tags %q", o.tags(file7))
	}
	if !o.recalled("7", bob, carol) || o.tags(file7) != "~~~" {
		t.Errorf("tags %q", o.tags(file7))
	}
	if o.recalled("7", carol) {
		t.Error("recalled twice")
	}
}

// recalledBoth makes a spool with a message for bob and carol, both of whom are recalled, and
// returns the offsets of their lines.
func recalledBoth(t *testing.T) (o *testSpool, bob, carol int64) {
	text := control("7", toBob, toCarol)
	o = newTestSpool(t)
	o.put("7", text)
	o.open(Options{})
	bob, carol = offset(t, text, "bob@b"), offset(t, text, "carol")
	o.recalled("7", bob)
	o.recalled("7", carol)
	return o, bob, carol
}

// The locks of a Recall are cleared for the recipients that are named, and no others.
func TestRereadClearsTheLocksOfARecall(t *testing.T) {
	o, bob, carol := recalledBoth(t)
	for _, step := range []struct {
		ours OurLocks
		tags string
	}{
		{OurLocks{DeadPID: os.Getpid() + 1}, "~~"},
		{OurLocks{Offsets: []int64{bob}}, "~~"},
		{OurLocks{Offsets: []int64{carol}, Recalled: true}, "~ "},
	} {
		o.s.Reread(9, "7", step.ours)
		if r := answer[Reread](o); r.Err != nil || o.tags(file7) != step.tags {
			t.Errorf("%+v: %v, tags %q", step.ours, r.Err, o.tags(file7))
		}
	}
}

func TestRecalledRecipientsCanBeMarkedAndSentElsewhere(t *testing.T) {
	o, bob, carol := recalledBoth(t)
	o.marked("7", ctlfile.Mark{Offset: bob, Tag: ctlfile.Delivered})
	o.s.Resubmit(9, Resubmission{From: Queue, Path: "7", Offsets: []int64{carol}, Channel: "smtp", Host: "relay"})
	r := answer[Resubmitted](o)
	if r.Err != nil || len(r.Offsets) != 1 || o.tags(file7) != "++" || strings.Count(o.read("transport/"+r.Name.Path), "carol") == 0 {
		t.Errorf("%+v, tags %q", r, o.tags(file7))
	}
}

func TestReleaseClearsTheLocksOfARecall(t *testing.T) {
	text := control("7", toBob)
	o := newTestSpool(t)
	o.put("7", text)
	o.open(Options{})
	o.recalled("7", offset(t, text, "bob@b"))
	o.s.Hold(9, "7")
	if r := answer[Moved](o); r.Err != nil || r.Missing {
		t.Fatalf("%+v", r)
	}
	o.s.Release(9, "7")
	r := answer[Released](o)
	o.s.Load([]Name{r.Name})
	if m := answer[Loaded](o); len(m.Recipients) != 1 || o.tags(file7) != " " {
		t.Errorf("%+v, tags %q", m, o.tags(file7))
	}
}
