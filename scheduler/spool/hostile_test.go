package spool

// Control files that somebody wants to do harm with, or that a fault has changed.

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
)

// damaged is a control file with one byte changed.
type damaged struct {
	number int
	how    string
	at     int    // the place of the byte
	text   string // with the change
	shift  int    // how far what comes after it has moved
	cut    bool   // nothing comes after it
}

// damages makes every file that one changed byte makes of a valid one. The valid one has
// a name of six digits.
func damages(valid func(name string) string) (list []damaged) {
	number := 100000
	add := func(how string, at, shift int, change func(text string) string) {
		number++
		text := change(valid(fmt.Sprint(number)))
		list = append(list, damaged{number, how, at, text, shift, how == "cut"})
	}
	for at := range len(valid("100000")) {
		for _, c := range []struct {
			how string
			of  func(c byte) byte
		}{
			{"lowest bit flipped", func(c byte) byte { return c ^ 1 }},
			{"highest bit flipped", func(c byte) byte { return c ^ 0x80 }},
			{"NUL", func(byte) byte { return 0 }},
			{"newline", func(byte) byte { return '\n' }},
		} {
			add(c.how, at, 0, func(text string) string { return text[:at] + string([]byte{c.of(text[at])}) + text[at+1:] })
		}
		add("cut", at, 0, func(text string) string { return text[:at] })
		add("doubled", at, 1, func(text string) string { return text[:at+1] + text[at:] })
	}
	return list
}

// TestEveryByteOfAControlFile: a file with a changed byte is loaded or put into
// quarantine. No file is lost, and recipients whose lines are whole are still there.
func TestEveryByteOfAControlFile(t *testing.T) {
	const toDave = "r-          smtp c.example dave@c.example 65534"
	valid := func(name string) string {
		text := control(name, toBob, "N NOTIFY=SUCCESS ORCPT=rfc822;bob@b.example", toCarol, toDave)
		return text + fmt.Sprintf("d %d:-1:-1::1700000000\t\x03\x01failed\x015.1.1\x01smtp; 550\x01dns; c.example\tno such user\n",
			offset(t, text, "dave@"))
	}
	o := newTestSpool(t)
	all := damages(valid)
	var paths []string
	for _, d := range all {
		o.put(fmt.Sprint(d.number), d.text)
		paths = append(paths, fmt.Sprint(d.number))
	}
	o.open(Options{})
	loaded, refused := map[string]Loaded{}, map[string]Refused{}
	for _, r := range o.load(paths...) {
		switch r := r.(type) {
		case Loaded:
			loaded[r.Name.Path] = r
		case Refused:
			refused[r.Name.Path] = r
		}
	}
	for _, d := range all {
		name := fmt.Sprint(d.number)
		m, ok := loaded[name]
		if ok {
			o.checkDamaged(valid(name), &d, &m)
			continue
		}
		// A control file without an i line is a trigger, which has no message.
		if why := refused[name].Why; why != Quarantined {
			t.Errorf("%s at %d: refused: %v, %s", d.how, d.at, why, refused[name].Reason)
			continue
		}
		if o.read("corrupt/transport/"+name) != d.text || o.read("corrupt/queue/"+name) == "" || o.read("corrupt/transport/"+name+".reason") == "" {
			t.Errorf("%s at %d: in quarantine, and not as it was", d.how, d.at)
		}
	}
	t.Logf("%d files: %d loaded, %d in quarantine", len(all), len(loaded), len(refused))
}

// checkDamaged checks that a message has all recipients whose lines are whole, and that
// marking them changes nothing but their tags. (d lines may follow.)
func (o *testSpool) checkDamaged(valid string, d *damaged, m *Loaded) {
	o.t.Helper()
	has := map[int64]string{}
	marks := []ctlfile.Mark{}
	for _, r := range m.Recipients {
		has[r.Offset] = r.Channel + "/" + r.Host
		marks = append(marks, ctlfile.Mark{Offset: r.Offset, Tag: ctlfile.Delivered})
	}
	for line, want := range map[string]string{toBob: "smtp/b.example", toCarol: "local/-"} {
		if d.cut && !strings.Contains(d.text, "\nm\n") {
			// Between two lines nothing shows that lines are missing. The programs
			// give a control file its name when it is complete and on disk.
			continue
		}
		begin := strings.Index(valid, line)
		end := begin + len(line)
		if begin-1 <= d.at && d.at <= end && !d.cut {
			continue // the change is in the line or at its ends
		}
		if d.at < begin && !d.cut {
			begin += d.shift
		}
		if has[int64(begin)] != want {
			o.t.Errorf("%s at %d: the line %q is whole, and its recipient is gone: %v", d.how, d.at, line, has)
		}
	}
	path := m.Name.Path
	before := o.read("transport/" + path)
	if len(marks) == 0 {
		return
	}
	o.marked(path, marks...)
	want := []byte(before)
	for _, mark := range marks {
		want[mark.Offset+1] = '+'
	}
	if got := o.read("transport/" + path); !strings.HasPrefix(got, string(want)) {
		o.t.Errorf("%s at %d: marking made\n%q of\n%q", d.how, d.at, got, before)
	}
}

