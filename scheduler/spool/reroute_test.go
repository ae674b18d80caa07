package spool

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/queue"
	"zsched/scheduler"
	"zsched/scheduler/view"
)

// newRoutedSpool is a test spool with what submitters and the router have.
func newRoutedSpool(t *testing.T) *testSpool {
	o := newTestSpool(t)
	o.mkdir("public")
	o.mkdir("router")
	return o
}

func (o *testSpool) resubmitted(r scheduler.Resubmit) Answered {
	o.t.Helper()
	o.s.Resubmit(7, r)
	got := answered[scheduler.Resubmit](o)
	if got.Op != 7 {
		o.t.Fatalf("%+v", got)
	}
	return got
}

// tagsIn are the tags of a control file's recipients, wherever it is.
func (o *testSpool) tagsIn(path string) string {
	o.t.Helper()
	f, err := ctlfile.Parse([]byte(o.read(path)))
	check(o.t, err)
	var tags []byte
	for i := range f.Recipients {
		tags = append(tags, byte(f.Recipients[i].Tag))
	}
	return string(tags)
}

func TestResubmitToTheRouter(t *testing.T) {
	for _, from := range []Place{Queue, Hold} {
		o := newRoutedSpool(t)
		text := control("7", toBob, "N NOTIFY=SUCCESS ORCPT=rfc822;b@old INRCPT=rfc822;list@x BY=60;R", "R HDRS", "n env-1",
			strings.Replace(toCarol, "r ", "r+", 1),
			"r           smtp d.example dora@d.example 65534", "R HDRS", "n env-1",
			"r           smtp e.example eve@e.example 65534")
		text = strings.Replace(text, "o 05", "o 12", 1)
		o.write(from.dir()+"transport/A/H/7", text)
		o.write(from.dir()+"queue/A/H/7", "an envelope\nbody\nof two lines")
		o.open(Options{By: "scheduler@mx.example"})
		bob, dora, eve := offset(t, text, "bob@"), offset(t, text, "dora@"), offset(t, text, "eve@")
		r := o.resubmitted(scheduler.Resubmit{Path: from.dir() + "A/H/7", Offsets: []int64{5, bob, offset(t, text, "carol"), dora}})
		if r.Err != nil || r.Missing || !slices.Equal(r.Offsets, []int64{bob, dora}) || len(r.Router) != 1 || r.Name.ID != 0 || r.Owes {
			t.Fatalf("%+v", r)
		}
		if want := []ctlfile.State{{Offset: bob, Tag: '+'}, {Offset: offset(t, text, "carol"), Tag: '+'}, {Offset: dora, Tag: '+'}, {Offset: eve, Tag: ' '}}; !slices.Equal(r.Recipients, want) {
			t.Errorf("%+v", r.Recipients)
		}
		const want = "external\nrcvdfrom STDIN (scheduler@mx.example)\nenvid env-1\nnotaryret HDRS\nfrom <alice@x.example>\n" +
			"todsn NOTIFY=SUCCESS ORCPT=rfc822;b@old INRCPT=rfc822;list@x BY=60;R\nto <bob@b.example>\nto <dora@d.example>\nenv-end\n" +
			"Subject: x\n\nbody\nof two lines"
		if got := o.read("router/" + r.Router[0]); got != want {
			t.Errorf("submitted\n%s, want\n%s", got, want)
		}
		var st unix.Stat_t
		check(t, unix.Stat(filepath.Join(o.dir, "router", r.Router[0]), &st))
		if r.Router[0] != fmt.Sprint(st.Ino) || st.Mode&0o777 != 0o600 {
			t.Errorf("%s has inode %d and mode %o", r.Router[0], st.Ino, st.Mode)
		}
		if got := o.tagsIn(from.dir() + "transport/A/H/7"); got != "+++ " {
			t.Errorf("tags %q", got)
		}
		// Then all the rest, and then there is none.
		r = o.resubmitted(scheduler.Resubmit{Path: from.dir() + "A/H/7"})
		if r.Err != nil || !slices.Equal(r.Offsets, []int64{eve}) || len(r.Router) != 1 {
			t.Fatalf("%+v", r)
		}
		r = o.resubmitted(scheduler.Resubmit{Path: from.dir() + "A/H/7"})
		if r.Err != nil || r.Missing || r.Offsets != nil || r.Router != nil || len(r.Recipients) != 4 {
			t.Fatalf("%+v", r)
		}
		if got := o.tagsIn(from.dir() + "transport/A/H/7"); got != "++++" {
			t.Errorf("tags %q", got)
		}
		if n := len(o.files()); n != 4 {
			t.Errorf("files %q", o.files())
		}
	}
}

