package spool

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func (o *testSpool) holdThreads(list ...Thread) Recorded {
	o.t.Helper()
	o.s.HoldThreads(6, list, nil)
	r := answer[Recorded](o)
	if r.Op != 6 {
		o.t.Fatalf("%+v", r)
	}
	return r
}

func (o *testSpool) heldThreads() []Thread {
	o.t.Helper()
	list, _, err := o.s.HeldThreads()
	check(o.t, err)
	return list
}

func TestHeldThreads(t *testing.T) {
	o := newTestSpool(t).open(Options{})
	if list := o.heldThreads(); list != nil {
		t.Errorf("%q in no file", list)
	}
	odd := []Thread{
		{"#x", `a\ b`}, {"local", "-"}, {"smtp", `"a b".example`}, {"smtp", "b.example"}, {"smtp", "\xff\x01\r"},
	}
	if r := o.holdThreads(append([]Thread{{"SMTP", "B.Example"}, {"local", ""}}, odd...)...); r.Err != nil {
		t.Fatal(r.Err)
	}
	if list := o.heldThreads(); !slices.Equal(list, odd) {
		t.Errorf("read %q, want %q", list, odd)
	}
	const want = " #x\ta\\ b\nlocal\t-\nsmtp\t\"a b\".example\nsmtp\tb.example\nsmtp\t\xff\x01\r\n# end\n"
	if got := o.read("hold/threads"); got != want {
		t.Errorf("file %q, want %q", got, want)
	}
	if r := o.holdThreads(); r.Err != nil || o.read("hold/threads") != "# end\n" {
		t.Errorf("%+v, file %q", r, o.read("hold/threads"))
	}
	o.holds("hold/threads")
}

func TestSuspendedThreads(t *testing.T) {
	o := newTestSpool(t).open(Options{})
	since := time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)
	list := []Suspension{
		{Thread{"#x", "a"}, since, since.Add(time.Hour), "root uid 0", "two words"},
		{Thread{"smtp", "b.example"}, since, time.Time{}, "", ""},
	}
	o.s.HoldThreads(6, []Thread{{"smtp", "a.example"}}, list)
	if r := answer[Recorded](o); r.Err != nil {
		t.Fatal(r.Err)
	}
	const want = "smtp\ta.example\n #x\ta\tsuspended\t2026-11-22T08:00:00Z\t2026-11-22T09:00:00Z\troot uid 0\ttwo words\n" +
		"smtp\tb.example\tsuspended\t2026-11-22T08:00:00Z\t-\t\t\n# end\n"
	if got := o.read("hold/threads"); got != want {
		t.Errorf("file %q, want %q", got, want)
	}
	held, got, err := o.s.HeldThreads()
	if err != nil || len(held) != 1 || !slices.Equal(got, list) {
		t.Errorf("held %v, suspended %+v, %v", held, got, err)
	}
	list[1].Why = "a\ttab\nand a line"
	o.s.HoldThreads(7, nil, list[1:])
	answer[Recorded](o)
	if _, got, err := o.s.HeldThreads(); err != nil || len(got) != 1 || got[0].Why != "a tab and a line" {
		t.Errorf("suspended %+v, %v", got, err)
	}
}

func TestHeldThreadsAsPeopleWriteThem(t *testing.T) {
	for text, want := range map[string][]Thread{
		"":                                     nil,
		"# all of them\n\n \t\nsmtp b.example": {{"smtp", "b.example"}},
		"  SMTP \t B.Example  \nlocal\t-\n":    {{"local", "-"}, {"smtp", "b.example"}},
		"smtp ((mx1.example) (mx2))\n":         nil,
		"smtp ((MX1.example)(mx2.example))\n":  {{"smtp", "mx1.example"}},
	} {
		list, err := parseThreads(text)
		if !slices.Equal(list, want) || (err != nil) != (text != "" && want == nil) {
			t.Errorf("%q: %q, %v", text, list, err)
		}
	}
}

// What is wrong is told by its line, and costs nothing else.
func TestHeldThreadsWithBadLines(t *testing.T) {
	list, err := parseThreads("smtp a.example\nsmtp\nsmtp \"b.example\nsmtp c.example d\nsmtp e\x00\nsmtp f.example\n")
	if want := []Thread{{"smtp", "a.example"}, {"smtp", "f.example"}}; !slices.Equal(list, want) {
		t.Errorf("%q", list)
	}
	for _, line := range []string{"line 2:", "line 3:", "line 4:", "line 5:"} {
		if err == nil || !strings.Contains(err.Error(), line) {
			t.Errorf("%v does not tell of %s", err, line)
		}
	}
	if err != nil && strings.Contains(err.Error(), "line 6") {
		t.Errorf("%v", err)
	}
}

