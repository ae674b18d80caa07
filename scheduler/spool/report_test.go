package spool

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/scheduler"
	"zsched/scheduler/report"
)

// testReporter writes real notices.
type testReporter struct {
	report.Reporter
	err error // if set, is returned instead
}

func reporter(dir string) *testReporter {
	return &testReporter{Reporter: report.Reporter{Postoffice: dir, Host: "mx.example", By: "scheduler@mx.example"}}
}

func (r *testReporter) Report(o *Owed) (string, error) {
	if r.err != nil {
		return "", r.err
	}
	m := report.Message{SpoolID: o.SpoolID(), File: o.File, ArrivedAt: o.ModifiedAt, Temp: o.Temp,
		Recipients: report.Recipients(o.File, o.Lines)}
	if at := o.File.Body; o.Message != nil && at >= 0 && at <= o.Size {
		m.Body = io.NewSectionReader(o.Message, at, o.Size-at)
	}
	for i := range m.Recipients {
		m.Recipients[i].RetryUntil = o.RetryUntil
	}
	file, err := r.Reporter.Report(&m, time.Now())
	if errors.Is(err, report.ErrNobody) {
		return "", nil
	}
	return file, err
}

// notices returns the text of the notices in router/.
func (o *testSpool) notices() (texts []string) {
	o.t.Helper()
	for _, path := range o.files() {
		if strings.HasPrefix(path, "router/") {
			texts = append(texts, o.read(path))
		}
	}
	return texts
}

// failed returns a control file in which bob has failed and lines follow, with
// his d line.
func failed7(lines ...string) string {
	text := control("7", append([]string{done(toBob, "-")}, lines...)...)
	return text + diagnose(offset(&testing.T{}, text, "@b.example"), "bob@b.example", "failed")
}

func TestFinishWritesTheNoticeFirst(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		notices int
	}{
		"failed":          {failed7(), 1},
		"never":           {failed7("N NOTIFY=NEVER"), 0},
		"success only":    {failed7("N NOTIFY=SUCCESS"), 0},
		"told":            {strings.Replace(failed7(), "\nd ", "\nd+", 1), 0},
		"no d line":       {control("7", done(toBob, "-")), 1},
		"null sender":     {strings.Replace(failed7(), "s local", "s error", 1), 0},
		"two recipients":  {failed7(done(toCarol, "-")), 1},
		"other delivered": {failed7(done(toCarol, "+")), 1},
	} {
		o := newRoutedSpool(t)
		o.put("A/H/7", c.text)
		r := o.open(Options{Reporter: reporter(o.dir)}).finished("A/H/7", true)
		if r.Err != nil || (r.Notice != "") != (c.notices > 0) {
			t.Errorf("%s: %+v", name, r)
		}
		notices := o.notices()
		if len(notices) != c.notices || len(o.files()) != c.notices {
			t.Errorf("%s: files %q", name, o.files())
		}
		for _, text := range notices {
			if !strings.Contains(text, "\nto <alice@x.example>\n") || !strings.Contains(text, "\nchannel error\n") ||
				!strings.Contains(text, "\nFinal-Recipient: rfc822; bob@b.example\nAction: failed\n") || strings.Contains(text, "Action: delivered") {
				t.Errorf("%s: %s", name, text)
			}
		}
	}
}

