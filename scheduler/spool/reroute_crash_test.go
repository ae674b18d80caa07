package spool

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/scheduler"
	"zsched/scheduler/view"
)

// A resubmission is a few steps, each of them whole or not at all. Below the
// process dies after each of them, and the next one must find every recipient
// in at least one place, and in no more than two.

// copies counts the copies of each recipient: open in a control file that
// can be taken, or in a submission.
func (o *testSpool) copies() map[string]int {
	o.t.Helper()
	copies := map[string]int{}
	for _, path := range o.files() {
		dir, base := filepath.Split(path)
		if base[0] < '0' || base[0] > '9' {
			continue
		}
		switch {
		case strings.HasPrefix(dir, "transport/"):
			for _, r := range o.loaded(strings.TrimPrefix(path, "transport/")).Recipients {
				f, err := ctlfile.Parse([]byte(o.read(path)))
				check(o.t, err)
				copies[f.Recipients[f.Find(r.Offset)].User]++
			}
		case strings.HasPrefix(dir, "router/"):
			for line := range strings.Lines(o.read(path)) {
				if to, ok := strings.CutPrefix(line, "to <"); ok {
					copies[strings.TrimSuffix(to, ">\n")]++
				}
			}
		}
	}
	return copies
}

// survives opens the spool again, as a new process would, and looks after
// everyone.
func (o *testSpool) survives(step string, want map[string]int) {
	o.t.Helper()
	o.close()
	o.open(Options{})
	o.s.janitor.removeStale()
	for _, path := range o.files() {
		if strings.HasPrefix(path, "public/") {
			o.t.Errorf("%s: %s is left", step, path)
		}
	}
	if got := o.copies(); fmt.Sprint(got) != fmt.Sprint(want) {
		o.t.Errorf("%s: %v, want %v", step, got, want)
	}
}

// Two senders, hence two submissions.
const toThree = toBob + "\n" + toCarol + "\ns local dave@x.example dave@x.example 0\n" +
	"r           smtp e.example eve@e.example 65534"

// begun stages a resubmission and opens the old file, as a batch does.
func (o *testSpool) begun(asked scheduler.Resubmit) *resubmission {
	o.t.Helper()
	m := &resubmission{Resubmit: &asked}
	m.staged, m.err = o.s.mover.stage(&asked)
	check(o.t, m.err)
	check(o.t, o.s.mover.check(m))
	return m
}

func TestCrashInResubmitToTheRouter(t *testing.T) {
	for step, want := range []map[string]int{
		{"bob@b.example": 1, "carol": 1, "eve@e.example": 1}, // both are packed
		{"bob@b.example": 2, "carol": 2, "eve@e.example": 1}, // one is given away, nobody is tagged
		{"bob@b.example": 1, "carol": 1, "eve@e.example": 1}, // they are tagged, the other is not given
	} {
		o := newRoutedSpool(t)
		o.put("7", control("7", toThree))
		o.open(Options{})
		m := o.begun(scheduler.Resubmit{Path: "7"})
		if len(m.staged) != 2 {
			t.Fatalf("%+v", m.staged)
		}
		m.staged = m.staged[:1]
		if step > 0 {
			o.s.mover.publish([]*resubmission{m})
		}
		if step > 1 {
			o.s.mover.markSent(m)
			check(t, m.err)
		}
		o.survives(fmt.Sprint("step ", step), want)
	}
}

// TestCrashInReroute: whatever step a reroute or a move to another node has reached, for mail
// in the queue or under hold/, each recipient is there once.
func TestCrashInReroute(t *testing.T) {
	for _, asked := range []scheduler.Resubmit{
		{Path: "7", Channel: "uucp", Host: "relay"}, {Path: "7", Channel: "xfer", Host: "mx2"}, {Path: "hold/7", Hold: new(view.Hold), Channel: "uucp", Host: "relay"},
	} {
		for _, step := range []string{"write ", "sync staged", "move message", "claim", "publish", "mark", "end"} {
			o := newRoutedSpool(t)
			text := control("7", toBob, toCarol)
			from, _ := placeOf(asked.Path)
			o.write(from.dir()+"transport/7", text)
			o.write(from.dir()+"queue/7", "Subject: x\n\nbody\n")
			o.open(Options{Node: "mx1"})
			asked.Offsets = []int64{offset(t, text, "bob@")}
			m := o.diesAt(step, asked)
			if step == "end" {
				o.s.mover.markSent(m)
				check(t, m.err)
			}
			m.old.close()
			if from == Hold {
				o.close()
				o.open(Options{Node: "mx1"})
				for _, path := range slices.Backward(o.files()) { // to be counted; control files first
					if from, found := strings.CutPrefix(path, "hold/"); found {
						check(t, os.MkdirAll(filepath.Dir(filepath.Join(o.dir, from)), 0o755))
						check(t, os.Rename(filepath.Join(o.dir, path), filepath.Join(o.dir, from)))
					}
				}
			}
			// While it is not known which copies count, their sources must not be fed.
			staging := filepath.Join(o.dir, "transport/.scheduler")
			check(t, os.Rename(staging, staging+".away"))
			o.write("transport/.scheduler", "not a directory")
			o.close()
			if s, err := Open(Options{Postoffice: o.dir, Reporter: noReporter{}}); err == nil {
				t.Errorf("step %q: the spool is open", step)
				s.Close()
			}
			check(t, os.Remove(staging))
			check(t, os.Rename(staging+".away", staging))
			o.survives(fmt.Sprintf("%+v, step %q", asked, step), map[string]int{"bob@b.example": 1, "carol": 1})
			if left, err := os.ReadDir(filepath.Join(o.dir, "transport/.scheduler")); err != nil || len(left) > 0 {
				t.Errorf("step %q: %v, %v are left", step, err, left)
			}
		}
	}
}

