package spool

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/scheduler"
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
		Name: Name{"F/F/258367", 258367}, Message: scheduler.Message{ID: 258367, Path: "F/F/258367", MessageID: "<m258367@x.example>",
			Sender: "alice@x.example", ErrorTo: "alice@x.example", Owner: uint32(os.Geteuid()),
			ModifiedAt: m.ModifiedAt, ChangedAt: m.ChangedAt, Size: 5,
			Recipients: []ctlfile.OpenRecipient{
				{Offset: offset(t, text, "bob@b"), Channel: "smtp", Host: "b.example", Notify: ctlfile.NotifySuccess},
				{Offset: offset(t, text, "carol"), Channel: "local", Host: "-", Notify: ctlfile.NotifyFailure},
			},
			Obsoletes: []string{"<old@x.example>"},
		}}
	if got := fmt.Sprintf("%+v", m); got != fmt.Sprintf("%+v", want) {
		t.Errorf("loaded\n%s, want\n%+v", got, want)
	}
	if o.read("transport/F/F/258367") != text {
		t.Error("the file was changed")
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
	if m := o.open(Options{}).loaded("7"); m.MessageID != "" || len(m.Recipients) != 1 {
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
	// The trigger is told before its file is removed.
	for postoffice.Exists(postoffice.WorkingDir, filepath.Join(o.dir, "transport/77-etrn")) {
		time.Sleep(time.Millisecond)
	}
	o.holds("queue/8", "transport/8")
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
	d, err := new(places).readControl(o.s.places.control, o.s.places.pairs[Queue].transport, "7", unix.O_RDONLY, &buf)
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
	d, err := new(places).readControl(o.s.places.control, o.s.places.pairs[Queue].transport, "7", unix.O_RDONLY, &buf)
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
