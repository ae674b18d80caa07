package spool

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
)

func TestTakeTellsWhatTheFileSays(t *testing.T) {
	text := control("258367", "x <old@x.example>", toBob,
		"N NOTIFY=SUCCESS ORCPT=rfc822;bob@b.example", toCarol)
	o := newTestSpool(t)
	o.put("F/F/258367", text)
	o.write("queue/F/F/258367", "12345")
	at := time.Date(2003, 3, 12, 22, 38, 19, 123456789, time.UTC)
	check(t, os.Chtimes(filepath.Join(o.dir, "queue/F/F/258367"), at, at))
	m := o.open(Options{}).loaded("F/F/258367")

	var st unix.Stat_t
	check(t, unix.Stat(filepath.Join(o.dir, "transport/F/F/258367"), &st))
	if !m.ModifiedAt.Equal(at) || !m.ChangedAt.Equal(time.Unix(st.Ctim.Unix())) || m.Size != 5 {
		t.Errorf("times %v and %v, size %d", m.ModifiedAt, m.ChangedAt, m.Size)
	}
	want := Loaded{
		Name: Name{"F/F/258367", 258367}, LogID: "<m258367@x.example>",
		Sender: "alice@x.example", ErrorTo: "alice@x.example", Owner: uint32(os.Geteuid()),
		ModifiedAt: m.ModifiedAt, ChangedAt: m.ChangedAt, Size: 5,
		Recipients: []ctlfile.OpenRecipient{
			{Offset: offset(t, text, "bob@b"), Channel: "smtp", Host: "b.example", Notify: ctlfile.NotifySuccess},
			{Offset: offset(t, text, "carol"), Channel: "local", Host: "-", Notify: ctlfile.NotifyFailure},
		},
		Obsoletes: []string{"<old@x.example>"},
	}
	if got := fmt.Sprintf("%+v", m); got != fmt.Sprintf("%+v", want) {
		t.Errorf("loaded\n%s, want\n%+v", got, want)
	}
	if o.read("transport/F/F/258367") != text {
		t.Error("the file was changed")
	}
}

// A sender can set the time of a message file that is still open to any time.
func TestMessageFromTheFutureArrivesNow(t *testing.T) {
	o := newTestSpool(t)
	o.put("7", control("7", toBob))
	path := filepath.Join(o.dir, "queue/7")
	future := time.Date(2250, 1, 1, 0, 0, 0, 0, time.UTC)
	check(t, os.Chtimes(path, future, future))
	m := o.open(Options{}).loaded("7")
	if m.ModifiedAt.After(time.Now()) || time.Since(m.ModifiedAt) > time.Hour {
		t.Errorf("it arrived at %v", m.ModifiedAt)
	}
	// The spoolid is that of the file.
	if info, err := os.Stat(path); err != nil || !info.ModTime().Equal(m.ModifiedAt) {
		t.Errorf("the file is of %v, %v; want %v", info.ModTime(), err, m.ModifiedAt)
	}
}

// The e line is where reports go; the old program had it overwritten by the s
// line that follows.
func TestTakeSendsReportsToTheErrorAddress(t *testing.T) {
	o := newTestSpool(t)
	o.put("7", strings.Replace(control("7", toBob), "e alice@", "e owner-list@", 1))
	m := o.open(Options{}).loaded("7")
	if m.ErrorTo != "owner-list@x.example" || m.Sender != "alice@x.example" {
		t.Errorf("reports to %q, sender %q", m.ErrorTo, m.Sender)
	}
}

func TestTakeNullSender(t *testing.T) {
	o := newTestSpool(t)
	o.put("7", strings.Replace(control("7", toBob), "s local alice@x.example", "s error -", 1))
	if m := o.open(Options{}).loaded("7"); !m.NullSender || m.ErrorTo != "" {
		t.Errorf("%+v", m)
	}
}

func TestTakeLowersChannelAndHost(t *testing.T) {
	o := newTestSpool(t)
	o.put("7", control("7", "r           SMTP B.Example Bob@B.Example 65534"))
	r := o.open(Options{}).loaded("7").Recipients[0]
	if r.Channel != "smtp" || r.Host != "b.example" {
		t.Errorf("%+v", r)
	}
	if !strings.Contains(o.read("transport/7"), "SMTP B.Example") {
		t.Error("the file was changed")
	}
}