// The d lines of recipients that are sent elsewhere together count together: a short write or a crash that
// leaves some of them, or a part of one, leaves the copy uncounted and nobody marked. Others may have
// appended to them since.
func TestCrashInTheLinesOfAReroute(t *testing.T) {
	o := newRoutedSpool(t)
	text := control("7", toBob, toCarol)
	asked := scheduler.Resubmit{Path: "7", Channel: "uucp", Host: "relay"}
	const another = "d 1:0:-1::1\t\tby another program\n"
	for _, more := range []string{"", "  \n", "  \n" + another, another} {
		for cut, whole := 0, 1; cut <= whole; cut = min(cut+13, max(whole, cut+1)) {
			o.put("7", text)
			o.open(Options{Node: "mx1"})
			m := o.diesAt("publish", asked)
			m.old.close()
			lines := strings.TrimPrefix(o.read("transport/7"), text)
			whole = len(lines)
			rest := more
			if rest == another && cut < strings.Index(lines, "(rer")+len("(rer") {
				rest = "" // both would be one line, and nobody knows about whom
			}
			o.write("transport/7", text+lines[:cut]+rest)
			o.survives(fmt.Sprintf("%d of %d bytes, then %q", cut, whole, rest), map[string]int{"bob@b.example": 1, "carol": 1})
			o.close()
			if left, err := os.ReadDir(filepath.Join(o.dir, "transport/.scheduler")); err != nil || len(left) > 0 {
				t.Errorf("%d of %d bytes: %v, %v are left", cut, whole, err, left)
			}
			for _, path := range o.files() {
				check(t, os.Remove(filepath.Join(o.dir, path)))
			}
		}
	}
}

// A copy that an error has undone and that cannot be removed has no answer until it is: then its source,
// which is not removed before the answer, says whether it counts, also after a crash.
func TestAnswerWaitsForTheEndOfAnUndoneCopy(t *testing.T) {
	for _, crash := range []bool{false, true} {
		o := newRoutedSpool(t)
		o.put("7", control("7", toBob))
		o.open(Options{})
		staging := filepath.Join(o.dir, "transport/.scheduler")
		m := o.begun(scheduler.Resubmit{Path: "7", Channel: "uucp", Host: "relay"})
		o.s.mover.copies.Step = func(what string) {
			if what == "claim" { // no d line can be written, and the copy is out of sight
				check(t, postoffice.Close(m.old.fd))
				m.old.fd = -1
				check(t, os.Rename(staging, staging+".away"))
			}
		}
		o.s.mover.publish([]*resubmission{m})
		o.s.mover.markSent(m)
		if m.err == nil || o.s.mover.undone(m) {
			t.Fatalf("%v", m.err)
		}
		if w := answer[Warning](o); !strings.Contains(w.Text, "its recipients wait") {
			t.Errorf("%+v", w)
		}
		check(t, os.Rename(staging+".away", staging))
		if !crash {
			if a := answer[Answered](o); a.Err == nil || len(a.Offsets) > 0 {
				t.Errorf("%+v", a)
			}
			o.holds("queue/7", "transport/7")
		}
		o.survives(fmt.Sprintf("crash: %t", crash), map[string]int{"bob@b.example": 1})
	}
}

// diesAt stages and publishes a resubmission, and dies at a step.
func (o *testSpool) diesAt(step string, asked scheduler.Resubmit) *resubmission {
	o.t.Helper()
	m := o.begun(asked)
	o.s.mover.copies.Step = func(what string) {
		if strings.HasPrefix(what, step) {
			panic(step)
		}
	}
	func() {
		defer func() { _ = recover() }()
		o.s.mover.publish([]*resubmission{m})
	}()
	return m
}