func TestResubmitElsewhere(t *testing.T) {
	for from, hold := range map[Place]*view.Hold{Queue: nil, Hold: new(view.Hold)} {
		o := newRoutedSpool(t)
		text := "@ 0x00000007\nv ../public/v_1\ni 258367\no 12\nl <m@x>\nT t.example\nx <old@x>\ne alice@x\ns local alice@x alice@x 0\n" +
			toBob + "\nN NOTIFY=SUCCESS\nR HDRS\nn env-1\n" + toCarol + "\nm\nSubject: x\n\n"
		o.write(from.dir()+"transport/F/F/258367", text)
		o.write(from.dir()+"queue/F/F/258367", "an envelope\nbody\n")
		o.open(Options{HashLevels: 2})
		bob := offset(t, text, "bob@")
		r := o.resubmitted(scheduler.Resubmit{Path: from.dir() + "F/F/258367", Offsets: []int64{bob}, Hold: hold, Channel: "uucp", Host: "relay.example"})
		if r.Err != nil || r.Missing || !slices.Equal(r.Offsets, []int64{bob}) || r.Router != nil {
			t.Fatalf("%+v", r)
		}
		place, path := placeOf(r.Name.Path)
		n := Name{path, r.Name.ID}
		if n.Path != ctlfile.HashDir(n.ID, 2)+fmt.Sprint(n.ID) {
			t.Errorf("name %+v", n)
		}
		want := fmt.Sprintf("@ 0x00000007\ni %d\no 12\nl <m@x>\nx <old@x>\ne alice@x\ns local alice@x alice@x 0\n"+
			"r           uucp relay.example bob@b.example 65534\nN NOTIFY=SUCCESS\nR HDRS\nn env-1\nm\nSubject: x\n\n", n.ID)
		if place != from || r.NewFiles() != from.dir()+"transport/"+n.Path {
			t.Errorf("in %s, new %s", place, r.NewFiles())
		}
		if got := o.read(from.dir() + "transport/" + n.Path); got != want {
			t.Errorf("control file\n%s, want\n%s", got, want)
		}
		if got := o.read(from.dir() + "queue/" + n.Path); got != "an envelope\nbody\n" {
			t.Errorf("message %q", got)
		}
		if got := o.tagsIn(from.dir() + "transport/F/F/258367"); got != "+ " {
			t.Errorf("tags %q", got)
		}
		// It has the age of the old one, but would not have its spoolid even with its
		// number, and is taken.
		old, err := os.Stat(filepath.Join(o.dir, from.dir()+"queue/F/F/258367"))
		check(t, err)
		if from == Hold {
			check(t, o.release(n.Path).Err)
		}
		m := o.loaded(n.Path)
		younger := m.ModifiedAt.Sub(old.ModTime())
		if younger >= 0 || younger < -time.Second || len(m.Recipients) != 1 || m.Recipients[0].Channel != "uucp" {
			t.Errorf("%+v", m)
		}
		if files := slices.DeleteFunc(o.files(), func(name string) bool { return name == "hold/orders/1" }); len(files) != 4 {
			t.Errorf("files %q", o.files())
		}
	}
}

