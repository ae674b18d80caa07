package spool

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"zsched/ctlfile"

	"zsched/internal/testing/peertest"
	"zsched/scheduler"
	"zsched/scheduler/view"
)

func (o *testSpool) release(path string) Answered {
	o.t.Helper()
	o.s.Release(5, path)
	r := moved(o)
	if r.Op != 5 {
		o.t.Fatalf("%+v", r)
	}
	return r
}

// spoolID is that of a message file.
func (o *testSpool) spoolID(path string) string {
	o.t.Helper()
	st, err := os.Stat(filepath.Join(o.dir, path))
	check(o.t, err)
	_, base := split(path)
	id, _ := ctlfile.Number(base)
	return ctlfile.SpoolID(id, st.ModTime())
}

// A message that is held is loaded with what its record says, and again when it is released.
func TestHoldAndRelease(t *testing.T) {
	for _, path := range []string{"258367", "H/258367", "S/258367", "F/F/258367", "S/Y/258367", "X/Y/258367-7"} {
		o := newTestSpool(t)
		_, base := split(path)
		o.put(path, control(base, toBob))
		o.open(Options{})
		id := o.spoolID("queue/" + path)
		check(t, o.s.holds.RecordHold(HoldRecord{Hold: view.Hold{By: "root"}, Messages: []string{id}}))
		if m := o.loaded(path); m.UnderHold || m.Hold == nil || m.Hold.By != "root" {
			t.Errorf("a message whose hold is recorded: %+v", m)
		}
		o.s.Hold(4, path)
		if r := moved(o); r.Op != 4 || r.Err != nil || r.Missing {
			t.Fatalf("%+v", r)
		}
		o.holds("hold/orders/1", "hold/queue/"+path, "hold/transport/"+path)
		if m := o.loaded("hold/" + path); !m.UnderHold || m.Released || m.Hold == nil || m.Hold.By != "root" {
			t.Errorf("a held message: %+v", m)
		}
		check(t, o.s.holds.EndHolds(HoldRecord{Messages: []string{id}}))
		if m := o.loaded("hold/" + path); !m.UnderHold || !m.Released {
			t.Errorf("a message whose release is recorded: %+v", m)
		}
		if r := o.release(path); r.Err != nil || r.Missing {
			t.Fatalf("%+v", r)
		}
		o.holds("hold/orders/1", "queue/"+path, "transport/"+path)
		if m := o.loaded(path); len(m.Recipients) != 1 || m.Hold != nil {
			t.Errorf("%+v", m)
		}
		check(t, o.s.holds.DropHolds(HoldRecord{Number: 1, Messages: []string{id}}))
		o.holds("queue/"+path, "transport/"+path)
	}
}

func TestReleaseOfWhatIsNotHeld(t *testing.T) {
	o := newTestSpool(t)
	o.put("F/F/258367", control("258367", toBob))
	o.mkdir("hold/transport/F/F")
	o.mkdir("hold/transport/A/I")
	o.open(Options{})
	before := o.files()
	for _, path := range []string{"258367", "F/F/258367", "A/I/7"} {
		if r := o.release(path); r.Err != nil || !r.Missing {
			t.Errorf("%q: %+v", path, r)
		}
	}
	o.holds(before...)
}

func TestReleaseOverwritesNothing(t *testing.T) {
	for _, taken := range [][]string{{"queue/7"}, {"queue/7", "transport/7"}} {
		o := newTestSpool(t)
		o.write("hold/queue/7", "message")
		o.write("hold/transport/7", control("7", toBob))
		for _, path := range taken {
			o.write(path, "another's")
		}
		o.open(Options{})
		before := o.files()
		if r := o.release("7"); r.Err == nil || r.Missing {
			t.Errorf("%s: %+v", taken, r)
		}
		o.holds(before...)
		for _, path := range taken {
			if o.read(path) != "another's" {
				t.Error("overwritten")
			}
		}
	}
}

// A crash between the two steps of a hold or a release: the message file comes back to its
// control file, and the record says where both are to be.
func TestInterruptedHoldAndRelease(t *testing.T) {
	for _, tt := range []struct{ load, control, message string }{
		{"hold/7", "hold/transport/7", "queue/7"},
		{"7", "transport/7", "hold/queue/7"},
	} {
		o := newTestSpool(t)
		o.open(Options{Unwatched: true})
		until[Swept](o)
		o.write(tt.control, control("7", toBob))
		o.write(tt.message, "message")
		if m := o.loaded(tt.load); len(m.Recipients) != 1 || m.UnderHold == (tt.load == "7") {
			t.Errorf("%+v", m)
		}
		if files := o.files(); len(files) != 2 || !slices.Contains(files, tt.control) || slices.Contains(files, tt.message) {
			t.Errorf("files %q", files)
		}
	}
}

// The outcomes of a held message are written where it lies, and there it ends.
func TestHeldMessageEnds(t *testing.T) {
	o := newTestSpool(t)
	text := control("7", toBob)
	o.write("hold/transport/7", text)
	o.write("hold/queue/7", "message")
	f, err := ctlfile.Parse([]byte(text))
	check(t, err)
	o.open(Options{})
	offset := f.Recipients[0].Offset
	o.s.Mark(5, "hold/7", []ctlfile.Mark{{Offset: offset, Tag: ctlfile.Failed, Diagnose: true, Notary: "\x03\x01failed\x015.0.0\x01\x01", Text: "given up"}})
	if r := answered[scheduler.Mark](o); r.Op != 5 || r.Err != nil || r.Missing {
		t.Fatalf("%+v", r)
	}
	f, err = ctlfile.Parse([]byte(o.read("hold/transport/7")))
	check(t, err)
	if f.Recipients[0].Tag != ctlfile.Failed || len(f.Diagnostics) != 1 {
		t.Errorf("%+v", f)
	}
	o.s.Finish(scheduler.Finish{Op: 6, Path: "hold/7"})
	if r := answered[*scheduler.Finish](o); r.Err != nil {
		t.Errorf("%+v", r)
	}
	o.holds()
}

// The next sweep notices that hold/ is gone, and nothing makes it again.
func TestSweepNoticesThatHoldIsRemoved(t *testing.T) {
	o := newTestSpool(t).open(Options{Unwatched: true})
	until[Swept](o)
	// The scheduler may be making a file there at the moment.
	peertest.Until(t, "hold is removed", func() bool { return os.RemoveAll(filepath.Join(o.dir, "hold")) == nil })
	o.s.Sweep()
	if w := answer[Warning](o); !strings.Contains(w.Text, "hold/transport") {
		t.Errorf("%q", w.Text)
	}
	if err := o.s.holds.RecordHold(HoldRecord{Messages: []string{"S1a"}}); !errors.Is(err, unix.ENOENT) {
		t.Errorf("a record of a hold: %v", err)
	}
	o.put("7", control("7", toBob))
	o.s.Hold(1, "7")
	if m := moved(o); !errors.Is(m.Err, unix.ENOENT) || m.Missing {
		t.Errorf("%+v", m)
	}
	o.holds("queue/7", "transport/7")
}
