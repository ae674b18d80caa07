package spool

// Moves to the node itself, which end moves to another node.

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"zsched/ctlfile"
)

// TestMoveBackRestoresRecipients: recipients that come back from their way to another node
// have the channel, host and class that they had, what their sender is still to be told,
// and their tries.
func TestMoveBackRestoresRecipients(t *testing.T) {
	o := newRoutedSpool(t)
	text := control("7", toBob, "X           3 smtp c.example carol@c.example 65534", "X           3 smtp ((mx1.c)(mx2.c)) cate@c.example 65534",
		"r-          smtp d.example dora@d.example 65534")
	text += diagnose(offset(t, text, "dora@"), "dora@d.example", "failed")
	o.put("7", text)
	o.open(Options{Node: "MX1"})
	var offsets []int64
	for _, to := range []string{"bob@", "carol@", "cate@"} {
		offsets = append(offsets, offset(t, text, to))
	}
	away := o.resubmitted(Resubmission{Path: "7", Offsets: offsets, Attempts: []int{2, 1, 0}, Channel: "xfer", Host: "mx2"})
	if f := o.movedTo(away); len(f.Recipients) != 4 {
		t.Fatalf("%+v", f.Recipients)
	}
	back := o.resubmitted(Resubmission{Path: away.Name.Path, Channel: "xfer", Host: "mx1"})
	f := o.movedTo(back)
	want := []struct {
		host     string
		class    int
		attempts int
		tag      ctlfile.Tag
	}{{"b.example", 0, 2, ctlfile.Open}, {"c.example", 3, 1, ctlfile.Open}, {"((mx1.c)(mx2.c))", 3, 0, ctlfile.Open}, {"d.example", 0, 0, ctlfile.Failed}}
	if back.Held || len(f.Recipients) != len(want) {
		t.Fatalf("%+v, %+v", back, f.Recipients)
	}
	first, err := ctlfile.Parse([]byte(o.read("transport/" + away.Name.Path)))
	check(t, err)
	for i, w := range want {
		r := &f.Recipients[i]
		from, err := ctlfile.ParseOrigin(r.Origin)
		if r.Channel != "smtp" || r.Host != w.host || r.Class != w.class || r.Tag != w.tag || r.Unreported != "" || err != nil || from.Attempts != w.attempts || from.Channel != "" {
			t.Errorf("recipient %d is %+v", i, r)
		}
		if before, _ := ctlfile.ParseOrigin(first.Recipients[i].Origin); before.ID() != from.ID() {
			t.Errorf("recipient %d has the origin %q, and had %q", i, r.Origin, first.Recipients[i].Origin)
		}
	}
	if len(f.Diagnostics) != 1 || f.Diagnostics[0].Tag != ctlfile.Open || f.Diagnostics[0].Recipient != f.Recipients[3].Offset {
		t.Errorf("%+v", f.Diagnostics)
	}
	if tags := o.tagsIn("transport/" + away.Name.Path); tags != "++++" {
		t.Errorf("the old tags are %q", tags)
	}
	// Moved away again, they are known to a node that has taken them already.
	again := o.movedTo(o.resubmitted(Resubmission{Path: back.Name.Path, Channel: "xfer", Host: "mx2"}))
	for i := range 3 {
		was, _ := ctlfile.ParseOrigin(first.Recipients[i].Origin)
		now, _ := ctlfile.ParseOrigin(again.Recipients[i].Origin)
		if was.Node != "MX1" || now.ID() != was.ID() {
			t.Errorf("recipient %d has the origin %q, and had %q", i, again.Recipients[i].Origin, first.Recipients[i].Origin)
		}
	}
}