// Nothing but the host or nothing but the channel is an order too.
// TestHugeMessageIsNotCopied: its owner may have kept it open and made it grow.
func TestHugeMessageIsNotCopied(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give the file to a user")
	}
	for _, r := range []scheduler.Resubmit{{Path: "7"}, {Path: "7", Channel: "smtp", Host: "x.example"}} {
		o := newRoutedSpool(t)
		text := control("7", toBob)
		o.put("7", text)
		path := filepath.Join(o.dir, "queue/7")
		check(t, os.Chown(path, nobody, -1))
		check(t, os.Truncate(path, 1<<40))
		o.open(Options{MaxSize: 1 << 20})
		r.Offsets = []int64{offset(t, text, "bob@")}
		if got := o.resubmitted(r); got.Err == nil || !strings.Contains(got.Err.Error(), "larger than ROUTERMAXSIZE") {
			t.Errorf("%+v", got)
		}
		if tags := o.tagsIn("transport/7"); tags != " " {
			t.Errorf("the tags are %q", tags)
		}
	}
}

func TestResubmitToAnEmptyHost(t *testing.T) {
	o := newRoutedSpool(t)
	o.put("7", control("7", toBob))
	o.open(Options{})
	r := o.resubmitted(scheduler.Resubmit{Path: "7", Channel: "local"})
	if r.Err != nil || !strings.Contains(o.read("transport/"+r.Name.Path), "\nr           local - bob@b.example 65534\n") {
		t.Errorf("%+v", r)
	}
}

// Who is locked by a live process stays; a dead one's lock is no lock.
func TestResubmitSparesLiveLocks(t *testing.T) {
	o := newRoutedSpool(t)
	pid, _, stop := startHelper(t, "wait", filepath.Join(o.dir, "transport"))
	text := control("7", locked(pid), toCarol)
	o.put("7", text)
	o.age("transport/7", -time.Minute)
	o.open(Options{})
	r := o.resubmitted(scheduler.Resubmit{Path: "7"})
	if r.Err != nil || len(r.Offsets) != 1 || o.tagsIn("transport/7") != "~+" {
		t.Errorf("%+v, tags %q", r, o.tagsIn("transport/7"))
	}
	stop()
	r = o.resubmitted(scheduler.Resubmit{Path: "7"})
	if r.Err != nil || len(r.Offsets) != 1 || o.tagsIn("transport/7") != "++" {
		t.Errorf("%+v, tags %q", r, o.tagsIn("transport/7"))
	}
}

// An agent that is at another recipient may be in the middle of a d line.
func TestResubmitLeavesATornLine(t *testing.T) {
	o := newRoutedSpool(t)
	pid, _, _ := startHelper(t, "wait", filepath.Join(o.dir, "transport"))
	const torn = "d 67:-1:-1::10475"
	o.put("7", control("7", locked(pid), toCarol)+torn)
	o.age("transport/7", -time.Minute)
	o.open(Options{})
	r := o.resubmitted(scheduler.Resubmit{Path: "7"})
	if r.Err != nil || len(r.Offsets) != 1 || o.tagsIn("transport/7") != "~+" {
		t.Errorf("%+v, tags %q", r, o.tagsIn("transport/7"))
	}
	if text := o.read("transport/7"); !strings.HasSuffix(text, torn) {
		t.Errorf("the file is %q", text)
	}
}

// A recipient whose end a d line tells is settled and goes nowhere.
func TestResubmitHeedsDiagnostics(t *testing.T) {
	text := control("7", toBob, toCarol)
	bob := offset(t, text, "bob@")
	o := newRoutedSpool(t)
	o.put("7", text+diagnose(bob, "bob@b.example", "failed"))
	o.open(Options{})
	r := o.resubmitted(scheduler.Resubmit{Path: "7"})
	if r.Err != nil || !slices.Equal(r.Offsets, []int64{offset(t, text, "carol")}) || o.tagsIn("transport/7") != "-+" || !r.Owes {
		t.Errorf("%+v, tags %q", r, o.tagsIn("transport/7"))
	}
}

