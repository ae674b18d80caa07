package spool

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/scheduler"
)

// marked marks and fails the test when that fails.
func (o *testSpool) marked(path string, marks ...ctlfile.Mark) Answered {
	o.t.Helper()
	o.s.Mark(9, path, marks)
	r := answered[scheduler.Mark](o)
	if r.Op != 9 || r.Err != nil {
		o.t.Fatalf("marking %s: %+v", path, r)
	}
	return r
}

// tags are those of the r and X lines, in file order.
func (o *testSpool) tags(path string) string {
	o.t.Helper()
	f, err := ctlfile.Parse([]byte(o.read(path)))
	check(o.t, err)
	tags := ""
	for i := range f.Recipients {
		tags += string(f.Recipients[i].Tag)
	}
	return tags
}

// lines are the d lines of a file, with their times taken out.
func (o *testSpool) lines(path string) []string {
	o.t.Helper()
	text := regexp.MustCompile(`::\d+\t`).ReplaceAllString(o.read(path), "::T\t")
	return regexp.MustCompile(`(?m)^d.*$`).FindAllString(text, -1)
}

func TestMarkTags(t *testing.T) {
	text := control("7", toBob, toCarol, "N NOTIFY=NEVER", locked(ctlfile.MaxPID))
	o := newTestSpool(t)
	o.put("7", text)
	o.open(Options{})
	o.marked("7",
		ctlfile.Mark{Offset: offset(t, text, "bob@b"), Tag: ctlfile.Delivered},
		ctlfile.Mark{Offset: offset(t, text, "carol"), Tag: ctlfile.Failed},
		ctlfile.Mark{Offset: offset(t, text, "r~"), Tag: ctlfile.Delivered})
	want := strings.NewReplacer(
		toBob, strings.Replace(toBob, "r ", "r+", 1),
		toCarol, strings.Replace(toCarol, "r ", "r-", 1),
		"r~999999", "r+      ").Replace(text)
	if got := o.read("transport/7"); got != want {
		t.Errorf("the file is\n%s, want\n%s", got, want)
	}
}

// What an agent marks itself gets its d line and keeps its lock: the agent
// reports first and tags after. The line says how it ended though the agent's
// notary does not.
func TestMarkLeavesTheAgentsTag(t *testing.T) {
	text := control("7", toBob, locked(ctlfile.MaxPID))
	o := newTestSpool(t)
	o.put("7", text)
	o.open(Options{})
	at := offset(t, text, "r~")
	for range 2 { // once more changes nothing
		o.marked("7", ctlfile.Mark{Offset: at, Tag: ctlfile.Delivered, LeaveTag: true, Diagnose: true, Notary: "\x01\x01\x01\x01", Text: "fake"})
	}
	if got := o.tags("transport/7"); got != " ~" {
		t.Errorf("the tags are %q", got)
	}
	lines := o.lines("transport/7")
	if len(lines) != 1 || !strings.Contains(lines[0], "\x01delivered\x01") {
		t.Errorf("the d lines are %q", lines)
	}
}

// The d line is the old program's, but for the N line's offset, which is that
// of the letter as agents write it, and an expiry is always a failure.
func TestMarkDiagnoses(t *testing.T) {
	text := control("7", toBob, "N NOTIFY=FAILURE", toCarol)
	o := newTestSpool(t)
	o.put("7", text)
	o.open(Options{})
	bob, carol := offset(t, text, "bob@b"), offset(t, text, "carol")
	marks := []ctlfile.Mark{
		{Offset: bob, Tag: ctlfile.Failed, Diagnose: true, Notary: "\x03\x01delayed\x014.4.7\x01smtp; 450\x01", Text: "\rexpired after 3 days", TriedAt: time.Unix(1790000000, 0)},
		{Offset: carol, Tag: ctlfile.Delivered, Diagnose: true, Notary: "carol@home\x01relayed\x012.0.0", Text: "two\nlines"},
	}
	o.marked("7", marks...)
	header, n := offset(t, text, "Subject"), offset(t, text, "NOTIFY")
	want := []string{
		fmt.Sprintf("d %d:%d:%d::T\tbob@b.example\x01failed\x014.4.7\x01smtp; 450\x01\t\rexpired after 3 days", bob, header, n),
		fmt.Sprintf("d %d:%d:-1::T\tcarol@home\x01relayed\x012.0.0\ttwo\rlines", carol, header),
	}
	if got := o.lines("transport/7"); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("lines\n%q, want\n%q", got, want)
	}
	// Again, as after a failure or a crash, it changes nothing.
	before := o.read("transport/7")
	for _, time := range []string{"::1790000000\tbob@b", "::0\tcarol@home"} {
		if !strings.Contains(before, time) {
			t.Errorf("there is no %q in\n%s", time, before)
		}
	}
	o.marked("7", marks...)
	if o.read("transport/7") != before {
		t.Error("done twice")
	}
}