// Each recipient has its own NOTIFY, also behind one that is done; the old
// program gave it to whoever was sorted first.
func TestTakeBindsNotifyToItsRecipient(t *testing.T) {
	o := newTestSpool(t)
	o.put("7", control("7",
		"r+          smtp a.example a@a.example 65534", "N NOTIFY=NEVER",
		"r           smtp a.example b@a.example 65534",
		"r           smtp a.example c@a.example 65534", "N NOTIFY=DELAY,FAILURE"))
	var got []ctlfile.Notify
	for _, r := range o.open(Options{}).loaded("7").Recipients {
		got = append(got, r.Notify)
	}
	want := []ctlfile.Notify{ctlfile.NotifyFailure, ctlfile.NotifyDelay | ctlfile.NotifyFailure}
	if !slices.Equal(got, want) {
		t.Errorf("notify %v, want %v", got, want)
	}
}

// A message without a Message-ID has no l line. The old program lost it.
func TestTakeWithoutLogIdentity(t *testing.T) {
	o := newTestSpool(t)
	o.put("7", strings.Replace(control("7", toBob), "l <m7@x.example>\n", "", 1))
	if m := o.open(Options{}).loaded("7"); m.LogID != "" || len(m.Recipients) != 1 {
		t.Errorf("%+v", m)
	}
}

// A file of nothing but alternatives is mail. The old program deleted it.
func TestTakeAlternatives(t *testing.T) {
	text := control("7",
		"r           smtp a.example r@a.example 65534",
		"X           1 smtp a.example a@a.example 65534",
		"X           1 smtp b.example b@b.example 65534",
		"X-          2 smtp c.example c@c.example 65534",
		"X           2 smtp d.example d@d.example 65534",
		"X-          3 smtp e.example e@e.example 65534",
		"X+          3 smtp f.example f@f.example 65534",
		"X           3 smtp g.example g@g.example 65534")
	o := newTestSpool(t)
	o.put("7", text)
	m := o.open(Options{}).loaded("7")
	want := []int64{
		offset(t, text, "r@a"), offset(t, text, "a@a"), offset(t, text, "b@b"), offset(t, text, "d@d"),
	}
	if got := offsets(m.Recipients); !slices.Equal(got, want) {
		t.Errorf("open are %v, want %v", got, want)
	}
	if m.Recipients[3].Class != 2 {
		t.Errorf("class %d", m.Recipients[3].Class)
	}
	if now := strings.Replace(text, "X           3", "X+          3", 1); !strings.HasPrefix(o.read("transport/7"), now) {
		t.Errorf("the file is\n%s", o.read("transport/7"))
	}
}

// When an alternative is delivered, nobody need hear that another failed.
func TestTakeForgivesFailedAlternatives(t *testing.T) {
	text := control("7",
		"X-          1 smtp a.example a@a.example 65534",
		"X+          1 smtp b.example b@b.example 65534")
	text += diagnose(offset(t, text, "a@a"), "a@a.example", "failed")
	o := newTestSpool(t)
	o.put("7", text)
	if m := o.open(Options{}).loaded("7"); m.Owes || len(m.Recipients) != 0 {
		t.Errorf("%+v", m)
	}
	if !strings.Contains(o.read("transport/7"), "\nd+") {
		t.Errorf("the file is\n%s", o.read("transport/7"))
	}
}

// diagnose is a d line.
func diagnose(offset int64, user, action string) string {
	return fmt.Sprintf("d %d:-1:-1::1047508710\t%s\x01%s\x015.1.1\x01smtp; 550\x01\tno such user\n", offset, user, action)
}

// What a d line says of an open recipient is so: whoever wrote it died before
// the tag. The old program left expired recipients open for ever.
func TestTakeSettlesByDiagnostics(t *testing.T) {
	for _, c := range []struct {
		action string
		tag    string
		open   int
	}{
		{"failed", "-", 0},
		{"delivered", "+", 0},
		{"relayed", "+", 0},
		{"expanded", "+", 0},
		{"delayed", " ", 1},
		{"*SW-ERROR*not-act-rc=64*", " ", 1},
	} {
		text := control("7", toBob)
		at := offset(t, text, "bob@b")
		o := newTestSpool(t)
		o.put("7", text+diagnose(at, "bob@b.example", c.action))
		m := o.open(Options{}).loaded("7")
		if len(m.Recipients) != c.open {
			t.Errorf("%s: open are %+v", c.action, m.Recipients)
		}
		if tag := o.read("transport/7")[at+1 : at+2]; tag != c.tag {
			t.Errorf("%s: tag %q, want %q", c.action, tag, c.tag)
		}
	}
}

