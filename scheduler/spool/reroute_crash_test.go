package spool

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/queue"
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
	o.s.removeStale()
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

func TestCrashInResubmitToTheRouter(t *testing.T) {
	for step, want := range []map[string]int{
		{"bob@b.example": 1, "carol": 1, "eve@e.example": 1}, // both are packed
		{"bob@b.example": 2, "carol": 2, "eve@e.example": 1}, // one is given away, nobody is tagged
		{"bob@b.example": 1, "carol": 1, "eve@e.example": 1}, // they are tagged, the other is not given
	} {
		o := newRoutedSpool(t)
		o.put("7", control("7", toThree))
		o.open(Options{})
		asked := Resubmission{Path: "7"}
		staged, err := o.s.stage(&asked)
		check(t, err)
		if len(staged) != 2 {
			t.Fatalf("%+v", staged)
		}
		var answer Resubmitted
		switch step {
		case 1:
			_, err = o.s.publish(&staged[0], &answer)
		case 2:
			err = o.s.commit(&asked, staged[:1], &answer)
		}
		check(t, err)
		o.survives(fmt.Sprint("step ", step), want)
	}
}

func TestCrashInReroute(t *testing.T) {
	asked := Resubmission{Path: "7", Channel: "uucp", Host: "relay"}
	begin := func() (*testSpool, stagedCopy) {
		o := newRoutedSpool(t)
		o.put("7", control("7", toBob))
		o.open(Options{})
		staged, err := o.s.stage(&asked)
		check(t, err)
		if len(staged) != 1 {
			t.Fatalf("%+v", staged)
		}
		return o, staged[0]
	}
	// The number that the copy has, and the control file that goes with it.
	prepared := func(o *testSpool, p stagedCopy) (id, text string) {
		var st unix.Stat_t
		check(t, unix.Stat(p.file, &st))
		p.draft.Name = fmt.Sprint(st.Ino)
		encoded, err := p.draft.Encode()
		check(t, err)
		return p.draft.Name, string(encoded)
	}

	o, _ := begin()
	o.survives("the copy is made", map[string]int{"bob@b.example": 1})

	o, p := begin()
	_, text := prepared(o, p)
	o.write("transport/"+".scheduler"+"/"+p.spoolID, text[:20])
	o.survives("the control file is being written", map[string]int{"bob@b.example": 1})

	o, p = begin()
	id, text := prepared(o, p)
	o.write("transport/"+".scheduler"+"/"+p.spoolID, text)
	check(t, os.Rename(p.file, filepath.Join(o.dir, "queue", id)))
	o.survives("the copy is in the queue", map[string]int{"bob@b.example": 1})

	o, p = begin()
	var answer Resubmitted
	_, err := o.s.publish(&p, &answer)
	check(t, err)
	o.survives("the new control file has its name", map[string]int{"bob@b.example": 2})

	o, p = begin()
	check(t, o.s.commit(&asked, []stagedCopy{p}, &answer))
	o.survives("the old recipient is tagged", map[string]int{"bob@b.example": 1})
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
		for _, asked := range []Resubmission{{Path: "7"}, {Path: "7", Channel: "x"}} {
			o := newRoutedSpool(t)
			o.put("7", text)
			o.open(Options{})
			staged, err := o.s.stage(&asked)
			check(t, err)
			change(o)
			before := slices.DeleteFunc(o.files(), func(path string) bool {
				return strings.HasPrefix(path, "public/") || strings.HasPrefix(path, "queue/.tmp/")
			})
			var answer Resubmitted
			if err := o.s.commit(&asked, staged, &answer); err == nil || answer.Offsets != nil {
				t.Errorf("%s: %v, %+v", name, err, answer)
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
	staged, err := o.s.stage(&Resubmission{Path: "7"})
	check(t, err)
	var buf []byte
	d, err := readControl(postoffice.Control{}, o.s.pair(Queue).transport, "7", unix.O_RDONLY, &buf)
	check(t, err)
	staged[0].control = d.st
	// The name is another file's by the time that the tag is due.
	o.write("transport/tmp", control("7", toBob))
	check(t, os.Rename(filepath.Join(o.dir, "transport/tmp"), filepath.Join(o.dir, "transport/7")))
	var answer Resubmitted
	if err := o.s.commitOne(&staged[0], &d, &answer); err == nil || len(answer.Offsets) != 1 || len(answer.Router) != 1 {
		t.Errorf("%v, %+v", err, answer)
	}
	if got := o.copies()["bob@b.example"]; got != 2 {
		t.Errorf("%d copies", got)
	}
}

func TestDiscardCopiesOfOthersOnly(t *testing.T) {
	o := newRoutedSpool(t)
	o.write("public/hold-1", "another program's")
	o.mkdir("public/" + tempPrefix + "x")
	o.write("public/"+tempPrefix+"0-1", "left by a process before us")
	kept := []string{"public/hold-1"}
	if os.Geteuid() == 0 {
		theirs := "public/" + tempPrefix + "0-2"
		o.write(theirs, "somebody's who likes our prefix")
		check(t, os.Chown(filepath.Join(o.dir, theirs), 65534, -1))
		kept = append(kept, theirs)
	}
	o.open(Options{})
	mine := "public/" + o.s.temp + "1"
	o.write(mine, "under way")
	o.s.removeStale()
	kept = append(kept, mine)
	slices.Sort(kept)
	o.holds(kept...)
}

// TestCrashInMoveToAnotherNode: whatever step a move of queued, held or parked mail has
// reached, its repetition leaves nothing behind, and a recipient or d line that has two
// copies then has the same origin in both, so that the other node takes it once.
func TestCrashInMoveToAnotherNode(t *testing.T) {
	for _, from := range []Place{Queue, Hold, Postman} {
		for step, copies := range []int{1, 2, 1} { // staged; published, too; marked, too
			o := newRoutedSpool(t)
			lines := []string{"r-          smtp d.example dora@d.example 65534"}
			if from != Postman {
				lines = append(lines, toBob)
			}
			text := control("7", lines...)
			text += diagnose(offset(t, text, "dora@"), "dora@d.example", "failed")
			o.write(from.dir()+"transport/7", text)
			o.write(from.dir()+"queue/7", "Subject: x\n\nbody\n")
			o.open(Options{Node: "mx1"})
			r := Resubmission{From: from, Path: "7", Channel: "xfer", Host: "mx2"}
			staged, err := o.s.stage(&r)
			check(t, err)
			if step > 0 {
				q := queue.Item{Contents: staged[0].draft, Message: staged[0].file}
				o.s.copies.Commit([]*queue.Item{&q})
				check(t, q.Err)
			}
			if step > 1 {
				m := &move{resubmission: &r, staged: staged}
				check(t, o.s.checkMove(m))
				check(t, m.old.markMoved(&staged[0]))
				m.old.close()
			}
			o.open(Options{Node: "mx1"})
			check(t, o.resubmitted(r).Err)
			origins := map[string]int{}
			for _, path := range o.files() {
				if !strings.HasPrefix(path, "transport/") || path == "transport/7" {
					continue
				}
				f, err := ctlfile.Parse([]byte(o.read(path)))
				check(t, err)
				for i := range f.Recipients {
					origin, err := ctlfile.ParseOrigin(f.Recipients[i].Origin)
					check(t, err)
					origins[origin.ID()]++
				}
			}
			if len(origins) != len(lines) {
				t.Errorf("%q, step %d: the origins %v for %d recipients", from.dir(), step, origins, len(lines))
			}
			for id, n := range origins {
				if n != copies {
					t.Errorf("%q, step %d: %s has %d copies, want %d", from.dir(), step, id, n, copies)
				}
			}
			if from == Postman {
				if slices.Contains(o.files(), "postman/transport/7") || slices.Contains(o.files(), "postman/queue/7") {
					t.Errorf("step %d: the parked message is still there", step)
				}
				continue
			}
			f, err := ctlfile.Parse([]byte(o.read(from.dir() + "transport/7")))
			check(t, err)
			if o.s.owes(f, true) || !allDone(f) {
				t.Errorf("%q, step %d: the old message still has something:\n%+v", from.dir(), step, f)
			}
		}
	}
}
