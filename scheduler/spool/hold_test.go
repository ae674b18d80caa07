package spool

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zsched/ctlfile"
	"zsched/internal/testing/peertest"
)

func (o *testSpool) release(id string) Released {
	o.t.Helper()
	o.s.Release(5, id)
	r := answer[Released](o)
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

// A message that was held and released, by whatever name, is taken again.
func TestHoldAndRelease(t *testing.T) {
	for _, path := range []string{"258367", "H/258367", "S/258367", "F/F/258367", "S/Y/258367", "X/Y/258367-7"} {
		o := newTestSpool(t)
		_, base := split(path)
		text := control(base, toBob)
		o.put(path, text)
		o.open(Options{})
		for _, id := range []string{path, "258367", o.spoolID("queue/" + path)} {
			o.s.Hold(4, path)
			if r := answer[Moved](o); r.Op != 4 || r.Err != nil || r.Missing {
				t.Fatalf("%+v", r)
			}
			o.holds("hold/queue/"+path, "hold/transport/"+path)
			r := o.release(id)
			if r.Err != nil || r.Missing || r.Name != (Name{path, 258367}) {
				t.Fatalf("%s: %+v", id, r)
			}
			o.holds("queue/"+path, "transport/"+path)
			if m := o.loaded(r.Name.Path); len(m.Recipients) != 1 {
				t.Errorf("%+v", m)
			}
		}
	}
}

func TestReleaseOfWhatIsNotHeld(t *testing.T) {
	o := newTestSpool(t)
	o.put("F/F/258367", control("258367", toBob))
	o.write("hold/transport/A/H/7", control("7", toBob))
	o.write("hold/queue/A/H/7", "message")
	o.open(Options{})
	before := o.files()
	for _, id := range []string{"258367", "F/F/258367", "7x", "A/I/7", "S7AbTCLWiT", "", "S", "0", "../7", "a/7", "A/H/"} {
		if r := o.release(id); r.Err != nil || !r.Missing || r.Name.ID != 0 {
			t.Errorf("%q: %+v", id, r)
		}
	}
	o.holds(before...)
}

func TestReleaseOverwritesNothing(t *testing.T) {
	for _, taken := range []string{"queue/7", "transport/7"} {
		o := newTestSpool(t)
		o.write("hold/queue/7", "message")
		o.write("hold/transport/7", control("7", toBob))
		o.write(taken, "another's")
		o.open(Options{})
		before := o.files()
		if r := o.release("7"); r.Err == nil || r.Missing {
			t.Errorf("%s: %+v", taken, r)
		}
		o.holds(before...)
		if o.read(taken) != "another's" {
			t.Error("overwritten")
		}
	}
}

// The message file went, its control file did not: it is what a crash leaves,
// and asking again finishes it, unless the spool was quicker.
func TestReleaseAgain(t *testing.T) {
	o := newTestSpool(t)
	o.open(Options{})
	o.write("hold/transport/7", control("7", toBob))
	o.write("queue/7", "message")
	if r := o.release("7"); r.Err != nil {
		t.Errorf("%+v", r)
	}
	o.holds("queue/7", "transport/7")
}

// A held message that is to end is not in the queue before that is written.
func TestHeldMessageEndsBeforeItIsReleased(t *testing.T) {
	o := newTestSpool(t)
	text := control("7", toBob)
	o.write("hold/transport/7", text)
	o.write("hold/queue/7", "message")
	f, err := ctlfile.Parse([]byte(text))
	check(t, err)
	end := []ctlfile.Mark{{Offset: f.Recipients[0].Offset, Tag: ctlfile.Failed, Diagnose: true, Notary: "\x03\x01failed\x015.0.0\x01\x01", Text: "given up"}}
	// In the way of the release: it stays, and what was written with it.
	o.write("queue/7", "another's")
	o.open(Options{})
	o.s.EndHeld(5, "7", end)
	if r := answer[Released](o); r.Op != 5 || r.Err == nil {
		t.Fatalf("%+v", r)
	}
	f, err = ctlfile.Parse([]byte(o.read("hold/transport/7")))
	check(t, err)
	if f.Recipients[0].Tag != ctlfile.Failed || len(f.Diagnostics) != 1 {
		t.Errorf("%+v", f)
	}
	check(t, os.Remove(filepath.Join(o.dir, "queue/7")))
	o.s.EndHeld(6, "7", end)
	if r := answer[Released](o); r.Err != nil || r.Name != (Name{"7", 7}) {
		t.Fatalf("%+v", r)
	}
	o.holds("queue/7", "transport/7")
	f, err = ctlfile.Parse([]byte(o.read("transport/7")))
	check(t, err)
	if len(f.Diagnostics) != 1 {
		t.Errorf("written twice: %+v", f.Diagnostics)
	}
	o.s.EndHeld(7, "7", end)
	if r := answer[Released](o); !r.Missing {
		t.Errorf("%+v", r)
	}
}

// A crash may bring a held message back that was sent elsewhere, with the d line that says
// so and without the tag. An order that ends it tells the sender nothing.
func TestHeldMessageThatIsDoneDoesNotEndAgain(t *testing.T) {
	o := newTestSpool(t)
	text := control("7", toBob)
	f, err := ctlfile.Parse([]byte(text))
	check(t, err)
	offset := f.Recipients[0].Offset
	text += fmt.Sprintf("d+%d:-1:-1::1700000000\tbob@b.example\x01delivered\x01\x01\x01\tnobody is to be told\n", offset)
	o.write("hold/transport/7", text)
	o.write("hold/queue/7", "message")
	o.open(Options{})
	o.s.EndHeld(5, "7", []ctlfile.Mark{{Offset: offset, Tag: ctlfile.Failed, Diagnose: true, Notary: "\x03\x01failed\x015.0.0\x01\x01", Text: "given up"}})
	if r := answer[Released](o); r.Err != nil || r.Name != (Name{"7", 7}) {
		t.Fatalf("%+v", r)
	}
	f, err = ctlfile.Parse([]byte(o.read("transport/7")))
	check(t, err)
	if f.Recipients[0].Tag != ctlfile.Delivered || len(f.Diagnostics) != 1 {
		t.Errorf("tag %q, %+v", f.Recipients[0].Tag, f.Diagnostics)
	}
}

// A directory that somebody removes while the scheduler runs is made when it is needed.
func TestHoldThatIsRemovedIsMadeAgain(t *testing.T) {
	o := newTestSpool(t)
	o.put("7", control("7", toBob))
	o.open(Options{Unwatched: true})
	o.loaded("7")
	remove := func() {
		// The scheduler may be making a file there at the moment.
		peertest.Until(t, "hold is removed", func() bool { return os.RemoveAll(filepath.Join(o.dir, "hold")) == nil })
	}
	warned := func() {
		t.Helper()
		if w := answer[Warning](o); !strings.Contains(w.Text, "hold/transport and hold/queue were removed or replaced") {
			t.Errorf("%q", w.Text)
		}
	}
	remove()
	if c, err := o.s.Count(t.Context(), Hold); c.Messages != 0 || err != nil {
		t.Errorf("%d messages, %v", c.Messages, err)
	}
	warned()
	remove()
	if err := o.s.RecordHold(HoldRecord{}); err != nil {
		t.Error(err)
	}
	warned()
	remove()
	o.s.Hold(1, "7")
	warned()
	if m := answer[Moved](o); m.Err != nil || m.Missing {
		t.Errorf("%+v", m)
	}
	o.read("hold/queue/7")
	// Somebody puts the directory back from elsewhere.
	check(t, os.Rename(filepath.Join(o.dir, "hold"), filepath.Join(o.dir, "aside")))
	o.mkdir("hold/transport")
	o.mkdir("hold/queue")
	for _, file := range []string{"transport/7", "queue/7"} {
		check(t, os.Rename(filepath.Join(o.dir, "aside", file), filepath.Join(o.dir, "hold", file)))
	}
	o.s.Release(2, "7")
	warned()
	if r := answer[Released](o); r.Missing || r.Err != nil {
		t.Errorf("%+v", r)
	}
}

// The next sweep notices that hold/ is gone, so that what the scheduler knows is recorded
// again without an order.
func TestSweepNoticesThatHoldIsRemoved(t *testing.T) {
	o := newTestSpool(t).open(Options{Unwatched: true})
	until[Swept](o)
	for _, again := range []bool{false, true} {
		check(t, os.RemoveAll(filepath.Join(o.dir, "hold")))
		if again {
			o.mkdir("hold/transport")
			o.mkdir("hold/queue")
		}
		o.s.Sweep()
		answer[HoldReplaced](o)
		_, err := os.Stat(filepath.Join(o.dir, "hold/transport"))
		check(t, err)
	}
}