func TestTakeSettlesNothingWithoutNotary(t *testing.T) {
	text := control("7", toBob)
	o := newTestSpool(t)
	o.put("7", text+fmt.Sprintf("d %d:-1:-1::1047508710 x\tfailed\x01failed\ttext\n", offset(t, text, "bob@b")))
	if m := o.open(Options{}).loaded("7"); len(m.Recipients) != 1 {
		t.Errorf("%+v", m)
	}
}

func TestTakeOwes(t *testing.T) {
	done := strings.Replace(toBob, "r ", "r-", 1)
	null := func(text string) string { return strings.Replace(text, "s local", "s error", 1) }
	with := func(action string, lines ...string) string {
		text := control("7", lines...)
		return text + diagnose(offset(t, text, "@b.example"), "bob@b.example", action)
	}
	for name, c := range map[string]struct {
		text string
		owes bool
	}{
		"failure":              {with("failed", done), true},
		"told":                 {strings.Replace(with("failed", done), "\nd ", "\nd+", 1), false},
		"never":                {with("failed", done, "N NOTIFY=NEVER"), false},
		"success not asked":    {with("delivered", done), false},
		"success asked":        {with("relayed", done, "N NOTIFY=SUCCESS"), true},
		"failure not asked":    {with("failed", done, "N NOTIFY=SUCCESS"), false},
		"delay asked":          {with("delayed", toBob, "N NOTIFY=DELAY"), true},
		"delay":                {with("delayed", toBob), false},
		"strange word":         {with("*SW-ERROR*not-act-rc=64*", done), true},
		"null sender":          {null(with("failed", done)), false},
		"outcome lost":         {control("7", done), true},
		"alternative left":     {with("failed", "X-          1 smtp b.example b@b.example 1", "X           1 smtp c.example c@c.example 1"), false},
		"alternatives all out": {with("failed", "X-          1 smtp b.example b@b.example 1", "X-          1 smtp c.example c@c.example 1"), true},
	} {
		o := newTestSpool(t)
		o.put("7", c.text)
		if m := o.open(Options{}).loaded("7"); m.Owes != c.owes {
			t.Errorf("%s: owes %v", name, m.Owes)
		}
	}
}

// What cannot be understood is moved aside with its message, never unlinked.
func TestTakeQuarantines(t *testing.T) {
	good := control("7", toBob)
	for name, text := range map[string]string{
		"unknown format":    strings.Replace(good, "00000007", "0000000f", 1),
		"no name":           strings.Replace(good, "i 7\n", "", 1),
		"another name":      strings.Replace(good, "i 7\n", "i 8\n", 1),
		"same number":       strings.Replace(good, "i 7\n", "i 7-1\n", 1),
		"empty line":        strings.Replace(good, "o 05\n", "\no 05\n", 1),
		"block without end": strings.TrimSuffix(good, "\n"),
		"no host":           strings.Replace(good, "b.example bob@b.example 65534", "", 1),
		"empty file":        "",
		"zeros":             string(make([]byte, 500)),
	} {
		o := newTestSpool(t)
		o.put("A/H/7", text)
		r := o.open(Options{}).refused("A/H/7", Quarantined)
		o.holds("corrupt/queue/A/H/7", "corrupt/transport/A/H/7", "corrupt/transport/A/H/7.reason")
		if o.read("corrupt/transport/A/H/7") != text {
			t.Errorf("%s: the file was changed", name)
		}
		reason := o.read("corrupt/transport/A/H/7.reason")
		if !strings.HasPrefix(reason, "transport/A/H/7 and queue/A/H/7, ") || !strings.Contains(reason, r.Reason) {
			t.Errorf("%s: reason %q, and the answer's %q", name, reason, r.Reason)
		}
	}
}