// If nobody can tell whether a copy counts, its recipients come twice rather than never, and nothing is
// left for a later start to decide.
func TestCopyWhoseSourceIsDamagedCounts(t *testing.T) {
	for _, step := range []string{"claim", "publish"} {
		o := newRoutedSpool(t)
		o.put("7", control("7", toBob))
		o.open(Options{})
		m := o.diesAt(step, scheduler.Resubmit{Path: "7", Channel: "uucp", Host: "relay"})
		m.old.close()
		o.close()
		check(t, os.Truncate(filepath.Join(o.dir, "transport/7"), 5))
		o.age("transport/7", time.Hour)
		o.open(Options{})
		if w := answer[Warning](o); !strings.Contains(w.Text, "take them out before you put the file back") {
			t.Errorf("%s: %+v", step, w)
		}
		if left, err := os.ReadDir(filepath.Join(o.dir, "transport/.scheduler")); err != nil || len(left) > 0 {
			t.Errorf("%s: %v, %v are left", step, err, left)
		}
		o.refused("7", Quarantined)
		if got := o.copies(); fmt.Sprint(got) != "map[bob@b.example:1]" {
			t.Errorf("%s: %v", step, got)
		}
	}
}

// Between staging and publishing somebody else took a recipient: nothing is sent.
func TestResubmitOfWhatChangedMeanwhile(t *testing.T) {
	text := control("7", toBob, toCarol)
	for name, change := range map[string]func(o *testSpool){
		"delivered": func(o *testSpool) { o.write("transport/7", strings.Replace(text, "r ", "r+", 1)) },
		"another file": func(o *testSpool) {
			o.write("transport/tmp", text)
			check(t, os.Rename(filepath.Join(o.dir, "transport/tmp"), filepath.Join(o.dir, "transport/7")))
		},
		"gone": func(o *testSpool) { check(t, os.Remove(filepath.Join(o.dir, "transport/7"))) },
	} {
		for _, asked := range []scheduler.Resubmit{{Path: "7"}, {Path: "7", Channel: "x"}} {
			o := newRoutedSpool(t)
			o.put("7", text)
			o.open(Options{})
			m := &resubmission{Resubmit: &asked}
			m.staged, m.err = o.s.mover.stage(&asked)
			check(t, m.err)
			change(o)
			before := slices.DeleteFunc(o.files(), func(path string) bool {
				return strings.HasPrefix(path, "public/") || strings.HasPrefix(path, "queue/.tmp/")
			})
			o.s.mover.commit([]*resubmission{m})
			if got := answer[Answered](o); got.Err == nil && !got.Missing || got.Offsets != nil {
				t.Errorf("%s: %+v", name, got)
			}
			o.holds(before...)
		}
	}
}

// A tag that cannot be written is told, with who went all the same.
func TestResubmitThatCannotTag(t *testing.T) {
	o := newRoutedSpool(t)
	o.put("7", control("7", toBob))
	o.open(Options{})
	m := o.begun(scheduler.Resubmit{Path: "7"})
	check(t, postoffice.Close(m.old.fd))
	m.old.fd = -1
	// The name is another file's by the time that the tag is due.
	o.write("transport/tmp", control("7", toBob))
	check(t, os.Rename(filepath.Join(o.dir, "transport/tmp"), filepath.Join(o.dir, "transport/7")))
	o.s.mover.publish([]*resubmission{m})
	o.s.mover.markSent(m)
	if m.err != nil || len(m.answer.Offsets) != 1 || len(m.answer.Unmarked) != 1 || len(m.answer.Router) != 1 {
		t.Errorf("%v, %+v", m.err, m.answer)
	}
	if got := o.copies()["bob@b.example"]; got != 2 {
		t.Errorf("%d copies", got)
	}
}

func TestDiscardCopiesOfOthersOnly(t *testing.T) {
	o := newRoutedSpool(t)
	const dir = "queue/.tmp/"
	o.mkdir(dir)
	check(t, os.Chmod(filepath.Join(o.dir, dir), 0o700))
	o.write(dir+"submit-1", "another program's")
	o.mkdir(dir + tempPrefix + "x")
	o.write(dir+tempPrefix+"0-1", "left by a process before us")
	o.open(Options{}) // whose first sweep may remove them at any time
	o.write(dir+o.s.temp+"1", "under way")
	o.s.janitor.removeStale()
	o.holds(dir+o.s.temp+"1", dir+"submit-1")
}