func TestResubmitOneOfASet(t *testing.T) {
	set := func(tags string) string {
		var lines []string
		for i := range len(tags) {
			lines = append(lines, fmt.Sprintf("X%c          1 smtp h%d.example bob%d@x 0", tags[i], i, i))
		}
		return control("7", lines...)
	}
	for _, c := range []struct{ tags, asked, sent, then string }{
		{"   ", "012", "0", "+++"},
		{"-  ", "012", "1", "-++"},
		{"   ", "2", "2", "+++"},
		{"-+ ", "2", "", "-++"},
	} {
		text := set(c.tags)
		o := newRoutedSpool(t)
		o.put("7", text)
		o.open(Options{})
		r := scheduler.Resubmit{Path: "7", Channel: "smtp", Host: "relay"}
		for i := range len(c.asked) {
			r.Offsets = append(r.Offsets, offset(t, text, "bob"+c.asked[i:i+1]))
		}
		got := o.resubmitted(r)
		if tags := o.tagsIn("transport/7"); got.Err != nil || tags != c.then {
			t.Errorf("%+v: tags %q, %+v", c, tags, got)
		}
		switch {
		case c.sent == "":
			if got.Name.ID != 0 {
				t.Errorf("%+v: %+v", c, got)
			}
		default:
			if text := o.read("transport/" + got.Name.Path); !strings.Contains(text, "\nr           smtp relay bob"+c.sent+"@x 0\n") ||
				strings.Count(text, "bob") != 1 {
				t.Errorf("%+v: sent\n%s", c, text)
			}
		}
	}
}

// What cannot be done leaves everything as it was.
func TestResubmitThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		change func(o *testSpool)
		ask    scheduler.Resubmit
	}{
		"program":      {func(o *testSpool) { o.put("7", control("7", `r           local - "|/bin/x" 501`, toBob)) }, scheduler.Resubmit{}},
		"plain beside": {func(o *testSpool) { o.put("7", control("7", toBob, `r           local - (c)|cmd 65534`)) }, scheduler.Resubmit{}},
		"file":         {func(o *testSpool) { o.put("7", control("7", `r           local - /var/x 501`)) }, scheduler.Resubmit{}},
		"no body":      {func(o *testSpool) { o.put("7", strings.Replace(control("7", toBob), "o 05\n", "", 1)) }, scheduler.Resubmit{}},
		"body behind":  {func(o *testSpool) { o.put("7", strings.Replace(control("7", toBob), "o 05\n", "o 99\n", 1)) }, scheduler.Resubmit{Channel: "x"}},
		"no message":   {func(o *testSpool) { check(t, os.Remove(filepath.Join(o.dir, "queue/7"))) }, scheduler.Resubmit{}},
		"no .tmp":      {func(o *testSpool) { o.write("queue/.tmp", "in the way") }, scheduler.Resubmit{}},
		"another's .tmp": {func(o *testSpool) {
			o.mkdir("queue/.tmp")
			check(t, os.Chmod(filepath.Join(o.dir, "queue/.tmp"), 0o777))
		}, scheduler.Resubmit{Channel: "x"}},
		"no router":     {func(o *testSpool) { check(t, os.Remove(filepath.Join(o.dir, "router"))) }, scheduler.Resubmit{}},
		"odd host":      {func(o *testSpool) {}, scheduler.Resubmit{Channel: "x", Host: "a\nb"}},
		"list of hosts": {func(o *testSpool) {}, scheduler.Resubmit{Channel: "x", Host: "(a)"}},
		"garbage":       {func(o *testSpool) { o.put("7", "garbage") }, scheduler.Resubmit{}},
		"no letter directory": {func(o *testSpool) {
			for l := 'A'; l <= 'Z'; l++ {
				o.write("transport/"+string(l), "in the way")
			}
		}, scheduler.Resubmit{Channel: "x"}},
	} {
		o := newRoutedSpool(t)
		o.put("7", control("7", toBob))
		c.change(o)
		o.open(Options{HashLevels: 1})
		before, text := o.files(), o.read("transport/7")
		c.ask.Path = "7"
		r := o.resubmitted(c.ask)
		if r.Err == nil || r.Missing || r.Offsets != nil || r.Router != nil || r.Name.ID != 0 {
			t.Errorf("%s: %+v", name, r)
		}
		o.holds(before...)
		if o.read("transport/7") != text {
			t.Errorf("%s: the control file was changed", name)
		}
	}
}

func TestResubmitOfWhatIsGone(t *testing.T) {
	o := newRoutedSpool(t).open(Options{})
	for _, r := range []scheduler.Resubmit{{Path: "7"}, {Path: "7", Channel: "x"}, {Path: "hold/7"}} {
		if got := o.resubmitted(r); got.Err != nil || !got.Missing {
			t.Errorf("%+v", got)
		}
	}
	o.holds()
}