// An agent finds no message file, and the sender is told, as if the file had been lost while
// the scheduler ran.
func TestMessageWithoutItsFileIsLoaded(t *testing.T) {
	o := newTestSpool(t)
	o.mkdir("queue/A/H")
	o.write("transport/A/H/7", control("7", toBob))
	o.age("transport/A/H/7", 0)
	o.open(Options{})
	o.refused("A/H/7", Unfinished)
	at := time.Date(2003, 3, 12, 22, 38, 19, 0, time.UTC)
	check(t, os.Chtimes(filepath.Join(o.dir, "transport/A/H/7"), at, at))
	if m := o.loaded("A/H/7"); !m.LostMessageFile || len(m.Recipients) != 1 || !m.ModifiedAt.Equal(at) || m.Size != 0 {
		t.Errorf("%+v", m)
	}
	m, found, err := o.s.Show(t.Context(), ctlfile.SpoolID(7, at))
	if err != nil || !found || !m.ModifiedAt.Equal(at) || m.Size != -1 {
		t.Errorf("shown as %+v, %v, %v", m, found, err)
	}
}

// What is not a file is not a message that has lost its file.
func TestSpecialFileInPlaceOfAMessageGoesToQuarantine(t *testing.T) {
	o := newTestSpool(t)
	o.write("transport/7", control("7", toBob))
	o.age("transport/7", 3*time.Hour)
	check(t, unix.Mkfifo(filepath.Join(o.dir, "queue/7"), 0o600))
	o.open(Options{})
	o.refused("7", Quarantined)
}

// A restart makes mail that is not loaded no younger.
func TestAgeOfMailThatIsNotLoadedCountsFromItsControlFile(t *testing.T) {
	o := newTestSpool(t)
	o.write("transport/A/H/7", control("7", toBob))
	o.age("transport/A/H/7", 3*time.Hour)
	for range 2 {
		o.open(Options{Unwatched: true})
		o.refused("A/H/7", Unreadable)
		u := o.s.Unloaded()
		if age := time.Since(u.Since); u.Messages != 1 || age < 3*time.Hour || age > 4*time.Hour {
			t.Errorf("%+v, %v old", u, age)
		}
	}
}

// What is not mounted, or was moved away, may come back.
func TestMessageWaitsForTheDirectoryOfItsFile(t *testing.T) {
	o := newTestSpool(t)
	o.write("transport/A/H/7", control("7", toBob))
	o.age("transport/A/H/7", time.Hour)
	o.open(Options{}).refused("A/H/7", Unreadable)
	o.holds("transport/A/H/7")
}

func TestQuarantineOverwritesNothing(t *testing.T) {
	o := newTestSpool(t).open(Options{})
	for range 3 {
		o.put("7", "garbage")
		o.refused("7", Quarantined)
	}
	o.write("transport/7", "without a message")
	o.refused("7", Quarantined)
	o.holds("corrupt/queue/7", "corrupt/queue/7.1", "corrupt/queue/7.2",
		"corrupt/transport/7", "corrupt/transport/7.1", "corrupt/transport/7.1.reason",
		"corrupt/transport/7.2", "corrupt/transport/7.2.reason", "corrupt/transport/7.3",
		"corrupt/transport/7.3.reason", "corrupt/transport/7.reason")
}

// What changed a moment ago may still be written by somebody.
func TestTakeWaitsForAnUnfinishedFile(t *testing.T) {
	o := newTestSpool(t).open(Options{})
	good := control("7", toBob)
	for i, text := range []string{"", good[:40], strings.TrimSuffix(good, "\n")} {
		o.put("7", text)
		o.age("transport/7", 0)
		if r := o.refused("7", Unfinished); r.Tries != i+1 {
			t.Errorf("%+v, want try %d", r, i+1)
		}
		o.holds("queue/7", "transport/7")
	}
	o.put("7", good)
	o.loaded("7")
}

func TestTakeLeavesWhatIsNoFile(t *testing.T) {
	o := newTestSpool(t).open(Options{})
	o.mkdir("transport/5")
	check(t, os.Symlink("/etc/passwd", filepath.Join(o.dir, "transport/6")))
	check(t, unix.Mkfifo(filepath.Join(o.dir, "transport/7"), 0o600))
	for _, path := range []string{"4", "5", "6", "7"} {
		o.refused(path, Vanished)
	}
}

func TestTakeLeavesWhatItMayNotRead(t *testing.T) {
	restricted(t)
	o := newTestSpool(t)
	o.put("7", control("7", toBob))
	o.put("8", control("8", "r~     0    smtp b.example b@b.example 1"))
	check(t, os.Chmod(filepath.Join(o.dir, "transport/7"), 0))
	check(t, os.Chmod(filepath.Join(o.dir, "transport/8"), 0o400))
	o.open(Options{})
	o.refused("7", Unreadable)
	o.refused("8", Unreadable)
	o.holds("queue/7", "queue/8", "transport/7", "transport/8")
}