// TestMoveBackHoldsAgain: a message that was held is held again, with its record.
func TestMoveBackHoldsAgain(t *testing.T) {
	o := newRoutedSpool(t)
	const messages = 3
	record := HoldRecord{Since: time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC), By: "root uid 0", Why: "they asked"}
	for i := range messages {
		name := fmt.Sprint(7 + i)
		o.write("hold/transport/"+name, control(name, toBob))
		o.write("hold/queue/"+name, "Subject: x\n\nbody\n")
		record.Messages = append(record.Messages, o.spoolID("hold/queue/"+name))
	}
	o.open(Options{Node: "mx1", HashLevels: 1})
	check(t, o.s.RecordHold(record))
	for i := range messages {
		away := o.resubmitted(Resubmission{From: Hold, Path: fmt.Sprint(7 + i), Channel: "xfer", Host: "mx2"})
		check(t, away.Err)
		back := o.resubmitted(Resubmission{Path: away.Name.Path, Channel: "xfer", Host: "mx1"})
		if back.Err != nil || !back.Held || back.NewFiles() != "hold/transport/"+back.Name.Path {
			t.Fatalf("%+v", back)
		}
		records, err := o.s.HoldRecords()
		check(t, err)
		r := InForce(records).Messages[o.spoolID("hold/queue/"+back.Name.Path)]
		if r == nil || r.By != record.By || r.Why != record.Why || !r.Since.Equal(record.Since) {
			t.Errorf("the record is %+v", r)
		}
		if released := o.release(back.Name.Path); released.Err != nil || len(o.loaded(back.Name.Path).Recipients) != 1 {
			t.Errorf("%+v", released)
		}
	}
}

// TestReleasedHoldHasNoRecord: a message was held and released, and then its thread was held,
// without a reason. The move has the hold of the thread.
func TestReleasedHoldHasNoRecord(t *testing.T) {
	o := newRoutedSpool(t)
	o.write("transport/7", control("7", toBob))
	o.write("queue/7", "Subject: x\n\nbody\n")
	o.open(Options{Node: "mx1", HashLevels: 1})
	check(t, o.s.RecordHold(HoldRecord{Since: time.Now(), Why: "released", Messages: []string{o.spoolID("queue/7")}}))
	away := o.resubmitted(Resubmission{From: Queue, Path: "7", Held: true, Channel: "xfer", Host: "mx2"})
	check(t, away.Err)
	if got := o.read("transport/" + away.Name.Path); strings.Contains(got, "released") {
		t.Errorf("%s", got)
	}
	back := o.resubmitted(Resubmission{Path: away.Name.Path, Channel: "xfer", Host: "mx1"})
	records, err := o.s.HoldRecords()
	check(t, err)
	if r := InForce(records).Messages[back.SpoolID]; back.Err != nil || !back.Held || r != nil {
		t.Errorf("%+v, record %+v", back, r)
	}
}

// TestMoveBackOfMailThatWasNotMoved: a recipient of channel xfer without an origin stays.
func TestMoveBackOfMailThatWasNotMoved(t *testing.T) {
	o := newRoutedSpool(t)
	o.put("7", control("7", "r           xfer mx2 bob@b.example 65534"))
	o.open(Options{Node: "mx1"})
	if r := o.resubmitted(Resubmission{Path: "7", Channel: "xfer", Host: "mx1"}); r.Err == nil || o.tagsIn("transport/7") != " " {
		t.Errorf("%+v", r)
	}
}

// TestMoveBackOfWhatIsDoneIsNotHeld: mail that only has something to report is not held,
// because nothing would end the hold.
func TestMoveBackOfWhatIsDoneIsNotHeld(t *testing.T) {
	o := newRoutedSpool(t)
	text := control("7", toBob, "r-          smtp d.example dora@d.example 65534")
	text += diagnose(offset(t, text, "dora@"), "dora@d.example", "failed")
	o.put("7", text)
	o.open(Options{Node: "mx1"})
	away := o.resubmitted(Resubmission{Path: "7", Channel: "xfer", Host: "mx2"})
	f := o.movedTo(away)
	o.marked(away.Name.Path, ctlfile.Mark{Offset: f.Recipients[0].Offset, Tag: ctlfile.Delivered})
	back := o.resubmitted(Resubmission{Path: away.Name.Path, Channel: "xfer", Host: "mx1", Held: true})
	if back.Err != nil || back.Held {
		t.Fatalf("%+v", back)
	}
	if f := o.movedTo(back); len(f.Diagnostics) != 1 || f.Diagnostics[0].Tag != ctlfile.Open || f.Recipients[0].Tag != ctlfile.Failed {
		t.Errorf("%+v, %+v", f.Recipients, f.Diagnostics)
	}
}
