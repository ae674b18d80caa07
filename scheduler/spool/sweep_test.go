package spool

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long a test waits for what must come, before it fails.
const patience = 2 * time.Minute

// found is the next batch of names.
func (o *testSpool) found() []Name {
	o.t.Helper()
	select {
	case names := <-o.s.Found():
		return names
	case <-time.After(patience):
		o.t.Fatal("nothing was found")
		return nil
	}
}

// sweep returns all names up to the end of the next whole sweep, sorted. It
// takes none of them.
func (o *testSpool) sweep() []string {
	o.t.Helper()
	var paths []string
	for {
		select {
		case names := <-o.s.Found():
			if len(names) > batchLimit {
				o.t.Fatalf("a batch of %d", len(names))
			}
			for _, n := range names {
				paths = append(paths, n.Path)
			}
		case results := <-o.s.Results():
			for _, r := range results {
				if _, over := r.(Swept); over {
					slices.Sort(paths)
					return paths
				}
			}
		case <-time.After(patience):
			o.t.Fatal("no sweep came to its end")
		}
	}
}

func TestSweepFindsControlFiles(t *testing.T) {
	o := newTestSpool(t)
	want := []string{"258367", "258367-789", "77-etrn", "A/7", "A/H/8", "Z/Z/18446744073709551615"}
	slices.Sort(want)
	for _, path := range append(want, ".9", "A/.10", "..etrn-x1", "0", "00", "x11", "-12", "a/13",
		"AB/14", "A/B/C/15", "1/16", "18446744073709551616", "17\n18", "19\t20") {
		o.write("transport/"+path, "")
	}
	check(t, os.Symlink("258367", filepath.Join(o.dir, "transport/21")))
	check(t, os.Symlink("A", filepath.Join(o.dir, "transport/B")))
	check(t, unix.Mkfifo(filepath.Join(o.dir, "transport/22"), 0o600))
	o.open(Options{})
	if got := o.sweep(); !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
	// What was not taken is found again.
	o.s.Sweep()
	if got := o.sweep(); !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

func TestSweepGivesEachNameOnce(t *testing.T) {
	o := newTestSpool(t)
	var want []string
	for i := range 2000 {
		path := strconv.Itoa(10000 + i)
		if i%2 == 0 {
			path = string([]byte{'A' + byte(i%26), '/', 'A' + byte(i/26%26), '/'}) + path
		}
		o.write("transport/"+path, "")
		want = append(want, path)
	}
	slices.Sort(want)
	if got := o.open(Options{}).sweep(); !slices.Equal(got, want) {
		t.Errorf("found %d names, want %d", len(got), len(want))
	}
}

// A sweep that found enough that is new ends, and goes on where it stopped
// when that is digested.
func TestSweepStopsAtItsLimit(t *testing.T) {
	const limit = 10
	o := newTestSpool(t)
	for i := range 95 {
		name := strconv.Itoa(1000 + i)
		o.put(name, control(name, toBob))
	}
	o.open(Options{NewLimit: 3}) // which is too low
	seen := map[string]bool{}
	asked, answered := 0, 0
	for {
		select {
		case names := <-o.s.Found():
			// One batch more is under way when the limit is seen.
			if asked-answered >= 2*limit {
				t.Fatalf("%d found with %d of %d answered", len(names), answered, asked)
			}
			for _, n := range names {
				if seen[n.Path] {
					t.Errorf("%s was found twice", n.Path)
				}
				seen[n.Path] = true
			}
			asked += len(names)
			o.s.Load(names)
		case results := <-o.s.Results():
			for _, r := range results {
				switch r.(type) {
				case Loaded:
					answered++
				case Swept:
					if len(seen) != 95 {
						t.Errorf("found %d", len(seen))
					}
					return
				}
			}
		}
	}
}

func TestSweepPassesOverWhatWaits(t *testing.T) {
	in := newRefusals()
	now := time.Now()
	busy, fresh := Name{"7", 7}, Name{"8", 8}
	list := func() []Name { return []Name{busy, fresh} }

	for try := range 7 {
		if got := in.add(busy, now, now, busyRetry, ""); got != try+1 {
			t.Errorf("refusal %d is counted as %d", try+1, got)
		}
		pause := []time.Duration{firstRetry, 2 * firstRetry, 4 * firstRetry, 8 * firstRetry, 16 * firstRetry, busyRetry, busyRetry}[try]
		if got := in.skip(list()); !slices.Equal(got, []Name{fresh}) {
			t.Errorf("the sweep gives %v", got)
		}
		names, next := in.due(now.Add(pause - 1))
		if len(names) != 0 || !next.Equal(now.Add(pause)) {
			t.Errorf("due are %v, next at %v", names, next)
		}
		names, next = in.due(now.Add(pause))
		if again := now.Add(pause + busyRetry); !slices.Equal(names, []Name{busy}) || !next.Equal(again) {
			t.Errorf("due are %v, next at %v", names, next)
		}
	}
	in.remove("7")
	if got := in.add(busy, now, now, 0, ""); got != 1 {
		t.Errorf("refusal 1 is counted as %d", got)
	}
}

// Hints keep bringing names: what a sweep found is digested all the same.
func TestBacklogIsCounted(t *testing.T) {
	q := newResultQueue()
	q.ask(2)
	q.answer(1)
	q.ask(1)
	if asked, answered := q.counts(); asked != 3 || answered != 1 {
		t.Errorf("%d asked, %d answered", asked, answered)
	}
	select {
	case <-q.progress:
	default:
		t.Error("nobody was told")
	}
}

func TestWaitingIsBounded(t *testing.T) {
	in := newRefusals()
	now := time.Now()
	for i := range waitLimit + 100 {
		in.add(Name{strconv.Itoa(i), uint64(i)}, now, now, busyRetry, "")
	}
	if len(in.waiting) != waitLimit {
		t.Errorf("%d names wait", len(in.waiting))
	}
	// The refusals of names that are not remembered count together.
	for i := range 3 {
		if tries := in.add(Name{"beyond" + strconv.Itoa(i), uint64(i)}, now, now, busyRetry, ""); tries != 101+i {
			t.Errorf("try %d of a name that is not remembered", tries)
		}
	}
	in.remove("7")
	if tries := in.add(Name{"x", 1}, now, now, busyRetry, ""); len(in.waiting) != waitLimit || tries != 1 {
		t.Errorf("%d names wait, after try %d", len(in.waiting), tries)
	}
}

// The spool looks at a refused name again by itself.
func TestRefusedNamesComeBack(t *testing.T) {
	o := newTestSpool(t).open(Options{})
	o.sweep()
	o.s.refusals.add(Name{"A/H/7", 7}, time.Now().Add(-time.Hour), time.Now(), time.Hour, "")
	if got := o.found(); !slices.Equal(got, []Name{{"A/H/7", 7}}) {
		t.Errorf("found %v", got)
	}
}

func TestSchedule(t *testing.T) {
	now := time.Date(2003, 3, 12, 22, 38, 19, 0, time.UTC)
	var p schedule
	if p.rest(now) != 0 || !p.whole(now) {
		t.Error("the first sweep is not a whole one at once")
	}
	for _, c := range []struct {
		busy    time.Duration
		backlog uint64
		rest    time.Duration
	}{
		{0, 0, 10 * time.Second},
		{0, 31, 10 * time.Second},
		{0, 100, 13 * time.Second},
		{0, 1000000, 20 * time.Second},
		{100 * time.Millisecond, 0, 10 * time.Second},
		{time.Second, 0, 19 * time.Second},
		{time.Minute, 1000000, 19 * time.Minute},
	} {
		p = schedule{}
		p.swept(now, true, c.busy, c.backlog)
		if got := p.rest(now); got != c.rest {
			t.Errorf("%+v: rest %v", c, got)
		}
	}

	p = schedule{}
	p.swept(now, true, 0, 0)
	for range 11 { // the top, every 10 s
		now = now.Add(p.rest(now))
		if p.whole(now) {
			t.Fatal("whole too soon")
		}
		p.swept(now, false, 0, 0)
	}
	if now = now.Add(p.rest(now)); !p.whole(now) {
		t.Error("no whole sweep after 120 s")
	}
	p.swept(now, true, 10*time.Millisecond, 0)
	p.hasten()
	if rest := p.rest(now); rest != 190*time.Millisecond || !p.whole(now.Add(rest)) {
		t.Errorf("hastened: rest %v", rest)
	}
}

// A whole sweep that could not begin is still to be made, and soon.
func TestSweepThatCannotBegin(t *testing.T) {
	o := newTestSpool(t).open(Options{})
	o.sweep()
	w := newSweeper(o.s)
	if read, open := w.sweep(true); !read || !open {
		t.Errorf("read %v, open %v", read, open)
	}
	check(t, os.Rename(filepath.Join(o.dir, "transport"), filepath.Join(o.dir, "away")))
	if read, open := w.sweep(true); read || !open {
		t.Errorf("read %v, open %v, and there is nothing", read, open)
	}

	now := time.Date(2003, 3, 12, 22, 38, 19, 0, time.UTC)
	var p schedule
	p.failed(now)
	if rest := p.rest(now); rest != 10*time.Second || !p.whole(now.Add(rest)) {
		t.Errorf("rest %v", rest)
	}
}

// The first names of a directory of any size come before the rest is read.
func TestSweepStreams(t *testing.T) {
	o := newTestSpool(t)
	for i := range 3000 {
		o.write(fmt.Sprintf("transport/%d", 10000+i), "")
	}
	o.open(Options{})
	first := o.found()
	if len(first) > batchLimit {
		t.Errorf("the first batch has %d names", len(first))
	}
	// Nothing more is read while nobody receives: a name that is gone now
	// may only come if it was in what the first system call read.
	for _, path := range o.files() {
		check(t, os.Remove(filepath.Join(o.dir, path)))
	}
	if rest := len(o.sweep()); rest >= 3000-len(first) {
		t.Errorf("all %d others were read by then", rest)
	}
}
