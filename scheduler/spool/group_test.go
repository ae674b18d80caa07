package spool

import (
	"strings"
	"testing"

	"zsched/ctlfile"
	"zsched/scheduler"
)

// busy keeps the marker of a file at work until the result is called.
func (o *testSpool) busy(path string) (release func()) {
	begun, gate := make(chan struct{}), make(chan struct{})
	o.s.edit(path, func() {
		close(begun)
		<-gate
	})
	<-begun
	return func() { close(gate) }
}

// Outcomes that wait for the same file cost one look at it, and each has its
// own answer.
func TestMarksOfAFileGoTogether(t *testing.T) {
	const many = 100
	text := control("7", strings.TrimSuffix(strings.Repeat(toBob+"\n", many), "\n"))
	o := newTestSpool(t)
	o.put("7", text)
	o.open(Options{Workers: 1})
	release := o.busy("7")
	at := offset(t, text, "bob@b")
	for n := range uint64(many) {
		o.s.Mark(n, "7", []ctlfile.Mark{{Offset: at, Tag: ctlfile.Failed, Diagnose: true, Text: "no such user"}})
		at += int64(len(toBob) + 1)
	}
	if q := o.s.edits[0]; len(q.items) != 1 {
		t.Errorf("%d edits wait", len(q.items))
	}
	release()
	for n := range scheduler.Op(many) {
		if r := answered[scheduler.Mark](o); r.Op != n || r.Err != nil || r.Missing {
			t.Fatalf("%+v", r)
		}
	}
	if tags, lines := o.tags("transport/7"), o.lines("transport/7"); tags != strings.Repeat("-", many) || len(lines) != many {
		t.Errorf("tags %q, %d d lines", tags, len(lines))
	}
}

// What was asked for between two outcomes is done between them.
func TestMarksKeepTheirPlaceInTheQueue(t *testing.T) {
	text := control("7", toBob, toCarol)
	o := newTestSpool(t)
	o.put("7", text)
	o.open(Options{})
	release := o.busy("7")
	o.s.Mark(1, "7", []ctlfile.Mark{{Offset: offset(t, text, "bob@b"), Tag: ctlfile.Delivered}})
	o.s.Reread(2, "7", scheduler.Read{})
	o.s.Mark(3, "7", []ctlfile.Mark{{Offset: offset(t, text, "carol"), Tag: ctlfile.Delivered}})
	release()
	r := answered[scheduler.Read](o)
	if len(r.Recipients) != 2 || r.Recipients[0].Tag != ctlfile.Delivered || r.Recipients[1].Tag != ctlfile.Open {
		t.Errorf("%+v", r)
	}
	if r := answered[scheduler.Mark](o); r.Op != 3 || o.tags("transport/7") != "++" {
		t.Errorf("%+v, tags %q", r, o.tags("transport/7"))
	}
}

func TestMarksOfAMissingFileAreAllAnswered(t *testing.T) {
	o := newTestSpool(t).open(Options{})
	release := o.busy("7")
	o.s.Mark(1, "7", nil)
	o.s.Mark(2, "7", nil)
	release()
	for n := range scheduler.Op(2) {
		if r := answered[scheduler.Mark](o); r.Op != n+1 || !r.Missing {
			t.Errorf("%+v", r)
		}
	}
}
