package spool

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zsched/ctlfile"
	"zsched/queue"
	"zsched/scheduler"
)

// Hash directories that are away for some time, and come back with their files.

// substitute is what is at the name of a directory that is away.
type substitute string

const (
	nothing   substitute = "nothing"
	file      substitute = "a file"
	directory substitute = "the directories made anew, as new mail makes them"
)

// away moves a directory of the spool away and puts a substitute at its name. back brings it back.
func (o *testSpool) away(dir string, in substitute) (back func()) {
	o.t.Helper()
	path, aside := filepath.Join(o.dir, dir), filepath.Join(o.dir, "aside")
	check(o.t, os.Rename(path, aside))
	switch in {
	case file:
		check(o.t, os.WriteFile(path, nil, 0o644))
	case directory:
		check(o.t, os.CopyFS(path, emptied{os.DirFS(aside)}))
	}
	return func() {
		o.t.Helper()
		check(o.t, os.RemoveAll(path))
		check(o.t, os.Rename(aside, path))
	}
}

// emptied is a file system without its files.
type emptied struct{ fs.FS }

func (e emptied) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(e.FS, name)
	return slices.DeleteFunc(entries, func(entry fs.DirEntry) bool { return !entry.IsDir() }), err
}

// Each action on the message of a hash directory that is away fails and changes nothing. When the
// directory is back, it is carried out.
func TestActionsWaitForAHashDirectoryThatIsAway(t *testing.T) {
	open := control("7", toBob)
	bob := offset(t, open, "@b.example")
	done := strings.Replace(open, "r ", "r-", 1)
	failed := done + diagnose(bob, "bob@b.example", "failed")
	for name, c := range map[string]struct {
		path, text string
		do         scheduler.Action
		want       string // the files afterwards
	}{
		"mark":     {"A/H/7", open, scheduler.Mark{Path: "A/H/7", Marks: []ctlfile.Mark{{Offset: bob, Tag: ctlfile.Delivered}}}, "queue/A/H/7 transport/A/H/7"},
		"read":     {"A/H/7", open, scheduler.Read{Path: "A/H/7"}, "queue/A/H/7 transport/A/H/7"},
		"report":   {"A/H/7", failed, scheduler.Report{Path: "A/H/7"}, "queue/A/H/7 router/notice transport/A/H/7"},
		"finish":   {"A/H/7", done, &scheduler.Finish{Path: "A/H/7"}, ""},
		"untagged": {"A/H/7", open, &scheduler.Finish{Path: "A/H/7", Untagged: bob, Tag: ctlfile.Delivered}, ""},
		"owes":     {"A/H/7", failed, &scheduler.Finish{Path: "A/H/7", Owes: true}, "router/notice"},
		"hold":     {"A/H/7", open, scheduler.Hold{Path: "A/H/7"}, "hold/queue/A/H/7 hold/transport/A/H/7"},
		"release":  {"hold/A/H/7", open, scheduler.Release{Path: "A/H/7"}, "queue/A/H/7 transport/A/H/7"},
		"reroute":  {"A/H/7", open, scheduler.Resubmit{Path: "A/H/7", Channel: "x", Host: "y"}, "queue/COPY queue/A/H/7 transport/COPY transport/A/H/7"},
		"held": {"hold/A/H/7", open, scheduler.Mark{Path: "hold/A/H/7", Marks: []ctlfile.Mark{{Offset: bob, Tag: ctlfile.Delivered}}},
			"hold/queue/A/H/7 hold/transport/A/H/7"},
		"held and finished": {"hold/A/H/7", failed, &scheduler.Finish{Path: "hold/A/H/7", Owes: true}, "router/notice"},
	} {
		for _, in := range []substitute{nothing, file, directory} {
			o := newTestSpool(t)
			place, path := placeOf(c.path)
			control, message := place.dir()+"transport/"+path, place.dir()+"queue/"+path
			o.write(control, c.text)
			o.write(message, "Subject: x\n\nbody\n")
			o.open(Options{Unwatched: true, Reporter: noticeFile{o.dir}})
			o.loaded(c.path)
			text := o.read(control)
			back := o.away(place.dir()+"transport/A", in)
			o.s.Do(c.do)
			if r := answer[Answered](o); r.Err == nil || r.Missing || IsDown(r.Err) {
				t.Errorf("%s, %s in its place: missing %v, %v; want a failure", name, in, r.Missing, r.Err)
			}
			back()
			if o.read(control) != text || o.read(message) == "" || len(o.files()) != 2 {
				t.Errorf("%s, %s in its place: files are %q", name, in, o.files())
			}
			o.s.Do(c.do)
			r := answer[Answered](o)
			got := strings.Join(o.files(), " ")
			if r.Name.Path != "" {
				got = strings.ReplaceAll(got, "/"+r.Name.Path, "/COPY")
			}
			if r.Err != nil || r.Missing || got != c.want {
				t.Errorf("%s, %s in its place: missing %v, %v; files are %q, want %q", name, in, r.Missing, r.Err, got, c.want)
			}
		}
	}
}