func TestNoticeThatCannotBeWritten(t *testing.T) {
	t.Run("for now, leaves the message where it is", func(t *testing.T) {
		o := newRoutedSpool(t)
		o.put("A/H/7", failed7())
		rep := reporter(o.dir)
		rep.err = &os.PathError{Op: "open", Path: "x", Err: syscall.ENOSPC}
		o.open(Options{Reporter: rep})
		if r := o.finished("A/H/7", true); !IsFull(r.Err) {
			t.Errorf("%+v", r)
		}
		o.holds("queue/A/H/7", "transport/A/H/7")
		rep.err = nil
		if r := o.finished("A/H/7", true); r.Err != nil || len(o.notices()) != 1 || len(o.files()) != 1 {
			t.Errorf("%+v: %q", r, o.files())
		}
	})
	t.Run("ever, has the message moved to quarantine", func(t *testing.T) {
		o := newRoutedSpool(t)
		o.put("A/H/7", failed7())
		rep := reporter(o.dir)
		rep.err = errors.New("beyond me")
		if r := o.open(Options{Reporter: rep}).finished("A/H/7", true); r.Err != nil {
			t.Errorf("%+v", r)
		}
		o.holds("corrupt/queue/A/H/7", "corrupt/transport/A/H/7", "corrupt/transport/A/H/7.reason")
	})
}

func TestNoticeIsNotWrittenIfItCouldNotBeMarked(t *testing.T) {
	restricted(t)
	o := newRoutedSpool(t)
	o.put("A/H/7", failed7())
	check(t, os.Chmod(filepath.Join(o.dir, "transport/A/H/7"), 0o400))
	o.open(Options{Reporter: reporter(o.dir)})
	if r := o.finished("A/H/7", true); r.Err == nil || len(o.notices()) != 0 {
		t.Errorf("%+v: %d notices", r, len(o.notices()))
	}
}

// countedNotices counts the notices that it is asked for.
type countedNotices int

func (n *countedNotices) Report(*Owed) (string, error) { *n++; return "router/1", nil }
func (n *countedNotices) AnswersNullSender() bool      { return false }

// The control file can be opened, but not written, as with bad blocks or a quota. A notice would
// come again and again.
func TestNoticeIsNotWrittenIfItsLinesCannotBe(t *testing.T) {
	o := newRoutedSpool(t)
	o.put("A/H/7", failed7())
	var notices countedNotices
	o.open(Options{Reporter: &notices})
	var limit unix.Rlimit
	check(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &limit))
	check(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 20, Max: limit.Max}))
	r := o.finished("A/H/7", true)
	check(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &limit))
	if r.Err == nil || notices != 0 {
		t.Errorf("%+v: %d notices", r, notices)
	}
	if r = o.finished("A/H/7", true); r.Err != nil || notices != 1 {
		t.Errorf("%+v: %d notices", r, notices)
	}
}

func (o *testSpool) reported(path string) Answered {
	o.t.Helper()
	o.s.Report(9, path, time.Unix(1800000000, 0))
	return answered[scheduler.Report](o)
}

func TestReportMarksWhatItReported(t *testing.T) {
	o := newRoutedSpool(t)
	text := failed7("N NOTIFY=FAILURE ORCPT=rfc822;b", toCarol, "N NOTIFY=DELAY")
	carol := offset(t, text, "carol")
	text += diagnose(carol, "carol", "delayed")
	// An earlier notice told of this one.
	text += strings.Replace(diagnose(carol, "carol", "delayed"), "d ", "d+", 1)
	o.put("7", text)
	o.open(Options{Reporter: reporter(o.dir)})
	r := o.reported("7")
	notices := o.notices()
	if r.Err != nil || r.Missing || r.Notice == "" || len(notices) != 1 {
		t.Fatalf("%+v: %q", r, notices)
	}
	for _, want := range []string{"Action: failed\n", "Action: delayed\n", "Will-Retry-Until: ", "Original-Recipient: rfc822; b\n"} {
		if strings.Count(notices[0], want) != 1 {
			t.Errorf("%q in %s", want, notices[0])
		}
	}
	if got := strings.Join(o.outcomesIn("transport/7"), ","); got != "+bob@b.example failed,+carol delayed,+carol delayed" {
		t.Errorf("d lines %s", got)
	}
	// Nothing is owed any more, and nothing is written.
	if r := o.reported("7"); r.Err != nil || r.Notice != "" || len(o.notices()) != 1 {
		t.Errorf("again: %+v", r)
	}
	if r := o.reported("8"); !r.Missing || r.Err != nil {
		t.Errorf("of no file: %+v", r)
	}
}

