package spool

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"zsched/ctlfile"
	"zsched/scheduler"
)

// Each test below makes the state that a crash between two steps leaves, and
// shows that reading the directories is enough to go on from there.

func TestCrashInHashMove(t *testing.T) {
	text := control("258367", toBob)
	for name, c := range map[string]struct{ control, message, want string }{
		"not begun":                  {"258367", "258367", "F/F/258367"},
		"between the files":          {"258367", "F/F/258367", "F/F/258367"},
		"the old program's order":    {"F/F/258367", "258367", "F/F/258367"},
		"levels were one":            {"F/258367", "F/258367", "F/258367"},
		"levels were one, half done": {"258367", "F/258367", "258367"},
		"somebody moved one":         {"F/258367", "F/F/258367", "F/258367"},
	} {
		o := newTestSpool(t)
		o.write("transport/"+c.control, text)
		o.write("queue/"+c.message, "message")
		m := o.open(Options{HashLevels: 2}).loaded(c.control)
		want := c.want
		if name == "levels were one, half done" {
			// The message comes back to the top, and both go from there.
			want = "F/F/258367"
		}
		if m.Name.Path != want || m.Size != 7 {
			t.Errorf("%s: %+v", name, m)
		}
		o.holds("queue/"+want, "transport/"+want)
		if c.control == c.message && want != c.control {
			for _, dir := range []string{"queue/F", "transport/F/F"} {
				st, err := os.Stat(filepath.Join(o.dir, dir))
				check(t, err)
				if st.Mode() != os.ModeDir|os.ModeSetgid|0o755 {
					t.Errorf("%s has mode %v", dir, st.Mode())
				}
			}
		}
	}
}

func TestHashMoveThatFailsIsUndone(t *testing.T) {
	o := newTestSpool(t)
	o.put("258367", control("258367", toBob))
	o.write("transport/F/F/258367", "another of this name")
	if m := o.open(Options{HashLevels: 2}).loaded("258367"); m.Name.Path != "258367" {
		t.Errorf("%+v", m)
	}
	o.holds("queue/258367", "transport/258367", "transport/F/F/258367")
}

// A message file that has its own control file beside it is not ours, though
// it has our name.
func TestTakeFollowsNobodyElsesMessage(t *testing.T) {
	o := newTestSpool(t)
	o.write("transport/258367", control("258367", toBob))
	o.put("F/F/258367", "another's")
	for _, place := range []string{"hold/", "corrupt/"} {
		o.write(place+"transport/258367", "another's")
		o.write(place+"queue/258367", "another's")
	}
	before := o.files()
	o.open(Options{HashLevels: 2}).refused("258367", Quarantined)
	for _, path := range before {
		if path != "transport/258367" && path != "corrupt/transport/258367" && o.read(path) == control("258367", toBob) {
			t.Errorf("%s was overwritten", path)
		}
	}
	if o.read("corrupt/transport/258367.1") != control("258367", toBob) {
		t.Error("it is not in quarantine")
	}
}

func TestCrashInHold(t *testing.T) {
	o := newTestSpool(t)
	o.write("transport/F/F/258367", control("258367", toBob))
	o.write("hold/queue/F/F/258367", "message")
	o.open(Options{}).loaded("F/F/258367") // its record says that it is to be held
	o.holds("queue/F/F/258367", "transport/F/F/258367")
}

func TestCrashInQuarantine(t *testing.T) {
	o := newTestSpool(t)
	o.write("transport/A/H/7", control("7", toBob))
	o.write("corrupt/queue/A/H/7", "message")
	o.open(Options{}).loaded("A/H/7")
	o.holds("queue/A/H/7", "transport/A/H/7")
}

// The same where the name was not free: the control file finds the message
// file that went before it.
func TestCrashInNumberedQuarantine(t *testing.T) {
	o := newTestSpool(t)
	o.write("corrupt/transport/7", "earlier")
	o.write("corrupt/queue/7", "earlier")
	o.write("transport/7", "garbage")
	o.write("corrupt/transport/7.1.reason", "because")
	o.write("corrupt/queue/7.1", "message")
	o.open(Options{}).refused("7", Quarantined)
	o.holds("corrupt/queue/7", "corrupt/queue/7.1",
		"corrupt/transport/7", "corrupt/transport/7.1", "corrupt/transport/7.1.reason")
}

func TestCrashInRelease(t *testing.T) {
	o := newTestSpool(t)
	o.write("queue/F/F/258367", "message")
	o.write("hold/transport/F/F/258367", control("258367", toBob))
	o.write("hold/transport/A/H/7", control("7", toBob))
	o.write("hold/queue/A/H/7", "held")
	// A router is at work on a message of this number.
	o.write("queue/A/I/8", "message")
	o.write("transport/A/I/.8", "in the making")
	o.write("hold/transport/A/I/8", control("8", toBob)) // whose message was lost
	o.open(Options{})
	o.loaded("hold/F/F/258367") // its record says that it was released
	o.refused("hold/A/I/8", Unreadable)
	o.holds("hold/queue/A/H/7", "hold/queue/F/F/258367", "hold/transport/A/H/7", "hold/transport/A/I/8",
		"hold/transport/F/F/258367", "queue/A/I/8", "transport/A/I/.8")
}

