package spool

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
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
	want = append(want, "1", "21", "22") // which Load refuses
	slices.Sort(want)
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

func TestRefusedNamesWaitLongerEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		announced := make(chan Name, 1)
		in := &refusals{waiting: map[string]wait{}, announce: func(n Name) { announced <- n }}
		busy := Name{"7", 7}
		for try, pause := range []time.Duration{firstRetry, 2 * firstRetry, 4 * firstRetry, 8 * firstRetry, lastRetry, lastRetry} {
			began := time.Now()
			if got := in.add(busy, began, ""); got != try+1 {
				t.Errorf("refusal %d is counted as %d", try+1, got)
			}
			if n := <-announced; n != busy || time.Since(began) != pause {
				t.Errorf("%v is announced after %v, want %v", n, time.Since(began), pause)
			}
		}
		in.remove("7")
		if got := in.add(busy, time.Now(), ""); got != 1 {
			t.Errorf("refusal 1 is counted as %d", got)
		}
		in.remove("7")
		time.Sleep(time.Minute)
		if len(announced) > 0 {
			t.Error("a name that does not wait is announced")
		}
	})
}

func TestWaitingIsBounded(t *testing.T) {
	in := &refusals{waiting: map[string]wait{}, announce: func(Name) {}}
	now := time.Now()
	for i := range waitLimit + 100 {
		in.add(Name{strconv.Itoa(i), uint64(i)}, now, "")
	}
	if len(in.waiting) != waitLimit {
		t.Errorf("%d names wait", len(in.waiting))
	}
	// The refusals of names that are not remembered count together.
	for i := range 3 {
		if tries := in.add(Name{"beyond" + strconv.Itoa(i), uint64(i)}, now, ""); tries != 101+i {
			t.Errorf("try %d of a name that is not remembered", tries)
		}
	}
	in.remove("7")
	if tries := in.add(Name{"x", 1}, now, ""); len(in.waiting) != waitLimit || tries != 1 {
		t.Errorf("%d names wait, after try %d", len(in.waiting), tries)
	}
}

// The spool looks at a refused name again by itself.
func TestRefusedNamesComeBack(t *testing.T) {
	o := newTestSpool(t).open(Options{})
	o.sweep()
	o.s.refusals.add(Name{"A/H/7", 7}, time.Now(), "")
	if got := o.found(); !slices.Equal(got, []Name{{"A/H/7", 7}}) {
		t.Errorf("found %v", got)
	}
}

// A directory that hangs does not keep new mail from being found for long, and an order to sweep is
// carried out at once.
func TestRestAfterASlowSweepIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Spool{done: make(chan struct{}), sweeps: make(chan struct{}, 1), ordered: make(chan struct{}, 1)}
		for _, c := range []struct {
			took time.Duration
			ask  func()
			want time.Duration // until the next sweep
		}{
			{0, func() { wake(s.sweeps) }, 0},
			{time.Second, func() { wake(s.sweeps) }, 19 * time.Second},
			{time.Hour, func() { wake(s.sweeps) }, 30 * time.Second},
			{time.Hour, func() {}, 30*time.Second + sweepEvery},
			{0, func() {}, sweepEvery},
			{time.Hour, s.Sweep, 0},
			{0, func() { time.AfterFunc(time.Second, s.Sweep) }, time.Second},
			{time.Hour, func() { time.AfterFunc(time.Second, s.Sweep) }, time.Second},
		} {
			began := time.Now()
			c.ask()
			if open := s.awaitSweep(c.took); !open || time.Since(began) != c.want {
				t.Errorf("after a sweep of %v, the next is after %v, want %v; open %v", c.took, time.Since(began), c.want, open)
			}
		}
		close(s.done)
		if s.awaitSweep(time.Hour) {
			t.Error("a closed spool is swept")
		}
	})
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