// A d line without an action that fits the tag would not be believed by a
// restart, nor be reported.
func TestMarkMakesActionFitTag(t *testing.T) {
	for _, c := range []struct {
		tag          ctlfile.Tag
		notary, want string
	}{
		{ctlfile.Failed, "", "bob@b.example\x01failed"},
		{ctlfile.Failed, "x", "x\x01failed"},
		{ctlfile.Failed, "x\x01*SW-ERROR*not-act-rc=64*\x015.0.0", "x\x01failed\x015.0.0"},
		{ctlfile.Failed, "x\x01failed\x015.0.0\x01\x01\x01smtp[1]", "x\x01failed\x015.0.0\x01\x01\x01smtp[1]"},
		{ctlfile.Delivered, "x\x01failed", "x\x01delivered"},
		{ctlfile.Delivered, "\x01expanded", "bob@b.example\x01expanded"},
		{ctlfile.Open, "\x01delayed\x014.4.7", "bob@b.example\x01delayed\x014.4.7"},
	} {
		r := &ctlfile.Recipient{Address: ctlfile.Address{User: "bob@b.example"}}
		if got := notary(r, ctlfile.Mark{Tag: c.tag, Notary: c.notary}); got != c.want {
			t.Errorf("%q with tag %c: %q, want %q", c.notary, c.tag, got, c.want)
		}
	}
}

// A delay changes no tag, and is written again only after the first was reported.
func TestMarkDelay(t *testing.T) {
	text := control("7", toBob)
	o := newTestSpool(t)
	o.put("7", text)
	o.open(Options{})
	m := ctlfile.Mark{Offset: offset(t, text, "bob@b"), Tag: ctlfile.Open, Diagnose: true, Notary: "\x01delayed\x014.4.7"}
	o.marked("7", m)
	o.marked("7", m)
	if n := len(o.lines("transport/7")); n != 1 || o.tags("transport/7") != " " {
		t.Errorf("%d lines, tags %q", n, o.tags("transport/7"))
	}
	o.write("transport/7", strings.Replace(o.read("transport/7"), "\nd ", "\nd+", 1))
	o.marked("7", m)
	if n := len(o.lines("transport/7")); n != 2 {
		t.Errorf("%d lines", n)
	}
}

// An agent that marks, such as ZMailer's, has tagged a recipient whose success the next host reports.
// The sender is not told that its details are lost.
func TestMarkOfATaggedRecipientOwesNothing(t *testing.T) {
	text := control("7", strings.Replace(toBob, "r ", "r+", 1), "N NOTIFY=SUCCESS", toCarol)
	o := newTestSpool(t)
	o.put("7", text)
	o.open(Options{})
	o.marked("7", ctlfile.Mark{Offset: offset(t, text, "bob@b"), Tag: ctlfile.Delivered, Notary: "\x03\x01relayed"})
	added := strings.TrimPrefix(o.read("transport/7"), text)
	if !strings.HasPrefix(added, "d+") || strings.Count(added, "\n") != 1 || o.tags("transport/7") != "+ " {
		t.Errorf("tags %q, added %q", o.tags("transport/7"), added)
	}
}

// What the file says about a recipient that is done is the truth.
func TestMarkLeavesWhatIsDone(t *testing.T) {
	text := control("7", strings.Replace(toBob, "r ", "r+", 1), strings.Replace(toCarol, "r ", "r-", 1))
	bob, carol := offset(t, text, "bob@b"), offset(t, text, "carol")
	o := newTestSpool(t)
	o.put("7", text)
	o.open(Options{})
	o.marked("7",
		ctlfile.Mark{Offset: bob, Tag: ctlfile.Failed, Diagnose: true, Notary: "\x01failed"},
		ctlfile.Mark{Offset: carol, Tag: ctlfile.Delivered},
		ctlfile.Mark{Offset: bob + 1, Tag: ctlfile.Delivered, Diagnose: true})
	if o.read("transport/7") != text {
		t.Errorf("the file is\n%s", o.read("transport/7"))
	}
	// The agent tags and leaves the d line to us.
	o.marked("7", ctlfile.Mark{Offset: carol, Tag: ctlfile.Failed, Diagnose: true, Notary: "\x01failed"})
	if len(o.lines("transport/7")) != 1 {
		t.Errorf("the file is\n%s", o.read("transport/7"))
	}
}