// A power cut can undo the removal of a control file without that of its message, and the
// number is given again. Neither a release nor a hold ends at such a file.
func TestControlFileWithoutItsMessageIsNotInTheWay(t *testing.T) {
	o := newTestSpool(t)
	o.write("hold/transport/A/H/7", control("7", toBob))
	o.write("hold/queue/A/H/7", "held")
	o.write("transport/A/H/7", control("7", "left over"))
	o.put("A/I/8", control("8", toBob))
	o.write("hold/transport/A/I/8", control("8", "left over"))
	o.open(Options{Unwatched: true})
	if r := o.release("A/H/7"); r.Err != nil || r.Missing {
		t.Errorf("release: %+v", r)
	}
	o.s.Hold(6, "A/I/8")
	if r := moved(o); r.Err != nil || r.Missing {
		t.Errorf("hold: %+v", r)
	}
	o.holds("corrupt/transport/A/H/7", "corrupt/transport/A/H/7.reason", "corrupt/transport/A/I/8",
		"corrupt/transport/A/I/8.reason", "hold/queue/A/I/8", "hold/transport/A/I/8", "queue/A/H/7", "transport/A/H/7")
	if o.read("transport/A/H/7") != control("7", toBob) {
		t.Error("the held message was not released")
	}
}

func TestCrashInFinish(t *testing.T) {
	day := 24*time.Hour + time.Minute
	o := newTestSpool(t)
	o.write("queue/F/F/258367", "its control file was unlinked")
	o.put("A/H/7", "a control file is beside it")
	o.write("queue/A/I/8", "the router is at work")
	o.write("transport/A/I/.8", "")
	o.write("queue/9", "a hash move was cut")
	o.write("transport/A/J/9", "")
	o.write("queue/10", "another of this name is held")
	o.write("hold/queue/10", "")
	o.write("hold/transport/10", "")
	o.write("queue/notes", "not ours")
	o.write("hold/queue/A/L/11", "its removal was cut while it was held")
	o.mkdir("transport/F/F")
	o.mkdir("hold/transport/A/L")
	o.write("hold/queue/A/M/12", "its move from the queue was cut")
	o.write("transport/A/M/12", "")
	o.open(Options{})
	before := o.files()

	// ctime cannot be set, so that the time of looking is.
	tomorrow := time.Now().Add(day)
	o.s.janitor.pass(time.Now())
	if got := o.s.janitor.suspects; len(got) != 0 {
		t.Fatalf("orphans of today: %v", got)
	}
	o.write("transport/.router/258367", "") // our router's, before it is started again
	o.s.janitor.pass(tomorrow)
	if got := o.s.janitor.suspects; len(got) != 0 {
		t.Fatalf("orphans although the router has staged something: %v", got)
	}
	if err := os.RemoveAll(filepath.Join(o.dir, "transport/.router")); err != nil {
		t.Fatal(err)
	}
	o.s.janitor.pass(tomorrow)
	if got := o.s.janitor.suspects; len(got) != 2 || !got["F/F/258367"] || !got["hold/A/L/11"] {
		t.Fatalf("orphans %v", got)
	}
	o.holds(before...)
	o.s.janitor.pass(time.Now()) // it is none at the second look
	o.holds(before...)
	for range 2 {
		o.s.janitor.pass(tomorrow)
	}
	if o.read("corrupt/queue/F/F/258367") != "its control file was unlinked" {
		t.Error("it is another file")
	}
	if o.read("corrupt/queue/A/L/11") != "its removal was cut while it was held" {
		t.Error("it is another file")
	}
	if o.read("corrupt/transport/F/F/258367.reason") == "" || o.read("corrupt/transport/A/L/11.reason") == "" {
		t.Error("no reason")
	}
	o.write("queue/F/F/258367", "another")
	for range 2 {
		o.s.janitor.pass(tomorrow)
	}
	if o.read("corrupt/queue/F/F/258367.1") != "another" {
		t.Error("the second has no name of its own")
	}
}

// The d line is on disk, the tag is not.
func TestCrashInMark(t *testing.T) {
	text := control("7", toBob, toCarol)
	at := offset(t, text, "bob@b")
	o := newTestSpool(t)
	o.put("7", text+diagnose(at, "bob@b.example", "failed"))
	o.open(Options{})
	o.s.Mark(1, "7", []ctlfile.Mark{{Offset: at, Tag: '-', Diagnose: true, Notary: "\x03\x01failed\x015.4.7"}})
	if r := answered[scheduler.Mark](o); r.Err != nil {
		t.Fatal(r.Err)
	}
	want := text[:at+1] + "-" + text[at+2:] + diagnose(at, "bob@b.example", "failed")
	if got := o.read("transport/7"); got != want {
		t.Errorf("the file is\n%s, want\n%s", got, want)
	}
}