// TestHugeControlFiles: 200 000 recipients are mail like other mail; a gigabyte goes
// to quarantine, and is not read.
func TestHugeControlFiles(t *testing.T) {
	const many = 200_000
	lines := make([]string, many)
	for i := range lines {
		lines[i] = fmt.Sprintf("r           smtp h%d.example u%d@h%d.example 65534", i%1000, i, i%1000)
	}
	o := newTestSpool(t)
	o.put("7", control("7", lines...))
	o.put("8", "")
	check(t, os.Truncate(filepath.Join(o.dir, "transport/8"), 1000*1000*1000))
	o.age("transport/8", time.Hour)
	o.open(Options{})

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	o.refused("8", Quarantined)
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 10<<20 {
		t.Errorf("a file of a gigabyte took %d bytes of memory", used)
	}
	m := o.loaded("7")
	if len(m.Recipients) != many {
		t.Fatalf("%d recipients", len(m.Recipients))
	}
	last := m.Recipients[many-1]
	o.marked("7", ctlfile.Mark{Offset: last.Offset, Tag: ctlfile.Delivered})
	if tail := o.read("transport/7")[last.Offset:]; !strings.HasPrefix(tail, "r+") {
		t.Errorf("the last recipient was delivered, and its line is %.50q", tail)
	}
}

// TestNumbersThatCollide: two control files of one number, in different hash
// directories, have one message file. One of them becomes a message. The other one and
// what lies at its new place are kept.
func TestNumbersThatCollide(t *testing.T) {
	o := newTestSpool(t)
	o.put("A/H/7", control("7", toBob))
	o.write("transport/7", control("7", toCarol))
	o.write("transport/H/7", control("7", toBob, toCarol))
	o.mkdir("queue/H")
	o.write("hold/transport/A/H/7", "held")
	o.write("hold/queue/A/H/7", "held")
	o.open(Options{HashLevels: 2})
	names := map[string]int{}
	for _, r := range o.load("7", "A/H/7", "H/7") {
		switch r := r.(type) {
		case Loaded:
			names["loaded"]++
		case Refused:
			names[fmt.Sprint(r.Why)]++
		}
	}
	if names["loaded"] != 1 || names[fmt.Sprint(Quarantined)] != 2 {
		t.Errorf("results: %v", names)
	}
	texts := 0
	for _, file := range o.files() {
		if strings.Contains(file, "transport/") && !strings.HasSuffix(file, ".reason") {
			texts++
		}
	}
	if texts != 4 || o.read("hold/transport/A/H/7") != "held" {
		t.Errorf("a control file is lost: %q", o.files())
	}
}

// TestDeepAndForeignDirectories: only the hash directories are read, down to their
// depth, and links are not followed.
func TestDeepAndForeignDirectories(t *testing.T) {
	outside := t.TempDir()
	for _, file := range []string{"5", "A/6"} {
		path := filepath.Join(outside, file)
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check(t, os.WriteFile(path, []byte(control(filepath.Base(file), toBob)), 0o644))
	}
	before := snapshot(t, outside)
	o := newTestSpool(t)
	o.put("A/H/7", control("7", toBob))
	o.write("transport/A/B/C/8", control("8", toBob))
	o.write("transport/"+strings.Repeat("A/", 500)+"9", control("9", toBob))
	check(t, os.Symlink(outside, filepath.Join(o.dir, "transport/B")))
	check(t, os.Symlink(outside, filepath.Join(o.dir, "transport/A/C")))
	o.open(Options{HashLevels: 2})
	var found []string
	for !o.swept(&found) {
	}
	if len(found) != 1 || found[0] != "A/H/7" {
		t.Errorf("the sweep found %q", found)
	}
	o.refused("B/5", Unreadable)
	if after := snapshot(t, outside); after != before {
		t.Errorf("outside:\n%s\nwas\n%s", after, before)
	}
}

// swept notes the names of a batch, and reports whether a whole sweep has ended.
func (o *testSpool) swept(found *[]string) bool {
	select {
	case names := <-o.s.Found():
		for _, n := range names {
			*found = append(*found, n.Path)
		}
	case results := <-o.s.Results():
		for _, r := range results {
			if _, ok := r.(Swept); ok {
				return true
			}
		}
	}
	return false
}

// snapshot describes all files below a directory.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	check(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s mode %o owner %d:%d", path, st.Mode, st.Uid, st.Gid)
		if d.Type().IsRegular() {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " changed %d: %q", st.Mtim.Nano(), text)
		}
		b.WriteByte('\n')
		return nil
	}))
	return b.String()
}
