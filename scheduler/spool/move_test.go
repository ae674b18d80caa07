package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zsched/ctlfile"
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
		o.s.Resubmit(uint64(i), Resubmission{Path: fmt.Sprint(999 + i), Channel: "xfer", Host: "mx2"})
	}
	moved := map[string]bool{}
	for range messages + 2 {
		answer := answer[Resubmitted](o)
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

// TestMoveAndOutcomesOfTheSameFile: an outcome that comes while a message is moved is
// written after that, and a closed spool leaves no worker behind.
func TestMoveAndOutcomesOfTheSameFile(t *testing.T) {
	o := newRoutedSpool(t)
	text := control("7", toBob, toCarol)
	o.put("7", text)
	o.open(Options{Node: "mx1", Markers: 1})
	bob, carol := offset(t, text, "bob@"), offset(t, text, "carol")
	o.s.Resubmit(1, Resubmission{Path: "7", Offsets: []int64{bob}, Channel: "xfer", Host: "mx2"})
	o.s.Mark(2, "7", []ctlfile.Mark{{Offset: carol, Tag: ctlfile.Failed, Diagnose: true}})
	for range 2 {
		switch r := o.next().(type) {
		case Marked:
			check(t, r.Err)
		case Resubmitted:
			check(t, r.Err)
		default:
			t.Fatalf("%+v", r)
		}
	}
	if got := o.tagsIn("transport/7"); got != "+-" {
		t.Errorf("the tags are %q", got)
	}
	for i := range 50 {
		o.s.Resubmit(uint64(i), Resubmission{Path: "7", Channel: "xfer", Host: "mx2"})
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
			o.s.Resubmit(uint64(i), Resubmission{Path: fmt.Sprint(1_000_000 + i), Channel: "xfer", Host: "mx2"})
		}
		for done := 0; done < messages; {
			for _, r := range <-o.s.Results() {
				if answer, ok := r.(Resubmitted); ok {
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

// movedTo is the control file of the copy that a move has made.
func (o *testSpool) movedTo(r Resubmitted) *ctlfile.File {
	o.t.Helper()
	check(o.t, r.Err)
	f, err := ctlfile.Parse([]byte(o.read("transport/" + r.Name.Path)))
	check(o.t, err)
	return f
}

// TestMoveTakesUntoldLinesAlong: a d line whose notice is not written goes with the last
// recipients that move, and does not count as owed here afterwards. A delay goes with its
// recipient.
func TestMoveTakesUntoldLinesAlong(t *testing.T) {
	o := newRoutedSpool(t)
	text := control("7", toBob, "N NOTIFY=FAILURE,DELAY", toCarol, "r-          smtp d.example dora@d.example 65534", "r           smtp e.example eve@e.example 65534")
	bob, carol := offset(t, text, "bob@"), offset(t, text, "carol")
	dora, eve := offset(t, text, "dora@"), offset(t, text, "eve@")
	text += diagnose(dora, "dora@d.example", "failed") + diagnose(bob, "bob@b.example", "delayed")
	o.put("7", text)
	o.open(Options{Node: "mx1"})
	first := o.resubmitted(Resubmission{Path: "7", Offsets: []int64{bob, carol}, Channel: "xfer", Host: "mx2"})
	f := o.movedTo(first)
	if len(f.Recipients) != 3 || first.Owes {
		t.Fatalf("%d recipients have moved: %+v", len(f.Recipients), first)
	}
	for i, want := range []struct {
		offset int64
		done   ctlfile.Tag
		action string
	}{{bob, 0, "delayed"}, {carol, 0, ""}, {dora, ctlfile.Failed, "failed"}} {
		r := &f.Recipients[i]
		from, err := ctlfile.ParseOrigin(r.Origin)
		lines := ctlfile.ParseUnreported(r.Unreported)
		if err != nil || from.Offset != want.offset || from.Done != want.done || r.Tag != ctlfile.Open {
			t.Errorf("recipient %d is %+v, from %+v, %v", i, r, from, err)
		}
		if len(lines) > 1 || (len(lines) == 1) != (want.action != "") || len(lines) == 1 && action(lines[0].Notary) != want.action {
			t.Errorf("recipient %d has the D lines %q", i, r.Unreported)
		}
	}
	if got := o.tagsIn("transport/7"); got != "++- " {
		t.Errorf("the old tags are %q", got)
	}
	second := o.movedTo(o.resubmitted(Resubmission{Path: "7", Offsets: []int64{eve}, Channel: "xfer", Host: "mx2"}))
	if len(second.Recipients) != 1 {
		t.Errorf("the lines have moved twice: %+v", second.Recipients)
	}
	// Such a recipient is not delivered by any channel, and a move to another node keeps it.
	path := first.Name.Path
	if r := o.resubmitted(Resubmission{Path: path, Offsets: []int64{f.Recipients[2].Offset}, Channel: "smtp", Host: "relay"}); len(r.Offsets) > 0 {
		t.Errorf("it was rerouted: %+v", r)
	}
	third := o.movedTo(o.resubmitted(Resubmission{Path: path, Channel: "xfer", Host: "mx3"}))
	if len(third.Recipients) != 3 || third.Recipients[2].Unreported != f.Recipients[2].Unreported || third.Recipients[2].Origin != f.Recipients[2].Origin {
		t.Errorf("it was moved on as %+v", third.Recipients)
	}
}

// TestUntoldLinesAreToldHereIfTheyDoNotArrive: a recipient that failed or was delivered
// before the move, and that expires or is killed on its way, has its former outcome, and its
// sender is told of that.
func TestUntoldLinesAreToldHereIfTheyDoNotArrive(t *testing.T) {
	for _, c := range []struct {
		tag    string
		action string
		end    ctlfile.Mark
	}{
		{"-", "failed", ctlfile.Mark{Tag: ctlfile.Failed, Diagnose: true, Notary: "\x03\x01failed", Text: "expired"}},
		{"+", "delivered", ctlfile.Mark{Tag: ctlfile.Failed, Diagnose: true, Notary: "\x03\x01failed", Text: "expired"}},
		{"-", "failed", ctlfile.Mark{Tag: ctlfile.Delivered, Killed: true}},
		{"+", "delivered", ctlfile.Mark{Tag: ctlfile.Delivered, Killed: true}},
	} {
		o := newRoutedSpool(t)
		text := control("7", toCarol, "r"+c.tag+"          smtp d.example dora@d.example 65534", "N NOTIFY=SUCCESS,FAILURE")
		text += diagnose(offset(t, text, "dora@"), "dora@d.example", c.action)
		o.put("7", text)
		o.open(Options{Node: "mx1"})
		moved := o.resubmitted(Resubmission{Path: "7", Channel: "xfer", Host: "mx2"})
		f := o.movedTo(moved)
		dora := f.Recipients[1].Offset
		m := o.loaded(moved.Name.Path)
		if !m.Owes || len(m.Recipients) != 2 {
			t.Errorf("it is loaded as %+v", m)
		}
		path := m.Name.Path
		o.s.Mark(1, path, []ctlfile.Mark{{Offset: dora, Tag: ctlfile.Open, LeaveTag: true, Diagnose: true, Notary: "\x03\x01delayed"}})
		check(t, answer[Marked](o).Err)
		c.end.Offset = dora
		o.s.Mark(2, path, []ctlfile.Mark{c.end})
		check(t, answer[Marked](o).Err)
		f, err := ctlfile.Parse([]byte(o.read("transport/" + path)))
		check(t, err)
		if tags := o.tagsIn("transport/" + path); tags != " "+c.tag {
			t.Errorf("%s: the tags are %q", c.action, tags)
		}
		if len(f.Diagnostics) != 1 || action(f.Diagnostics[0].Notary) != c.action || len(o.s.owed(f, true)) != 1 {
			t.Errorf("%s: the d lines are %+v", c.action, f.Diagnostics)
		}
	}
}

// TestParkedMessagesMove: a message whose notice could not be written goes with its d
// lines, and its files go from postman/.
func TestParkedMessagesMove(t *testing.T) {
	o := newRoutedSpool(t)
	text := control("7", "r-          smtp d.example dora@d.example 65534", "r+          smtp e.example eve@e.example 65534")
	text += diagnose(offset(t, text, "dora@"), "dora@d.example", "failed")
	o.write("postman/transport/7", text)
	o.write("postman/queue/7", "Subject: x\n\nbody\n")
	o.open(Options{Node: "mx1"})
	ask := Resubmission{From: Postman, Path: "7", Channel: "xfer", Host: "mx2"}
	o.s.Resubmit(7, ask)
	if gone := answer[Unparked](o); gone.Name.Path != "7" || gone.Notice != "" {
		t.Errorf("%+v", gone)
	}
	moved := answer[Resubmitted](o)
	f := o.movedTo(moved)
	if len(f.Recipients) != 1 || f.Recipients[0].User != "dora@d.example" {
		t.Errorf("%+v", f.Recipients)
	}
	o.holds("queue/"+moved.Name.Path, "transport/"+moved.Name.Path)
	if again := o.resubmitted(ask); !again.Missing {
		t.Errorf("%+v", again)
	}
}

// TestHoldRecordMovesWithTheMessage: a held message, and mail of a held thread, takes
// along who held it, why and until when.
func TestHoldRecordMovesWithTheMessage(t *testing.T) {
	o := newRoutedSpool(t)
	o.write("hold/transport/7", control("7", toBob))
	o.write("hold/queue/7", "Subject: x\n\nbody\n")
	o.put("8", control("8", toBob))
	o.open(Options{Node: "mx1"})
	since := time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)
	info, err := os.Stat(filepath.Join(o.dir, "hold/queue/7"))
	check(t, err)
	check(t, o.s.RecordHold(HoldRecord{Since: since, Until: since.Add(time.Hour), By: "root uid 0", Why: "they asked", Messages: []string{ctlfile.SpoolID(7, info.ModTime())}}))
	check(t, o.s.RecordHold(HoldRecord{Since: since, By: "ann", Why: "looks odd", Threads: []Thread{{"smtp", "b.example"}}}))
	for want, ask := range map[string]Resubmission{
		"2026-11-22T08:00:00Z 2026-11-22T09:00:00Z root uid 0\tthey asked": {From: Hold, Path: "7"},
		"2026-11-22T08:00:00Z - ann\tlooks odd":                            {Path: "8", Held: true},
	} {
		ask.Channel, ask.Host = "xfer", "mx2"
		f := o.movedTo(o.resubmitted(ask))
		if got := f.Recipients[0].Hold; got != want {
			t.Errorf("the H line is %q, want %q", got, want)
		}
	}
}
