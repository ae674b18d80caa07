package router

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/internal/zenv"
	"zsched/router/table"
)

// office is a postoffice of a test.
type office struct {
	t   testing.TB
	dir string
	env *zenv.File
}

func newOffice(t testing.TB, levels int) *office {
	t.Helper()
	o := &office{t: t, dir: t.TempDir()}
	for _, name := range []string{"router", "queue", "transport", "share"} {
		if err := os.Mkdir(filepath.Join(o.dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	o.env = zenv.Parse(fmt.Appendf(nil, "POSTOFFICE=%s\nMAILSHARE=%s/share\nORGDOMAIN=mx.example\nSYSLOGFLG=none\nSCHEDULERDIRHASH=%d\n", o.dir, o.dir, levels))
	o.write("share/routes", "mx.example local\n* smtp\n")
	o.write("share/aliases", "list: x@a.example, y@b.example\nowner-list: root\nlist2: x@a.example\nowner-list2: root\n")
	return o
}

func (o *office) write(name, text string) {
	o.t.Helper()
	if err := os.WriteFile(filepath.Join(o.dir, name), []byte(text), 0o644); err != nil {
		o.t.Fatal(err)
	}
}

func (o *office) router() *Service {
	o.t.Helper()
	loader := table.NewLoader(o.env.Value("MAILSHARE"), o.env.Value("ORGDOMAIN"), "mx.example")
	if err := loader.Load(); err != nil {
		o.t.Fatal(err)
	}
	r, err := New(Options{Env: o.env, Loader: loader, Host: "mx.example", MaxHops: 100, Log: zerolog.New(zerolog.NewTestWriter(o.t))})
	if err != nil {
		o.t.Fatal(err)
	}
	r.queue.Levels, _ = o.env.HashLevels()
	o.t.Cleanup(r.queue.Close)
	return r
}

// files lists the regular files below a directory.
func (o *office) files(dir string) []string {
	o.t.Helper()
	var list []string
	err := filepath.WalkDir(filepath.Join(o.dir, dir), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			list = append(list, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		o.t.Fatal(err)
	}
	return list
}

// deliver does what a scheduler does with the control files that it sees: it adds
// sender and recipients to done and removes both files.
func (o *office) deliver(done map[string]int) {
	o.t.Helper()
	for _, path := range o.files("transport") {
		if strings.Contains(path, "/.router/") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			o.t.Fatal(err)
		}
		f, err := ctlfile.Parse(text)
		if err != nil {
			o.t.Fatalf("%s: %v", path, err)
		}
		message := strings.Replace(path, "/transport/", "/queue/", 1)
		if data, err := os.ReadFile(message); err != nil || !strings.HasSuffix(string(data), "\n\nbody\n") || string(data[f.Body:]) != "body\n" {
			o.t.Errorf("message %q, %v", data, err)
		}
		for _, r := range f.Recipients {
			done[f.Senders[r.Sender].User+" to "+r.User]++
		}
		if err := errors.Join(os.Remove(path), os.Remove(message)); err != nil {
			o.t.Fatal(err)
		}
	}
}

const toList = "from <s@a.example>\nto <bob@c.example>\nto list\nto list2\nto carol\nenv-end\nSubject: x\n\nbody\n"

var listDone = map[string]int{
	"s@a.example to bob@c.example": 1, "s@a.example to carol@mx.example": 1,
	"owner-list@mx.example to x@a.example": 1, "owner-list@mx.example to y@b.example": 1,
	"owner-list2@mx.example to x@a.example": 1,
	"s@a.example to z@d.example":            1,
}

type killed struct{}

// dieAt runs f until its step number n, where it dies, and reports whether there
// was such a step.
func dieAt(r *Service, n int, f func()) (died bool) {
	defer func() {
		if r.queue.Step = func(string) {}; died {
			return
		}
		if e := recover(); e != nil {
			if _, ok := e.(killed); !ok {
				panic(e)
			}
			died = true
		}
	}()
	r.queue.Step = func(string) {
		if n--; n < 0 {
			panic(killed{})
		}
	}
	f()
	return false
}

// TestKilledAtEveryStep: whatever the step at which the router dies, and with or
// without a scheduler that goes on meanwhile, each recipient gets one copy.
func TestKilledAtEveryStep(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	for _, delivering := range []bool{false, true} {
		for first, more := 0, true; more; first++ {
			for _, second := range []int{1000, 0, 1, 2, 3} {
				o := newOffice(t, 1)
				o.write("router/1", toList)
				o.write("router/2", "from <s@a.example>\nto <z@d.example>\nenv-end\nSubject: y\n\nbody\n")
				done := map[string]int{}
				newRouter := func() *Service {
					r := o.router()
					r.queue.SyncAll = func() error { return nil }
					return r
				}
				r := newRouter()
				more = dieAt(r, first, r.drain)
				if delivering {
					o.deliver(done)
				}
				r = newRouter()
				dieAt(r, second, r.drain)
				if delivering {
					o.deliver(done)
				}
				newRouter().drain()
				o.deliver(done)
				where := fmt.Sprintf("died at %d and %d, delivering %v", first, second, delivering)
				if !maps.Equal(done, listDone) {
					t.Errorf("%s: %v", where, done)
				}
				for _, dir := range []string{"router", "queue", "transport", "corrupt"} {
					if left := o.files(dir); len(left) > 0 {
						t.Errorf("%s: left %q", where, left)
					}
				}
				if !more {
					break
				}
			}
		}
	}
}

func TestSubmissionsOfABatchShareTheirSyncs(t *testing.T) {
	for _, c := range []struct{ submissions, levels, waits int }{{1, 0, 1}, {1, 2, 1}, {100, 0, 1}, {100, 2, 1}} {
		o := newOffice(t, c.levels)
		for i := range c.submissions {
			o.write(fmt.Sprint("router/", i+1), "from <s@a.example>\nto <z@d.example>\nenv-end\n\nbody\n")
		}
		r := o.router()
		waits, sync := 0, r.queue.SyncAll
		r.queue.SyncAll = func() error { waits++; return sync() }
		r.drain()
		if waits > c.waits || len(o.files("transport")) != c.submissions {
			t.Errorf("%+v: %d waits, %d queued", c, waits, len(o.files("transport")))
		}
	}
}

// The scheduler may give transport/ another group while the router runs.
func TestControlFileGetsTheGroupThatTransportHasNow(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to change groups")
	}
	const group = 65534
	o := newOffice(t, 0)
	r := o.router()
	if err := os.Chown(filepath.Join(o.dir, "transport"), -1, group); err != nil {
		t.Fatal(err)
	}
	o.write("router/1", "from <s@a.example>\nto <z@d.example>\nenv-end\n\nbody\n")
	r.drain()
	files := append(o.files("transport"), o.files("queue")...)
	if len(files) != 2 {
		t.Fatalf("queued: %q", files)
	}
	for _, path := range files {
		if !filepath.IsAbs(path) {
			path = filepath.Join(o.dir, path)
		}
		info, err := os.Stat(path)
		if err != nil || info.Sys().(*syscall.Stat_t).Gid != group {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
}

// A staged control file whose message is nowhere may be all that is left of it. It is put aside
// when its message has been away for an hour.
func TestLoneStagedControlFileIsKept(t *testing.T) {
	o := newOffice(t, 0)
	r := o.router()
	var log strings.Builder
	r.log = zerolog.New(&log)
	const staged = "transport/.router/4711"
	o.write(staged, "@ 0x00000007\n")
	r.drain()
	r.drain()
	if lines := strings.Count(log.String(), "\n"); lines != 1 || len(o.files("corrupt")) > 0 {
		t.Errorf("%q; %d lines: %s", o.files("corrupt"), lines, &log)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(o.dir, staged), old, old); err != nil {
		t.Fatal(err)
	}
	log.Reset()
	r.drain()
	r.drain()
	if files := o.files("corrupt/router"); len(files) != 2 || !strings.HasSuffix(files[0], "/4711.control") {
		t.Errorf("%q", files)
	}
	if strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), "moved to corrupt/router") {
		t.Errorf("log: %s", &log)
	}
}

// A hash directory of queue/ is away while the router starts after a crash, and meanwhile another
// one is made in its place.
func TestStagedControlFileWaitsForItsMessage(t *testing.T) {
	o := newOffice(t, 1)
	r := o.router()
	o.write("router/1", "from <s@a.example>\nto <z@d.example>\nenv-end\n\nbody\n")
	r.queue.Step = func(what string) {
		if strings.HasPrefix(what, "publish") {
			panic(what)
		}
	}
	func() {
		defer func() { _ = recover() }()
		r.drain()
	}()
	dir, away := filepath.Dir(o.files("queue")[0]), filepath.Join(o.dir, "away")
	if err := errors.Join(os.Rename(dir, away), os.Mkdir(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	r = o.router()
	r.drain()
	if err := errors.Join(os.Remove(dir), os.Rename(away, dir)); err != nil {
		t.Fatal(err)
	}
	r.drain()
	done := map[string]int{}
	o.deliver(done)
	if done["s@a.example to z@d.example"] != 1 {
		t.Errorf("%v; left: %q", done, o.files("."))
	}
}

func TestNumberThatIsTakenIsTriedAgain(t *testing.T) {
	for _, dir := range []string{"queue", "transport", "hold/queue"} {
		o := newOffice(t, 0)
		o.write("router/1", "to <x@a.example>\nenv-end\n\nbody\n")
		info, err := os.Stat(filepath.Join(o.dir, "router/1"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(o.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		taken := dir + "/" + fmt.Sprint(inodeOf(info))
		o.write(taken, "another message")
		r := o.router()
		r.drain()
		if len(o.files("router")) != 1 || len(o.files("transport"))+len(o.files("queue"))+len(o.files("hold")) != 1 || len(r.failed) != 1 {
			t.Errorf("%s: %q", dir, o.files("."))
		}
		if err := os.Remove(filepath.Join(o.dir, taken)); err != nil {
			t.Fatal(err)
		}
		r.drain()
		if len(o.files("router"))+len(r.failed) != 0 || len(o.files("transport")) != 1 {
			t.Errorf("%s: %q", dir, o.files("."))
		}
	}
}

// A user can make any number of submissions that fail.
func TestFailuresDoNotFloodTheLog(t *testing.T) {
	var log strings.Builder
	r := newOffice(t, 0).router()
	r.log = zerolog.New(&log)
	synctest.Test(t, func(t *testing.T) {
		for i := range 1000 {
			r.fail(fmt.Sprint(i), errors.New("leased"))
		}
		time.Sleep(time.Second)
		r.fail("7000", errors.New("leased"))
		r.fail("7000", errors.New("leased"))
	})
	if lines := strings.Count(log.String(), "\n"); lines != 6 || !strings.Contains(log.String(), `"unlogged":995`) || len(r.failed) != 1001 {
		t.Errorf("%d lines, %d to be tried again: %s", lines, len(r.failed), &log)
	}
}

// In router/ every user can make a name: a link to a directory, or a directory
// whose names he can change, must not have its files taken for mail.
func TestLetterDirectoriesOfOthersAreNotRead(t *testing.T) {
	o := newOffice(t, 0)
	const text = "to <x@a.example>\nenv-end\n\nbody\n"
	err := errors.Join(os.Mkdir(filepath.Join(o.dir, "private"), 0o700), os.Mkdir(filepath.Join(o.dir, "router/B"), 0o755),
		os.Mkdir(filepath.Join(o.dir, "router/C"), 0o755), os.Symlink("../private", filepath.Join(o.dir, "router/A")))
	if err != nil {
		t.Fatal(err)
	}
	o.write("private/1", text)
	o.write("router/B/2", text)
	o.write("router/C/3", text)
	want := 2
	if os.Geteuid() == 0 {
		want = 1
		if err := os.Chown(filepath.Join(o.dir, "router/B"), 1000, 1000); err != nil {
			t.Fatal(err)
		}
	}
	r := o.router()
	r.drain()
	if n := len(o.files("transport")); n != want || len(o.files("private")) != 1 {
		t.Errorf("%d queued, want %d; private %q", n, want, o.files("private"))
	}
}

// TestHashDirectoriesThatAreLinksAreNotUsed: somebody who could write in the postoffice
// has put links in the place of the hash directories. No mail goes where they lead.
func TestHashDirectoriesThatAreLinksAreNotUsed(t *testing.T) {
	for _, where := range []string{"queue", "transport"} {
		o := newOffice(t, 1)
		outside := t.TempDir()
		for letter := 'A'; letter <= 'Z'; letter++ {
			if err := os.Symlink(outside, filepath.Join(o.dir, where, string(letter))); err != nil {
				t.Fatal(err)
			}
		}
		o.write("router/117", "from <a@b.example>\nto <c@d.example>\nenv-end\n\nbody\n")
		r := o.router()
		r.add("117")
		r.drain()
		if list, err := os.ReadDir(outside); err != nil || len(list) > 0 {
			t.Errorf("the links in %s/ lead to %v, %v", where, list, err)
		}
		if list := o.files("router"); len(list) != 1 {
			t.Errorf("the submission is not in router/ any more: %q", list)
		}
	}
}

func TestFileThatIsReplacedWhileItIsRoutedIsNotQueued(t *testing.T) {
	o := newOffice(t, 1)
	o.write("router/1", "to <x@a.example>\nenv-end\n\nbody\n")
	o.write("other", "to <y@a.example>\nenv-end\n\nbody\n")
	r := o.router()
	r.queue.Step = func(what string) {
		if strings.HasPrefix(what, "move message ") {
			if err := os.Rename(filepath.Join(o.dir, "other"), filepath.Join(o.dir, "router/1")); err != nil {
				t.Error(err)
			}
			r.queue.Step = func(string) {}
		}
	}
	r.drain()
	if len(o.files("transport"))+len(o.files("queue")) != 0 || len(o.files("router")) != 1 {
		t.Errorf("%q", o.files("."))
	}
	r.drain() // the other file is a submission too
	done := map[string]int{}
	o.deliver(done)
	if len(done) != 1 {
		t.Errorf("%v", done)
	}
}

// TestRoutesThatLeaveDomainsOutAreLogged: a line with the pattern * that is lost is logged.
func TestRoutesThatLeaveDomainsOutAreLogged(t *testing.T) {
	o := newOffice(t, 0)
	r := o.router()
	var log bytes.Buffer
	r.log = zerolog.New(&log)
	r.refresh(true)
	if strings.Contains(log.String(), "pattern") {
		t.Fatal(log.String())
	}
	o.write("share/routes", "mx.example local\n*.example smtp\n")
	r.refresh(true)
	if !strings.Contains(log.String(), `"level":"warn"`) || !strings.Contains(log.String(), "no line has the pattern *, so mail to other domains fails") {
		t.Fatal(log.String())
	}
}

// TestFailedReloadIsRecorded: the error of a reload is in a file of POSTOFFICE, where the
// scheduler finds it for mailq, until the tables are loaded.
func TestFailedReloadIsRecorded(t *testing.T) {
	o := newOffice(t, 0)
	r := o.router()
	record := filepath.Join(o.dir, postoffice.RouterReload)
	o.write("share/routes", "mx.example local\n* smtp smtp smtp smtp\n")
	r.refresh(true)
	text, err := os.ReadFile(record)
	if err != nil || !strings.Contains(string(text), "routes:2") || strings.Count(string(text), "\n") != 1 {
		t.Fatalf("%q, %v", text, err)
	}
	o.write("share/routes", "* smtp\n")
	r.refresh(true)
	if _, err := os.Stat(record); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file is still there: %v", err)
	}
	o.write(postoffice.RouterReload, "from an earlier process\n")
	r.recordReload(nil)
	if _, err := os.Stat(record); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file of an earlier process is still there: %v", err)
	}
}
