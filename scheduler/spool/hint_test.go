package spool

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Whatever a hint brings, the next sweep of transport/ is 10 s off and that
// of its directories two minutes: what comes before that came by the hint.

func TestWatchHears(t *testing.T) {
	o := newTestSpool(t)
	o.mkdir("transport/A")
	o.mkdir("transport/B/I")
	o.open(Options{})
	o.sweep()
	var told []Name
	for _, path := range []string{"A/H/7", "B/I/15582", "9", "C/10"} {
		o.write("tmp", "")
		o.mkdir(filepath.Dir("transport/" + path))
		check(t, os.Rename(filepath.Join(o.dir, "tmp"), filepath.Join(o.dir, "transport", path)))
		// A file that came with its directory may be told of twice.
		for got := o.found(); !slices.ContainsFunc(got, ofPath(path)); got = o.found() {
			for _, again := range got {
				if !slices.ContainsFunc(told, ofPath(again.Path)) {
					t.Fatalf("found %v, want %s", got, path)
				}
			}
		}
		told = append(told, Name{Path: path})
	}
}

func ofPath(path string) func(Name) bool { return func(n Name) bool { return n.Path == path } }

// A directory may have files before anybody can watch it.
func TestWatchLooksIntoNewDirectories(t *testing.T) {
	o := newTestSpool(t)
	for i := range 300 {
		o.write("tmp/Q/"+string([]byte{'1' + byte(i/100), '0' + byte(i/10%10), '0' + byte(i%10)}), "")
	}
	o.open(Options{})
	o.sweep()
	check(t, os.Rename(filepath.Join(o.dir, "tmp"), filepath.Join(o.dir, "transport/P")))
	n := 0
	for n < 300 {
		for _, name := range o.found() {
			if !strings.HasPrefix(name.Path, "P/Q/") {
				t.Fatalf("found %v", name)
			}
			n++
		}
	}
	if n != 300 {
		t.Errorf("%d names", n)
	}
}

// What agents do to files all day makes no events, and a name that is none is ignored.
func TestWatchHeedsNewNamesOnly(t *testing.T) {
	o := newTestSpool(t)
	o.write("transport/A/H/7", "")
	o.open(Options{})
	o.sweep()
	path := filepath.Join(o.dir, "transport/A/H/7")
	check(t, os.WriteFile(path, []byte("tagged"), 0o600))
	check(t, os.Remove(path))
	o.write("transport/A/H/.11", "")
	o.write("transport/A/H/x", "")
	o.write("transport/A/H/9", "")
	if got := o.found(); !slices.Equal(got, []Name{{"A/H/9", 9}}) {
		t.Errorf("found %v", got)
	}
}

// What was lost on the way is swept up.
func TestWatchOverflowBringsTheSweepForward(t *testing.T) {
	s := &Spool{sweeps: make(chan struct{}, 1), queue: resultQueue{ready: make(chan struct{}, 1)}}
	overflow := make([]byte, unix.SizeofInotifyEvent)
	binary.NativeEndian.PutUint32(overflow[4:], unix.IN_Q_OVERFLOW)
	if !(&watcher{s: s}).events(overflow) {
		t.Error("it ends")
	}
	select {
	case <-s.sweeps:
	default:
		t.Error("no sweep")
	}
	if len(s.queue.results) != 0 {
		t.Errorf("results %v", s.queue.results)
	}
}

func TestParseNotification(t *testing.T) {
	for text, want := range map[string]Name{
		"NEW 258367":                         {"258367", 258367},
		"NEW F/258367":                       {"F/258367", 258367},
		"NEW F/F/258367-1":                   {"F/F/258367-1", 258367},
		"NEW F/F/F/258367":                   {},
		"NEW f/258367":                       {},
		"NEW FF/258367":                      {},
		"NEW F//258367":                      {},
		"NEW /258367":                        {},
		"NEW ../258367":                      {},
		"NEW F/../258367":                    {},
		"NEW 0258367":                        {},
		"NEW .258367":                        {},
		"NEW x258367":                        {},
		"NEW 258367\n":                       {},
		"NEW 258367\x00":                     {},
		"NEW 258367\tb.example":              {},
		"NEW ":                               {},
		"NEW":                                {},
		"":                                   {},
		"new 258367":                         {},
		"OLD 258367":                         {},
		"NEW 99999999999999999999":           {},
		"NEW 1" + strings.Repeat("x", 999-5): {"1" + strings.Repeat("x", 999-5), 1},
		"NEW 1" + strings.Repeat("x", 999-4): {},
	} {
		if got, ok := parseNotification([]byte(text)); got != want || ok != (want.ID != 0) {
			t.Errorf("%.40q: %+v %v, want %+v", text, got, ok, want)
		}
	}
}

func FuzzParseNotification(f *testing.F) {
	f.Add([]byte("NEW F/F/258367"))
	f.Fuzz(func(t *testing.T, datagram []byte) {
		n, ok := parseNotification(datagram)
		if ok && ("NEW "+n.Path != string(datagram) || n.ID == 0 || !filepath.IsLocal(n.Path)) {
			t.Errorf("%q: %+v", datagram, n)
		}
	})
}

func notify(t *testing.T, socket string, datagrams ...string) {
	t.Helper()
	conn, err := net.Dial("unixgram", socket)
	check(t, err)
	defer conn.Close()
	for _, text := range datagrams {
		_, err := conn.Write([]byte(text))
		check(t, err)
	}
}

func TestNotify(t *testing.T) {
	o := newTestSpool(t)
	// What a daemon that was killed left behind.
	path := filepath.Join(o.dir, ".scheduler.notify")
	stale, err := net.ListenPacket("unixgram", path)
	check(t, err)
	stale.Close()
	_, err = os.Lstat(path)
	check(t, err)

	o.open(Options{})
	o.sweep()
	st, err := os.Lstat(path)
	check(t, err)
	if st.Mode() != os.ModeSocket|0o200 {
		t.Errorf("mode %v", st.Mode())
	}
	notify(t, path, "", "nonsense", "NEW F/F/258367", "NEW 1"+strings.Repeat("x", 2000), "NEW 7")
	var got []Name
	for len(got) < 2 {
		got = append(got, o.found()...)
	}
	if !slices.Equal(got, []Name{{"F/F/258367", 258367}, {"7", 7}}) {
		t.Errorf("found %v", got)
	}
}

func TestNotifySocketElsewhere(t *testing.T) {
	o := newTestSpool(t)
	path := filepath.Join(t.TempDir(), "notify")
	o.open(Options{NotifySocket: "UNIX:" + path})
	o.sweep()
	notify(t, path, "NEW 7")
	if got := o.found(); got[0].Path != "7" {
		t.Errorf("found %v", got)
	}
	o.close()
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is left: %v", err)
	}
}

// Without the socket there is still the sweep.
func TestNotifySocketThatCannotBeMade(t *testing.T) {
	o := newTestSpool(t)
	path := filepath.Join(o.dir, ".scheduler.notify")
	check(t, os.WriteFile(path, []byte("not ours"), 0o600))
	o.open(Options{})
	if r := answer[Warning](o); !strings.Contains(r.Text, "is not a socket") {
		t.Errorf("%+v", r)
	}
	if text := o.read(".scheduler.notify"); text != "not ours" {
		t.Errorf("the file is %q", text)
	}
}