func TestResubmitNotifiesTheRouter(t *testing.T) {
	o := newRoutedSpool(t)
	o.put("7", control("7", toBob))
	for l := 'A'; l <= 'Z'; l++ {
		o.mkdir("router/" + string(l))
	}
	path := filepath.Join(o.dir, "notify")
	socket, err := net.ListenPacket("unixgram", path)
	check(t, err)
	defer socket.Close()
	o.open(Options{Router: queue.Router{Levels: 1, Notify: path}})
	r := o.resubmitted(scheduler.Resubmit{Path: "7"})
	if r.Err != nil || len(r.Router) != 1 {
		t.Fatalf("%+v", r)
	}
	buf := make([]byte, 100)
	n, _, err := socket.ReadFrom(buf)
	check(t, err)
	_, base := split(r.Router[0])
	id, _ := ctlfile.Number(base)
	if got, want := string(buf[:n]), "NEW router "+ctlfile.HashDir(id, 1)+base; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestMoveToAnotherNodeKeepsWhatTheRecipientWas: the copy of a REROUTE to channel xfer
// says where each recipient comes from, and takes all alternatives of a set.
func TestMoveToAnotherNodeKeepsWhatTheRecipientWas(t *testing.T) {
	o := newRoutedSpool(t)
	text := control("7", toBob,
		"X             2 smtp ((d.example)(e.example)) dora@d.example 65534",
		"X             2 smtp e.example eve@e.example 65534")
	o.put("7", text)
	o.open(Options{Node: "mx1"})
	bob, dora, eve := offset(t, text, "bob@"), offset(t, text, "dora@"), offset(t, text, "eve@")
	answer := o.resubmitted(scheduler.Resubmit{
		Path: "7", Offsets: []int64{bob, dora, eve}, Attempts: []int{3, 1, 0}, Channel: "xfer", Host: "mx2",
	})
	if answer.Err != nil || len(answer.Offsets) != 3 {
		t.Fatalf("%+v", answer)
	}
	f, err := ctlfile.Parse([]byte(o.read("transport/" + answer.Name.Path)))
	check(t, err)
	want := []ctlfile.Origin{
		{Offset: bob, Attempts: 3, Channel: "smtp", Host: "b.example"},
		{Offset: dora, Attempts: 1, Class: 2, Channel: "smtp", Host: "((d.example)(e.example))"},
		{Offset: eve, Class: 2, Channel: "smtp", Host: "e.example"},
	}
	for i := range f.Recipients {
		r := &f.Recipients[i]
		got, err := ctlfile.ParseOrigin(r.Origin)
		want[i].Node, want[i].SpoolID = "mx1", got.SpoolID
		if err != nil || got != want[i] || !strings.HasPrefix(got.SpoolID, "S7") {
			t.Errorf("recipient %d has the origin %+v, %v, want %+v", i, got, err, want[i])
		}
		if r.Channel != "xfer" || r.Host != "mx2" || r.Class != 0 {
			t.Errorf("recipient %d is %+v", i, r)
		}
	}
	if tags := o.tagsIn("transport/7"); tags != "+++" {
		t.Errorf("the old recipients have the tags %q", tags)
	}
	// To yet another node: the origin stays. To another channel: it goes.
	path := answer.Name.Path
	again := o.resubmitted(scheduler.Resubmit{Path: path, Channel: "xfer", Host: "mx3"})
	g, err := ctlfile.Parse([]byte(o.read("transport/" + again.Name.Path)))
	check(t, err)
	if g.Recipients[0].Origin != f.Recipients[0].Origin {
		t.Errorf("the origin has become %q", g.Recipients[0].Origin)
	}
	last := o.resubmitted(scheduler.Resubmit{Path: again.Name.Path, Channel: "smtp", Host: "relay"})
	g, err = ctlfile.Parse([]byte(o.read("transport/" + last.Name.Path)))
	check(t, err)
	if g.Recipients[0].Origin != "" {
		t.Errorf("mail that is not moved any more has the origin %q", g.Recipients[0].Origin)
	}
}