// What is looked at again is what lies there by then.
func TestTakeTellsWhereTheRefusedFileIsNow(t *testing.T) {
	restricted(t)
	o := newTestSpool(t)
	o.put("7", control("7", "r~     0    smtp b.example b@b.example 1"))
	check(t, os.Chmod(filepath.Join(o.dir, "transport/7"), 0o400))
	r := o.open(Options{HashLevels: 2}).refused("7", Unreadable)
	o.holds("queue/A/H/7", "transport/A/H/7")
	in := o.s.refusals
	in.mu.Lock()
	defer in.mu.Unlock()
	if _, waits := in.waiting["A/H/7"]; r.Name.Path != "A/H/7" || !waits {
		t.Errorf("%+v, waiting %v", r, in.waiting)
	}
}

func TestTakeLeavesWhatItCannotMoveAside(t *testing.T) {
	restricted(t)
	o := newTestSpool(t)
	o.put("7", "garbage")
	o.open(Options{})
	check(t, os.Chmod(filepath.Join(o.dir, "transport"), 0o555))
	o.refused("7", Unreadable)
	check(t, os.Chmod(filepath.Join(o.dir, "transport"), 0o755))
	// The message file was moved first, and then moved back.
	o.holds("corrupt/transport/7.reason", "queue/7", "transport/7")
	o.refused("7", Quarantined)
	o.holds("corrupt/queue/7", "corrupt/transport/7", "corrupt/transport/7.reason")
}

// Numbers have 64 bits; the old program had 32 at places.
func TestTakeLargeNumber(t *testing.T) {
	const name = "18446744073709551615"
	o := newTestSpool(t)
	o.put(name, control(name, toBob))
	if m := o.open(Options{HashLevels: 2}).loaded(name); m.Name.ID != 1<<64-1 {
		t.Errorf("%+v", m.Name)
	}
}

// The old program copied names into buffers of 100 bytes.
func TestTakeLongName(t *testing.T) {
	name := "7-" + strings.Repeat("x", 250)
	o := newTestSpool(t)
	o.put(name, control(name, toBob))
	if m := o.open(Options{HashLevels: 2}).loaded(name); m.Name.Path != "A/H/"+name {
		t.Errorf("%+v", m.Name)
	}
}

func TestTakeTrigger(t *testing.T) {
	o := newTestSpool(t)
	o.write("transport/77-etrn", "T Example.ORG 192.0.2.7\n")
	o.put("8", strings.Replace(control("8", toBob), "e alice", "T b.example\ne alice", 1))
	got := o.open(Options{}).load("77-etrn")
	want := Triggered{Name{"77-etrn", 77}, "example.org", "Example.ORG 192.0.2.7"}
	if len(got) != 1 || got[0] != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	got = o.load("8")
	if len(got) != 2 || got[0].(Triggered).Host != "b.example" || got[1].(Loaded).Name.ID != 8 {
		t.Errorf("%+v", got)
	}
	o.holds("queue/8", "transport/8")
}

func TestTakeAnswersOldestFirst(t *testing.T) {
	o := newTestSpool(t)
	for i := range 100 {
		name := strconv.Itoa(1000 + i)
		o.put(name, control(name, toBob))
	}
	o.open(Options{})
	loader := newLoader(o.s)
	for i := range 100 {
		loader.load(Name{strconv.Itoa(1099 - i), uint64(1099 - i)})
	}
	loader.answer()
	var before time.Time
	for range 100 {
		if at := answer[Loaded](o).ChangedAt; at.Before(before) {
			t.Fatalf("%v after %v", at, before)
		} else {
			before = at
		}
	}
}

// A last line without its end is a diagnostic that a crash cut short. The
// next must not be appended to it.
func TestTakeTrimsATornLine(t *testing.T) {
	text := control("7", toBob)
	o := newTestSpool(t)
	o.put("7", text+"d 67:-1:-1::10475")
	o.open(Options{}).loaded("7")
	if o.read("transport/7") != text {
		t.Errorf("the file is %q", o.read("transport/7"))
	}
}