// A list that is cut, filled with zero bytes, emptied or removed releases no thread that a
// hold record names and lifts no suspension, and the error names the file.
func TestDamagedListOfHeldThreads(t *testing.T) {
	o := newTestSpool(t).open(Options{})
	threads := []Thread{{"smtp", "a.example"}, {"smtp", "b.example"}}
	for _, thread := range threads {
		check(t, o.s.RecordHold(HoldRecord{Since: time.Now(), Threads: []Thread{thread}}))
	}
	now := time.Now().Truncate(time.Second).UTC()
	moving := Suspension{Thread: Thread{"smtp", "c.example"}, Since: now, Until: now.Add(time.Hour), By: "root", Why: "they are moving"}
	o.s.HoldThreads(6, threads, []Suspension{moving})
	answer[Recorded](o)
	list := o.read("hold/threads")
	look := func(text string) []Suspension {
		t.Helper()
		held, suspended, err := o.s.HeldThreads()
		if !slices.Equal(held, threads) {
			t.Errorf("%q: %v are held", text, held)
		}
		if !errors.Is(err, ErrDamagedThreads) || !strings.Contains(err.Error(), "hold/threads") {
			t.Errorf("%q: %v", text, err)
		}
		return suspended
	}
	whole := func(text string, suspended []Suspension) {
		t.Helper()
		if !slices.Equal(suspended, []Suspension{moving}) {
			t.Errorf("%q: %+v are suspended", text, suspended)
		}
	}
	for n := range len(list) {
		o.write("hold/threads", list[:n])
		whole(list[:n], look(list[:n]))
	}
	for _, text := range []string{strings.Repeat("\x00", len(list)), strings.Replace(list, "a.example", "a.ex\x00\x00ple", 1), "smtp\ta.example\n"} {
		o.write("hold/threads", text)
		whole(text, look(text))
	}
	check(t, os.Remove(filepath.Join(o.dir, "hold/threads")))
	whole("no file", look("no file"))

	// Of a list of an earlier version there is no second one.
	o.write("hold/threads", strings.TrimSuffix(list, "# end\n"))
	check(t, os.Remove(filepath.Join(o.dir, "hold/suspensions")))
	whole("no second file", look("no second file"))
	o.write("hold/threads", list[:strings.Index(list, "c.example")+len("c.example")+2])
	if suspended := look("no second file"); len(suspended) != 1 || suspended[0].Thread.Host != "c.example" || !suspended[0].Until.IsZero() {
		t.Errorf("%+v are suspended", suspended)
	}
}

// What is lifted is in no second list, and a list that is intact is all that counts.
func TestSecondListOfSuspendedThreads(t *testing.T) {
	o := newTestSpool(t).open(Options{})
	one := Suspension{Thread: Thread{"smtp", "c.example"}, Since: time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC), By: "root", Why: "x"}
	o.s.HoldThreads(6, nil, []Suspension{one})
	answer[Recorded](o)
	const want = "smtp\tc.example\tsuspended\t2026-11-22T08:00:00Z\t-\troot\tx\n# end\n"
	if got := o.read("hold/suspensions"); got != want || got != o.read("hold/threads") {
		t.Errorf("%q", got)
	}
	o.write("hold/threads", "# end\n")
	if _, suspended, err := o.s.HeldThreads(); err != nil || len(suspended) != 0 {
		t.Errorf("%v, %v", suspended, err)
	}
	if r := o.holdThreads(); r.Err != nil {
		t.Fatal(r.Err)
	}
	o.holds("hold/threads")
}

// A list that cannot be written leaves the old one, and nothing beside it.
func TestHoldThreadsThatFails(t *testing.T) {
	o := newTestSpool(t)
	o.write("hold/threads", "smtp a.example\n# end\n")
	o.open(Options{})
	if r := o.holdThreads(Thread{"smtp", "a\nsmtp b"}); r.Err == nil {
		t.Error("a line end was written")
	}
	o.holds("hold/threads")
	check(t, os.Mkdir(filepath.Join(o.dir, "hold/.threads"), 0o755))
	if r := o.holdThreads(Thread{"smtp", "b.example"}); r.Err == nil {
		t.Error("no error")
	}
	if list := o.heldThreads(); !slices.Equal(list, []Thread{{"smtp", "a.example"}}) {
		t.Errorf("%q", list)
	}
}

// The new list is beside the old one and has not its name yet.
func TestCrashInHoldThreads(t *testing.T) {
	o := newTestSpool(t)
	o.write("hold/threads", "smtp a.example\n# end\n")
	o.write("hold/.threads", "smtp a.exa")
	o.open(Options{})
	if list := o.heldThreads(); !slices.Equal(list, []Thread{{"smtp", "a.example"}}) {
		t.Errorf("%q", list)
	}
	if r := o.holdThreads(Thread{"smtp", "b"}); r.Err != nil {
		t.Fatal(r.Err)
	}
	if got := o.read("hold/threads"); got != "smtp\tb\n# end\n" {
		t.Errorf("%q", got)
	}
	o.holds("hold/threads")
}

// What was read is written and read again the same.
func FuzzThreads(f *testing.F) {
	f.Add("smtp\texample.org\n#x y\n #z \"a b\"\nlocal -\n")
	f.Add("0 (\n0 (a\\ b\n")
	f.Add("smtp ((mx1)(mx2 mx3))\nx (y\n\\# z\\ \n")
	f.Fuzz(func(t *testing.T, text string) {
		list, _ := parseThreads(text)
		printed, err := printThreads(list)
		if err != nil {
			t.Fatalf("%q: %v", list, err)
		}
		again, err := parseThreads(string(printed))
		if err != nil || !slices.Equal(list, again) {
			t.Errorf("%q was read, %q written, %q read again: %v", list, printed, again, err)
		}
	})
}