func TestMarkOneAlternativeDelivered(t *testing.T) {
	text := control("7",
		"X           1 smtp a.example a@a.example 1",
		"X           1 smtp b.example b@b.example 1",
		"X           1 smtp c.example c@c.example 1",
		"X           2 smtp d.example d@d.example 1")
	mark := func(user string, tag ctlfile.Tag) ctlfile.Mark {
		return ctlfile.Mark{Offset: offset(t, text, user), Tag: tag, Diagnose: tag == ctlfile.Failed, Notary: "\x01failed\x015.1.1"}
	}
	for name, steps := range map[string][][]ctlfile.Mark{
		"one by one": {{mark("a@a", '-')}, {mark("b@b", '+')}},
		"at once":    {{mark("b@b", '+'), mark("a@a", '-')}},
	} {
		o := newTestSpool(t)
		o.put("7", text)
		o.open(Options{})
		for _, marks := range steps {
			o.marked("7", marks...)
		}
		if tags := o.tags("transport/7"); tags != "-++ " {
			t.Errorf("%s: tags %q", name, tags)
		}
		if lines := o.lines("transport/7"); len(lines) != 1 || !strings.HasPrefix(lines[0], "d+") {
			t.Errorf("%s: lines %q", name, lines)
		}
	}
}

// An agent that tagged its alternative itself leaves the others to us.
func TestMarkEndsASetTheAgentDelivered(t *testing.T) {
	text := control("7",
		"X+          1 smtp a.example a@a.example 1",
		"X           1 smtp b.example b@b.example 1")
	o := newTestSpool(t)
	o.put("7", text)
	o.open(Options{})
	o.marked("7", ctlfile.Mark{Offset: offset(t, text, "a@a"), Tag: ctlfile.Delivered})
	if tags := o.tags("transport/7"); tags != "++" {
		t.Errorf("tags %q", tags)
	}
}

func TestMarkAndRereadOfAMissingFile(t *testing.T) {
	o := newTestSpool(t).open(Options{})
	o.mkdir("transport/A/H")
	if r := o.marked("A/H/7", ctlfile.Mark{Offset: 67, Tag: '+'}); !r.Missing {
		t.Errorf("%+v", r)
	}
	o.s.Reread(3, "A/H/7", scheduler.Read{})
	if r := answered[scheduler.Read](o); r.Op != 3 || !r.Missing || r.Err != nil {
		t.Errorf("%+v", r)
	}
}

// A file that an agent ruined is put away at once; asking again would not
// mend it.
func TestRereadQuarantines(t *testing.T) {
	o := newTestSpool(t)
	o.put("7", "garbage")
	o.open(Options{})
	o.s.Reread(3, "7", scheduler.Read{})
	if r := answer[Refused](o); r.Why != Quarantined || r.Name != (Name{"7", 7}) {
		t.Errorf("%+v", r)
	}
	if r := answered[scheduler.Read](o); !r.Missing || r.Err != nil {
		t.Errorf("%+v", r)
	}
	o.holds("corrupt/queue/7", "corrupt/transport/7", "corrupt/transport/7.reason")
}

func TestRereadTellsEveryRecipient(t *testing.T) {
	text := control("7", toBob, strings.Replace(toCarol, "r ", "r-", 1),
		"r~  1234    smtp c.example c@c.example 1",
		"X+          1 smtp d.example d@d.example 1",
		"X           1 smtp e.example e@e.example 1")
	text += diagnose(offset(t, text, "c@c"), "c@c", "failed")
	o := newTestSpool(t)
	o.put("7", text)
	o.open(Options{})
	o.s.Reread(3, "7", scheduler.Read{PID: 1234})
	r := answered[scheduler.Read](o)
	want := []ctlfile.State{
		{Offset: offset(t, text, "bob@b"), Tag: ' '}, {Offset: offset(t, text, "carol"), Tag: '-'}, {Offset: offset(t, text, "c@c"), Tag: '-'},
		{Offset: offset(t, text, "d@d"), Tag: '+'}, {Offset: offset(t, text, "e@e"), Tag: '+'},
	}
	if fmt.Sprint(r.Recipients) != fmt.Sprint(want) || !r.Owes {
		t.Errorf("%+v, want %+v", r, want)
	}
	if tags := o.tags("transport/7"); tags != " --++" {
		t.Errorf("tags %q", tags)
	}
}

