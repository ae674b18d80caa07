package spool

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zsched/ctlfile"
	"zsched/scheduler"
)

// testSpool: a spool in a directory of its own, and what tests ask of it.

// testSpool is a $POSTOFFICE for one test.
type testSpool struct {
	t   testing.TB
	dir string
	s   *Spool
	// results came out of Results and were not asked for yet.
	results []Result
}

func newTestSpool(t testing.TB) *testSpool {
	o := &testSpool{t: t, dir: t.TempDir()}
	o.mkdir("transport")
	o.mkdir("queue")
	return o
}

// open opens the spool. Another may have been open before.
func (o *testSpool) open(options Options) *testSpool {
	o.t.Helper()
	o.close()
	options.Postoffice = o.dir
	if options.Reporter == nil {
		options.Reporter = noReporter{}
	}
	s, err := Open(options)
	check(o.t, err)
	o.s = s
	o.t.Cleanup(s.Close)
	_, _ = s.holds.HoldRecords()
	return o
}

// noReporter writes no notices: messages that owe one go to corrupt/.
type noReporter struct{}

func (noReporter) Report(*Owed) (string, error) { return "", errors.New("nobody writes it") }
func (noReporter) AnswersNullSender() bool      { return false }

func (o *testSpool) close() {
	if o.s != nil {
		o.s.Close()
		o.s, o.results = nil, nil
	}
}

func (o *testSpool) mkdir(path string) {
	o.t.Helper()
	check(o.t, os.MkdirAll(filepath.Join(o.dir, path), 0o755))
}

// write makes a file that nobody has touched for an hour.
func (o *testSpool) write(path, text string) {
	o.t.Helper()
	o.mkdir(filepath.Dir(path))
	check(o.t, os.WriteFile(filepath.Join(o.dir, path), []byte(text), 0o640))
	o.age(path, time.Hour)
}

// age sets a file's mtime.
func (o *testSpool) age(path string, age time.Duration) {
	o.t.Helper()
	at := time.Now().Add(-age)
	check(o.t, os.Chtimes(filepath.Join(o.dir, path), at, at))
}

// put makes a message: its control file and its message file.
func (o *testSpool) put(path, control string) {
	o.t.Helper()
	o.write("queue/"+path, "Subject: x\n\nbody\n")
	o.write("transport/"+path, control)
}

func (o *testSpool) read(path string) string {
	o.t.Helper()
	text, err := os.ReadFile(filepath.Join(o.dir, path))
	check(o.t, err)
	return string(text)
}

// files lists every regular file of the spool, sorted.
func (o *testSpool) files() []string {
	o.t.Helper()
	var list []string
	check(o.t, filepath.WalkDir(o.dir, func(path string, d os.DirEntry, err error) error {
		if d != nil && d.Name() == reserveDir {
			return filepath.SkipDir
		}
		if err == nil && d.Type().IsRegular() {
			rel, _ := filepath.Rel(o.dir, path)
			list = append(list, rel)
		}
		return err
	}))
	return list
}

// holds fails the test unless the spool has exactly these files, in order.
func (o *testSpool) holds(want ...string) {
	o.t.Helper()
	if got := o.files(); !slices.Equal(got, want) {
		o.t.Fatalf("files are %q, want %q", got, want)
	}
}

// load loads these and returns the results: one for each name, and others about
// them.
func (o *testSpool) load(paths ...string) []Result {
	o.t.Helper()
	names := make([]Name, len(paths))
	for i, path := range paths {
		_, base := split(path)
		id, ok := ctlfile.Number(base)
		if !ok {
			o.t.Fatalf("%q has no number", path)
		}
		names[i] = Name{path, id}
	}
	o.s.Load(names)
	var got []Result
	for left := len(names); left > 0; {
		r := o.next()
		switch r := r.(type) {
		case Loaded, Refused:
			left--
		case Triggered:
			if o.unaccompanied(r.Name.Path) {
				left--
			}
		case Warning:
			o.t.Fatalf("warning: %s", r.Text)
		case Swept:
			continue
		}
		got = append(got, r)
	}
	return got
}