// One control file with very many recipients must not cost each loader a buffer
// of its size for good.
func TestLoadKeepsNoLargeBuffer(t *testing.T) {
	o := newTestSpool(t)
	o.put("7", control("7", strings.Repeat(toBob+"\n", 30000)+toCarol))
	o.open(Options{})
	small := make([]byte, 0, 1000)
	buf := small
	d, err := readControl(o.s.control, o.s.pair(Queue).transport, "7", unix.O_RDONLY, &buf)
	if err != nil || len(d.file.Recipients) != 30001 {
		t.Fatal(err)
	}
	if cap(buf) != cap(small) {
		t.Errorf("a buffer of %d bytes is kept", cap(buf))
	}
}

// What was torn when it was read may be whole by now, and tell of a failure.
func TestTrimSparesALineThatWasFinishedMeanwhile(t *testing.T) {
	text := control("7", toBob) + "d 67:-1:-1::10475"
	o := newTestSpool(t)
	o.put("7", text)
	o.open(Options{})
	var buf []byte
	d, err := readControl(o.s.control, o.s.pair(Queue).transport, "7", unix.O_RDONLY, &buf)
	check(t, err)
	defer d.close()
	text += "08710\tbob@b.example\x01failed\tno such user\n"
	o.write("transport/7", text)
	if err := d.truncateTorn(); !errors.Is(err, errChanged) {
		t.Errorf("error %v", err)
	}
	if o.read("transport/7") != text {
		t.Errorf("the file is %q", o.read("transport/7"))
	}
}

func TestTakeManifest(t *testing.T) {
	line := regexp.MustCompile(`^(\S+)\.ctl  <- transport path: transport/(\S+)  queue path: queue/(\S+) `)
	for levels, dir := range map[int]string{0: "testdata/router/dirhash0", 2: "testdata/router/dirhash2"} {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			manifest, err := os.Open(filepath.Join(dir, "MANIFEST"))
			check(t, err)
			defer manifest.Close()
			o := newTestSpool(t)
			files := map[string]*ctlfile.File{}
			for lines := bufio.NewScanner(manifest); lines.Scan(); {
				m := line.FindStringSubmatch(lines.Text())
				if m == nil || m[2] != m[3] {
					t.Fatalf("manifest line %q", lines.Text())
				}
				ctl, err := os.ReadFile(filepath.Join(dir, m[1]+".ctl"))
				check(t, err)
				msg, err := os.ReadFile(filepath.Join(dir, m[1]+".msg"))
				check(t, err)
				o.write("transport/"+m[2], string(ctl))
				o.write("queue/"+m[2], string(msg))
				files[m[2]], err = ctlfile.Parse(ctl)
				check(t, err)
			}
			o.open(Options{HashLevels: levels})
			for path, f := range files {
				m := o.loaded(path)
				if m.Name.Path != path || len(m.Recipients) != len(f.Recipients) || m.Owes {
					t.Errorf("%s: %+v", path, m)
				}
			}
		})
	}
}

// Files taken in mid-flight: what is open after a restart, when the agents
// that held locks are gone.
func TestTakeInterrupted(t *testing.T) {
	for name, want := range map[string][]string{
		"crash-after-2-jobs-860223":   {"a0@boom", "b0@boom"},
		"crash-after-2-jobs-860227":   {"b2@boom"},
		"d2-delay-885303":             {"d1@slow", "d2@slow"},
		"real-smtp-after-retry":       {"temp5@"},
		"real-smtp-kill9-after-retry": {"ok1@", "stall3@"},
		"real-smtp-kill9-stale-lock":  {"ok1@", "stall3@"},
		"real-smtp-killed-stale-lock": {"temp5@"},
		"real-smtp-stalled-inflight":  {"ok1@", "perm2@", "stall3@", "ok4@", "temp5@"},
		"startup-tags-before":         {"a@live", "b@dead", "e@norm", "f@nopid"},
		"startup-tags-after":          {"a@live", "b@dead", "e@norm", "f@nopid"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile("testdata/control-files/" + name + ".ctl")
			check(t, err)
			path := regexp.MustCompile(`(?m)^i (\d+)$`).FindStringSubmatch(string(text))[1]
			o := newTestSpool(t)
			o.put(path, string(text))
			o.write("queue/"+path, strings.Repeat("message\n", 100))
			// Whoever has these pids today is younger than the file.
			o.age("transport/"+path, 20*365*24*time.Hour)
			m := o.open(Options{}).loaded(path)
			var open []int64
			for _, user := range want {
				open = append(open, offset(t, string(text), " "+user))
			}
			if !slices.Equal(offsets(m.Recipients), open) {
				t.Errorf("open are %v, want %v", offsets(m.Recipients), open)
			}
			if strings.Contains(o.read("transport/"+path), "\nr~") {
				t.Error("locks are left")
			}
		})
	}
}

