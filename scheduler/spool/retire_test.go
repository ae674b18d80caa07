package spool

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"zsched/scheduler"
)

func (o *testSpool) finished(path string, owes bool) Answered {
	o.t.Helper()
	o.s.Finish(scheduler.Finish{Op: 9, Path: path, Owes: owes})
	r := answered[*scheduler.Finish](o)
	if r.Op != 9 {
		o.t.Fatalf("%+v", r)
	}
	return r
}

func TestFinish(t *testing.T) {
	done := strings.Replace(toBob, "r ", "r-", 1)
	failure := func(lines ...string) string {
		text := control("7", lines...)
		return text + diagnose(offset(t, text, "@b.example"), "bob@b.example", "failed")
	}
	for name, c := range map[string]struct {
		text string
		owes bool
		kept bool // in corrupt/, because nobody writes the notice
	}{
		"plain":                {control("7", done), false, false},
		"owes, a delay":        {control("7", done, "N NOTIFY=DELAY"), true, false},
		"owes":                 {failure(done), true, true},
		"owes is not set":      {failure(done), false, false},
		"told":                 {strings.Replace(failure(done), "\nd ", "\nd+", 1), true, false},
		"never":                {failure(done, "N NOTIFY=NEVER"), true, false},
		"to nobody":            {strings.Replace(failure(done), "s local", "s error", 1), true, false},
		"agent has yet to tag": {failure(locked(4711)), true, true},
		"alternative delivered": {strings.Replace(failure("X-          1 smtp b.example b@b.example 1",
			"X+          1 smtp c.example c@c.example 1"), "\nd ", "\nd+", 1), true, false},
	} {
		o := newTestSpool(t)
		o.put("A/H/7", c.text)
		r := o.open(Options{}).finished("A/H/7", c.owes)
		if r.Err != nil {
			t.Errorf("%s: %+v", name, r)
		}
		if !c.kept {
			o.holds()
			continue
		}
		o.holds("corrupt/queue/A/H/7", "corrupt/transport/A/H/7", "corrupt/transport/A/H/7.reason")
		if o.read("corrupt/transport/A/H/7") != c.text {
			t.Errorf("%s: the file was changed", name)
		}
	}
}

func TestFinishRefusesAnOpenRecipient(t *testing.T) {
	o := newTestSpool(t)
	o.put("7", control("7", toBob))
	if r := o.open(Options{}).finished("7", true); r.Err != nil || !r.Missing {
		t.Errorf("%+v", r)
	}
	o.holds("queue/7", "transport/7")
}

func TestFinishWhatIsGone(t *testing.T) {
	for _, owes := range []bool{false, true} {
		o := newTestSpool(t)
		o.write("queue/7", "message")
		if r := o.open(Options{}).finished("7", owes); r.Err != nil {
			t.Errorf("%+v", r)
		}
		o.holds()
		if r := o.finished("7", owes); r.Err != nil {
			t.Errorf("%+v", r)
		}
	}
}

func TestFinishQuarantines(t *testing.T) {
	o := newTestSpool(t)
	o.put("7", "garbage")
	o.open(Options{})
	if r := o.finished("7", true); r.Err != nil {
		t.Errorf("%+v", r)
	}
	o.holds("corrupt/queue/7", "corrupt/transport/7", "corrupt/transport/7.reason")
}

// The control file goes first: were the message file to go and this stay, a
// restart would take the message for lost.
func TestFinishThatFailsLeavesBoth(t *testing.T) {
	restricted(t)
	o := newTestSpool(t)
	o.put("7", control("7", toBob))
	o.open(Options{})
	check(t, os.Chmod(filepath.Join(o.dir, "transport"), 0o555))
	r := o.finished("7", false)
	check(t, os.Chmod(filepath.Join(o.dir, "transport"), 0o755))
	if r.Err == nil {
		t.Error("no error")
	}
	o.holds("queue/7", "transport/7")
	if r := o.finished("7", false); r.Err != nil {
		t.Errorf("%+v", r)
	}
	o.holds()
}

func TestMoveTwice(t *testing.T) {
	o := newTestSpool(t)
	o.put("7", control("7", toBob))
	o.open(Options{})
	o.s.Hold(1, "7")
	o.s.Hold(2, "7")
	if r := moved(o); r.Err != nil || r.Missing {
		t.Errorf("%+v", r)
	}
	if r := moved(o); r.Err != nil || !r.Missing {
		t.Errorf("%+v", r)
	}
	o.holds("hold/queue/7", "hold/transport/7")
}

// A move that was cut is finished by asking again.
func TestMoveAgain(t *testing.T) {
	o := newTestSpool(t)
	o.write("transport/7", control("7", toBob))
	o.write("hold/queue/7", "message")
	o.open(Options{})
	o.s.Hold(1, "7")
	if r := moved(o); r.Err != nil || r.Missing {
		t.Errorf("%+v", r)
	}
	o.holds("hold/queue/7", "hold/transport/7")
}

func TestMoveOverwritesNothing(t *testing.T) {
	o := newTestSpool(t)
	o.put("7", control("7", toBob))
	o.write("hold/queue/7", "another's")
	o.open(Options{})
	o.s.Hold(1, "7")
	if r := moved(o); r.Err == nil {
		t.Errorf("%+v", r)
	}
	o.holds("hold/queue/7", "queue/7", "transport/7")
	if o.read("hold/queue/7") != "another's" {
		t.Error("overwritten")
	}
}