// unaccompanied reports whether a control file has no message file beside it.
func (o *testSpool) unaccompanied(path string) bool {
	_, err := os.Lstat(filepath.Join(o.dir, "queue", path))
	return err != nil
}

// next is the next result.
func (o *testSpool) next() Result {
	if len(o.results) == 0 {
		select {
		case o.results = <-o.s.Results():
		case <-time.After(time.Minute):
			o.t.Fatal("there is no result")
		}
	}
	r := o.results[0]
	o.results = o.results[1:]
	return r
}

// loaded loads one control file, which must become a message.
func (o *testSpool) loaded(path string) Loaded {
	o.t.Helper()
	got := o.load(path)
	m, ok := got[len(got)-1].(Loaded)
	if !ok {
		o.t.Fatalf("%q: %+v, want it loaded", path, got)
	}
	return m
}

// refused takes one control file, which must not.
func (o *testSpool) refused(path string, why Refusal) Refused {
	o.t.Helper()
	got := o.load(path)
	r, ok := got[len(got)-1].(Refused)
	if !ok || r.Why != why {
		o.t.Fatalf("%q: %+v, want it refused: %v", path, got, why)
	}
	return r
}

// answer is the next result of this type; others are dropped.
func answer[T Result](o *testSpool) T {
	for {
		if r, ok := o.next().(T); ok {
			return r
		}
	}
}

// control is a control file with these lines between sender and headers.
func control(name string, lines ...string) string {
	return "@ 0x00000007\ni " + name + "\no 05\nl <m" + name + "@x.example>\n" +
		"e alice@x.example\ns local alice@x.example alice@x.example 0\n" +
		strings.Join(lines, "\n") + "\nm\nSubject: x\n\n"
}

// The recipients that tests like to use.
const (
	toBob   = "r           smtp b.example bob@b.example 65534"
	toCarol = "r           local - carol 501"
)

// offset is where a line with this text in it starts.
func offset(t testing.TB, text, part string) int64 {
	t.Helper()
	i := strings.Index(text, part)
	if i < 0 {
		t.Fatalf("%q is not in %q", part, text)
	}
	return int64(strings.LastIndexByte(text[:i], '\n') + 1)
}

func offsets(list []ctlfile.OpenRecipient) []int64 {
	var got []int64
	for _, r := range list {
		got = append(got, r.Offset)
	}
	return got
}

// answered is the answer to the next action of this kind; other results are dropped.
func answered[A scheduler.Action](o *testSpool) Answered {
	for {
		r := answer[Answered](o)
		if _, ok := r.Action.(A); ok {
			return r
		}
	}
}

// moved is the answer to the next Hold or Release.
func moved(o *testSpool) Answered {
	for {
		r := answer[Answered](o)
		switch r.Action.(type) {
		case scheduler.Hold, scheduler.Release:
			return r
		}
	}
}

// The actions of the core, as tests write them.

func (s *Spool) Mark(op uint64, path string, marks []ctlfile.Mark) {
	s.Do(scheduler.Mark{Op: scheduler.Op(op), Path: path, Marks: marks})
}

func (s *Spool) Reread(op uint64, path string, a scheduler.Read) {
	a.Op, a.Path = scheduler.Op(op), path
	s.Do(a)
}

func (s *Spool) Report(op uint64, path string, retryUntil time.Time) {
	s.Do(scheduler.Report{Op: scheduler.Op(op), Path: path, RetryUntil: retryUntil})
}

func (s *Spool) Hold(op uint64, path string) { s.Do(scheduler.Hold{Op: scheduler.Op(op), Path: path}) }
func (s *Spool) Release(op uint64, path string) {
	s.Do(scheduler.Release{Op: scheduler.Op(op), Path: path})
}
func (s *Spool) Finish(a scheduler.Finish) { s.Do(&a) }

func (s *Spool) Resubmit(op uint64, a scheduler.Resubmit) {
	a.Op = scheduler.Op(op)
	s.Do(a)
}