func TestAMessageFileThatEndsBeforeItsBodyIsQuarantined(t *testing.T) {
	o := newTestSpool(t)
	o.write("transport/7", strings.Replace(control("7", toBob), "o 05", "o 100", 1))
	o.write("queue/7", "message")
	if r := o.open(Options{}).refused("7", Quarantined); !strings.Contains(r.Reason, "has 7 bytes, and its body begins after 100") {
		t.Errorf("%+v", r)
	}
}

// Nothing is fed while queue/ is gone, and no message is called incomplete.
func TestAMissingQueueIsTheSpoolsFault(t *testing.T) {
	o := newTestSpool(t)
	o.put("7", control("7", toBob))
	o.open(Options{Unwatched: true})
	o.loaded("7")
	o.write("transport/8", control("8", toBob))
	check(t, os.Rename(filepath.Join(o.dir, "queue"), filepath.Join(o.dir, "aside")))
	o.refused("8", Unreadable)
	for _, replaced := range []bool{false, true} {
		if replaced {
			o.mkdir("queue")
		}
		o.s.Reread(1, "7", OurLocks{})
		if r := answer[Reread](o); !errors.Is(r.Err, ErrSpoolDown) {
			t.Errorf("replaced %v: %v", replaced, r.Err)
		}
		o.s.Probe()
		if p := answer[Probed](o); p.Err == nil {
			t.Errorf("replaced %v: the spool works", replaced)
		}
	}
	check(t, os.Remove(filepath.Join(o.dir, "queue")))
	check(t, os.Rename(filepath.Join(o.dir, "aside"), filepath.Join(o.dir, "queue")))
	o.s.Probe()
	if p := answer[Probed](o); p.Err != nil {
		t.Error(p.Err)
	}
}

// Agents find queue/ beside the transport/ in which they are. After a volume was mounted over
// the postoffice, that is another queue/ than the postoffice's of the start.
func TestAQueueThatAgentsDoNotFindIsTheSpoolsFault(t *testing.T) {
	o := newTestSpool(t)
	o.put("7", control("7", toBob))
	o.open(Options{Unwatched: true})
	o.loaded("7")
	o.mkdir("other/queue")
	check(t, os.Rename(filepath.Join(o.dir, "transport"), filepath.Join(o.dir, "other/transport")))
	o.s.Reread(1, "7", OurLocks{})
	if r := answer[Reread](o); !errors.Is(r.Err, ErrSpoolDown) {
		t.Errorf("%v", r.Err)
	}
	check(t, os.Rename(filepath.Join(o.dir, "other/transport"), filepath.Join(o.dir, "transport")))
	o.s.Probe()
	if p := answer[Probed](o); p.Err != nil {
		t.Error(p.Err)
	}
}

// Recipients that an agent finished with while no scheduler was running.
func TestDoneRecipientsAreLoadedForTheEventLog(t *testing.T) {
	o := newTestSpool(t)
	o.put("7", control("7", "r+"+toBob[2:], toCarol))
	m := o.open(Options{Users: true}).loaded("7")
	want := ctlfile.DoneRecipient{Tag: ctlfile.Delivered, Channel: "smtp", Host: "b.example", User: "bob@b.example"}
	if len(m.Recipients) != 1 || len(m.Done) != 1 || m.Done[0] != want {
		t.Errorf("open %+v, done %+v", m.Recipients, m.Done)
	}
}

// The event log knows a quarantined message by the time of its message file.
func TestQuarantineKeepsTheTimeOfTheMessage(t *testing.T) {
	o := newTestSpool(t)
	o.put("7", "garbage")
	at := time.Date(2003, 3, 12, 22, 38, 19, 0, time.UTC)
	check(t, os.Chtimes(filepath.Join(o.dir, "queue/7"), at, at))
	o.age("transport/7", time.Hour)
	o.open(Options{})
	if r := o.refused("7", Quarantined); !r.ModifiedAt.Equal(at) {
		t.Errorf("the message file is of %v", r.ModifiedAt)
	}
}