// The old program printed entries that the sender had not asked for, as soon as
// there was one that he had.
func TestWhatNobodyAskedForIsNotInTheNotice(t *testing.T) {
	o := newRoutedSpool(t)
	text := failed7(done(toCarol, "+"), "N NOTIFY=FAILURE", "r+          smtp e eve 1", "r-          smtp f fay 1", "N NOTIFY=SUCCESS")
	text += diagnose(offset(t, text, "carol"), "carol", "delivered")
	text += diagnose(offset(t, text, "eve"), "eve", "*SW-ERROR*not-act-rc=64*")
	text += diagnose(offset(t, text, "fay"), "fay", "failed")
	o.put("7", text)
	if r := o.open(Options{Reporter: reporter(o.dir)}).finished("7", true); r.Err != nil || len(o.notices()) != 1 {
		t.Fatalf("%+v", r)
	}
	if text := o.notices()[0]; strings.Count(text, "\nAction: ") != 1 || !strings.Contains(text, "bob@b.example\nAction: failed\n") {
		t.Errorf("%s", text)
	}
}

// A delay is written while an agent has the recipient: the lock stays.
func TestDelayLeavesTheTag(t *testing.T) {
	o := newRoutedSpool(t)
	text := control("7", locked(os.Getpid()), "N NOTIFY=DELAY", toCarol, "N NOTIFY=DELAY")
	bob, carol := offset(t, text, "@b.example"), offset(t, text, "carol")
	o.put("7", text)
	o.open(Options{Reporter: reporter(o.dir)})
	mark := func(at int64) ctlfile.Mark {
		return ctlfile.Mark{Offset: at, Tag: ctlfile.Open, LeaveTag: true, Diagnose: true, Delays: 2,
			Notary: "\x03\x01delayed\x014.4.1\x01\x01", Text: "later"}
	}
	for range 2 { // the second time nothing is added
		o.s.Mark(1, "7", []ctlfile.Mark{mark(bob), mark(carol)})
		if r := answered[scheduler.Mark](o); r.Err != nil || r.Missing {
			t.Fatalf("%+v", r)
		}
		if got := strings.Join(o.outcomesIn("transport/7"), ","); got != " bob@b.example delayed, carol delayed" {
			t.Errorf("d lines %s", got)
		}
	}
	after, err := ctlfile.Parse([]byte(o.read("transport/7")))
	check(t, err)
	if r := after.Recipients[0]; r.Tag != ctlfile.Locked || r.Delays != 2 || r.PID() != os.Getpid() {
		t.Errorf("%+v", r)
	}
	if r := o.reported("7"); r.Err != nil || len(o.notices()) != 1 {
		t.Errorf("%+v", r)
	}
	if text := o.notices()[0]; strings.Count(text, "Action: delayed\n") != 2 || strings.Count(text, "Status: 4.4.1\n") != 2 {
		t.Errorf("%s", text)
	}
}

// A delay that nobody was told of before the recipient was done is no news.
func TestDelayThatIsOverIsNotReported(t *testing.T) {
	o := newRoutedSpool(t)
	text := control("7", done(toBob, "+"), "N NOTIFY=DELAY")
	o.put("7", text+diagnose(offset(t, text, "@b.example"), "bob@b.example", "delayed"))
	if r := o.open(Options{Reporter: reporter(o.dir)}).finished("7", true); r.Err != nil || len(o.files()) != 0 {
		t.Errorf("%+v: %q", r, o.files())
	}
}

func TestLoadTellsOfDelays(t *testing.T) {
	o := newRoutedSpool(t)
	text := control("7", toBob, toCarol)
	o.put("7", strings.Replace(text, toCarol, "r          3"+toCarol[12:], 1))
	m := o.open(Options{}).loaded("7")
	if len(m.Recipients) != 2 || m.Recipients[0].Delays != 0 || m.Recipients[1].Delays != 3 {
		t.Errorf("%+v", m.Recipients)
	}
}