// helpFullDisk marks on a disk that is full, as far as this process can tell,
// then on one that has room again.
func helpFullDisk(dir string) {
	signal.Ignore(unix.SIGXFSZ)
	s, err := Open(Options{Postoffice: dir, Reporter: noReporter{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	o := &testSpool{dir: dir, s: s}
	st, err := os.Stat(filepath.Join(dir, "transport/7"))
	if err != nil {
		fmt.Println(err)
		return
	}
	var limit unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_FSIZE, &limit)
	// Room for half a line.
	_ = unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: uint64(st.Size() + 20), Max: limit.Max})
	s.Mark(1, "7", []ctlfile.Mark{{Offset: 67, Tag: ctlfile.Failed, Diagnose: true, Notary: "\x01failed"}})
	full := answered[scheduler.Mark](o).Err
	fmt.Println("full:", errors.Is(full, unix.ENOSPC), full)
	s.Probe()
	fmt.Println("probe:", answer[Probed](o).Err != nil)
	after, err := os.Stat(filepath.Join(dir, "transport/7"))
	fmt.Println("grown:", err != nil || after.Size() != st.Size())
	_ = unix.Setrlimit(unix.RLIMIT_FSIZE, &limit)
	s.Mark(2, "7", []ctlfile.Mark{{Offset: 67, Tag: ctlfile.Failed, Diagnose: true, Notary: "\x01failed"}})
	fmt.Println("again:", answered[scheduler.Mark](o).Err)
	s.Probe()
	fmt.Println("probe:", answer[Probed](o).Err != nil)
}

// A d line that does not fit is taken back, and the recipient stays open. That
// half of it did fit, as into the rest of the file's last block, makes the disk
// no less full, and a probe must find that too.
func TestMarkOnAFullDisk(t *testing.T) {
	text := "@ 0x00000007\ni 7\ns local alice@x.example alice@x.example 0\n"
	at := len(text)
	text += toBob + "\nm\nSubject: x\n\n"
	text = strings.Replace(text, "alice@x.example a", "alice@x.example "+strings.Repeat("a", 67-at)+"a", 1)
	if offset(t, text, "bob@b") != 67 {
		t.Fatalf("recipient at %d", offset(t, text, "bob@b"))
	}
	o := newTestSpool(t)
	o.put("7", text)
	_, lines, _ := startHelper(t, "full", o.dir)
	var got []string
	for lines.Scan() {
		got = append(got, lines.Text())
	}
	if len(got) != 5 || !strings.HasPrefix(got[0], "full: true control file \"7\"") || got[1] != "probe: true" ||
		got[2] != "grown: false" || got[3] != "again: <nil>" || got[4] != "probe: false" {
		t.Errorf("got %q", got)
	}
	if o.tags("transport/7") != "-" || len(o.lines("transport/7")) != 1 {
		t.Errorf("the file is\n%s", o.read("transport/7"))
	}
}

// The same on a real file system, whose files end within a block.
func TestMarkOnASmallFileSystem(t *testing.T) {
	o := newTestSpool(t)
	if err := unix.Mount("tmpfs", o.dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("no file system of a megabyte to be had: %v", err)
	}
	t.Cleanup(func() { check(t, unix.Unmount(o.dir, 0)) })
	text := control("7", toBob)
	failure := ctlfile.Mark{Offset: offset(t, text, "bob@b"), Tag: '-', Diagnose: true, Notary: strings.Repeat("x", 5000) + "\x01failed\x01"}
	o.mkdir("transport")
	o.mkdir("queue")
	o.put("7", text)
	o.open(Options{})
	filler := filepath.Join(o.dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 2<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	o.s.Mark(1, "7", []ctlfile.Mark{failure})
	if r := answered[scheduler.Mark](o); !errors.Is(r.Err, unix.ENOSPC) {
		t.Errorf("%+v", r)
	}
	if now := o.read("transport/7"); now != text {
		t.Errorf("the file is\n%s", now)
	}
	// A block is free, but not what the outcomes that wait will take.
	check(t, os.Truncate(filler, fileSize(t, filler)-4096))
	o.s.Probe()
	if p := answer[Probed](o); !errors.Is(p.Err, unix.ENOSPC) {
		t.Errorf("probe of a full file system: %v", p.Err)
	}
	check(t, os.Remove(filler))
	o.s.Probe()
	if p := answer[Probed](o); p.Err != nil {
		t.Error(p.Err)
	}
	if r := o.marked("7", failure); r.Err != nil || o.tags("transport/7") != "-" {
		t.Errorf("%+v", r)
	}
}

func fileSize(t *testing.T, path string) int64 {
	info, err := os.Stat(path)
	check(t, err)
	return info.Size()
}

// Without the d line on disk there is no tag, and without the tag no loss.
func TestMarkThatMayNotWrite(t *testing.T) {
	restricted(t)
	text := control("7", toBob)
	o := newTestSpool(t)
	o.put("7", text)
	check(t, os.Chmod(filepath.Join(o.dir, "transport/7"), 0o400))
	o.open(Options{})
	o.s.Mark(1, "7", []ctlfile.Mark{{Offset: offset(t, text, "bob@b"), Tag: '+'}})
	if r := answered[scheduler.Mark](o); r.Err == nil || r.Missing {
		t.Errorf("%+v", r)
	}
}