// noticeFile writes notices into router/notice.
type noticeFile struct{ dir string }

func (w noticeFile) Report(*Owed) (string, error) {
	path := filepath.Join(w.dir, "router/notice")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return "router/notice", os.WriteFile(path, nil, 0o644)
}
func (noticeFile) AnswersNullSender() bool { return false }

// A new directory in the place of another one is the only one after an hour, so that files which
// have been removed there do not wait for ever.
func TestDirectoryInPlaceOfAnotherIsTheOnlyOneAfterAnHour(t *testing.T) {
	o := newTestSpool(t)
	text := control("7", strings.Replace(toBob, "r ", "r-", 1))
	o.put("A/H/7", text)
	o.open(Options{Unwatched: true})
	now := time.Minute
	o.s.places.found.now = func() time.Duration { return now }
	o.loaded("A/H/7")
	o.away("transport/A", directory)
	for range 2 {
		if r := o.finished("A/H/7", false); r.Err == nil {
			t.Errorf("after %v: %+v, want a failure", now, r)
		}
		now += queue.AwayTime - time.Second
	}
	now += 2 * time.Second
	if r := o.finished("A/H/7", false); r.Err != nil {
		t.Errorf("after %v: %v", now, r.Err)
	}
	o.holds("aside/H/7")
}

// A name in a directory that is away is read again later. If only the file is gone, or if a new
// directory is in place of the one that is away, it is not: a sweep finds it.
func TestNameWaitsForAHashDirectoryThatIsAway(t *testing.T) {
	o := newTestSpool(t)
	o.put("A/H/7", control("7", toBob))
	o.put("8", control("8", toBob))
	o.open(Options{Unwatched: true})
	o.loaded("A/H/7")
	back := o.away("transport/A/H", nothing)
	o.refused("A/H/7", Unreadable)
	back()
	o.loaded("A/H/7")
	back = o.away("transport/A/H", directory)
	o.refused("A/H/7", Vanished)
	back()
	o.loaded("A/H/7")
	check(t, os.Remove(filepath.Join(o.dir, "transport/A/H/7")))
	o.refused("A/H/7", Vanished)
	check(t, os.Remove(filepath.Join(o.dir, "transport/8")))
	o.refused("8", Vanished)
}

// A start does not know the directory of the message file that is away then: the one that new mail makes in
// its place is another one.
func TestStartWithoutAHashDirectoryWaitsForIt(t *testing.T) {
	o := newTestSpool(t)
	o.put("A/H/7", control("7", toBob))
	back := o.away("queue/A", nothing)
	o.open(Options{Unwatched: true})
	o.refused("A/H/7", Unreadable)
	o.mkdir("queue/A/H")
	o.refused("A/H/7", Vanished)
	back()
	o.loaded("A/H/7")
}

// So the sender gets the message back with the notice, and the message file is removed.
func TestNoticeWaitsForTheDirectoryOfTheMessageFile(t *testing.T) {
	o := newTestSpool(t)
	text := control("7", strings.Replace(toBob, "r ", "r-", 1))
	o.put("A/H/7", text+diagnose(offset(t, text, "@b.example"), "bob@b.example", "failed"))
	o.open(Options{Unwatched: true, Reporter: noticeFile{o.dir}})
	o.loaded("A/H/7")
	back := o.away("queue/A", directory)
	if r := o.finished("A/H/7", true); r.Err == nil || r.Notice != "" {
		t.Errorf("%+v, want a failure", r)
	}
	back()
	o.holds("queue/A/H/7", "transport/A/H/7")
	if r := o.finished("A/H/7", true); r.Err != nil || r.Notice == "" {
		t.Errorf("%+v", r)
	}
	o.holds("router/notice")
}

// A message file without a control file beside it is none of those that a crash has left while
// the directory of the control file is away.
func TestJanitorWaitsForAHashDirectoryThatIsAway(t *testing.T) {
	o := newTestSpool(t)
	o.put("A/H/7", control("7", toBob))
	o.open(Options{Unwatched: true})
	o.loaded("A/H/7")
	later := time.Now().Add(2 * orphanAge)
	back := o.away("transport/A", directory)
	for range 2 {
		o.s.janitor.pass(later)
	}
	back()
	o.holds("queue/A/H/7", "transport/A/H/7")
	check(t, os.Remove(filepath.Join(o.dir, "transport/A/H/7")))
	for range 2 {
		o.s.janitor.pass(later)
	}
	o.holds("corrupt/queue/A/H/7", "corrupt/transport/A/H/7.reason")
}