func TestDoubleFaultIsStoredWhenAskedFor(t *testing.T) {
	o := newRoutedSpool(t)
	o.mkdir("postman")
	o.put("7", strings.Replace(failed7("N NOTIFY=NEVER"), "s local", "s error", 1))
	rep := reporter(o.dir)
	rep.StoreErrors = true
	r := o.open(Options{Reporter: rep}).finished("7", true)
	if r.Err != nil || !strings.HasPrefix(r.Notice, "postman/") || len(o.notices()) != 0 {
		t.Errorf("%+v", r)
	}
	if text := o.read(r.Notice); !strings.Contains(text, "Action: failed") || !strings.HasSuffix(r.Notice, ":error-on-error") {
		t.Errorf("%s: %s", r.Notice, text)
	}
	if _, err := os.Stat(filepath.Join(o.dir, "transport/7")); err == nil {
		t.Error("the message is still there")
	}
}

// oneOrTwoNotices: the failure is reported, at most twice, and the message is
// there until it was.
func oneOrTwoNotices(o *testSpool, at string) {
	killed := len(o.notices())
	if !postoffice.Exists(o.s.places.pairs[Queue].transport, "A/H/7") {
		// The message file alone is an orphan.
		if killed != 1 {
			o.t.Errorf("%s: %d notices of a message that is gone", at, killed)
		}
		return
	}
	o.open(Options{Reporter: reporter(o.dir)})
	if m := o.loaded("A/H/7"); len(m.Recipients) != 0 {
		o.t.Errorf("%s: open again: %+v", at, m)
	}
	if r := o.finished("A/H/7", true); r.Err != nil {
		o.t.Errorf("%s: %v", at, r.Err)
	}
	if n := len(o.notices()); n < 1 || n > 2 || killed > 1 {
		o.t.Errorf("%s: %d notices, then %d in %q", at, killed, n, o.files())
	}
	for _, path := range o.files() {
		if !strings.HasPrefix(path, "router/") {
			o.t.Errorf("%s: %s is left", at, path)
		}
	}
}

// TestEachSenderHearsOfItsOwnRecipients: a control file may have several senders, such as the
// owner of a list. Each gets a notice about its own recipients, and a null sender gets none.
func TestEachSenderHearsOfItsOwnRecipients(t *testing.T) {
	o := newTestSpool(t)
	text := control("7", toBob, "s local owner owner-list@x.example 0", toCarol, "s error - <> 0", "r           smtp d.example dora@d.example 65534")
	for _, who := range []string{"bob@b.example", "carol", "dora@d.example"} {
		text += diagnose(offset(t, text, who), who, "failed")
	}
	text = strings.ReplaceAll(text, "r           ", "r-          ")
	o.put("7", text)
	reporter := &senders{}
	o.open(Options{Reporter: reporter})
	o.s.Report(1, "7", time.Time{})
	if answer := answered[scheduler.Report](o); answer.Err != nil {
		t.Fatal(answer.Err)
	}
	if got := strings.Join(reporter.told, ", "); got != "alice@x.example about 1, owner-list@x.example about 1" {
		t.Errorf("told %s", got)
	}
	f, err := ctlfile.Parse([]byte(o.read("transport/7")))
	check(t, err)
	if o.s.notices.owes(f, true) {
		t.Errorf("something is owed: %+v", f.Diagnostics)
	}
}

// senders is a Reporter that remembers whom it has told about how many d lines.
type senders struct{ told []string }

func (s *senders) AnswersNullSender() bool { return false }

func (s *senders) Report(o *Owed) (string, error) {
	to, _ := o.File.NoticesTo(o.File.Find(o.File.Diagnostics[o.Lines[0]].Recipient))
	s.told = append(s.told, fmt.Sprintf("%s about %d", to, len(o.Lines)))
	return "router/1", nil
}
