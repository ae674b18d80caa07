//go:build linux && amd64

package crashtest

// The sweep of errors: calls fail one by one, or all of them for a while.

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"zsched/internal/testing/injector"
	"zsched/internal/testing/ledger"
)

// fault says which calls fail in a run, and with which error. at, from or, if both are
// empty, number selects them.
type fault struct {
	errno unix.Errno
	// number selects single calls after the daemons have started: every stride-th of
	// each kind, with this offset. The runs with all numbers below stride make each
	// call fail once.
	number int
	// from is the kind of call that begins a lasting fault: for a while, every call
	// below the postoffice that can have the error fails.
	from string
	// at and nth select one call: the nth of the kind at.
	at  string
	nth int
}

func (f fault) String() string {
	name := unix.ErrnoName(f.errno)
	switch {
	case f.from != "":
		return fmt.Sprintf("%s from %s", name, f.from)
	case f.at != "":
		return fmt.Sprintf("%s at %s #%d", name, f.at, f.nth)
	}
	return fmt.Sprintf("%s at each %dth call, %d", name, *stride, f.number)
}

// faultSpan is how long a lasting fault lasts.
const faultSpan = 2 * time.Second

// faulty decides which calls of a run fail.
type faulty struct {
	fault fault

	mu    sync.Mutex
	seen  counted
	ready bool // the daemons have started
	// afterStart says that the daemons had started before the fault began.
	afterStart bool
	over       bool           // no more calls fail
	began      time.Time      // when a lasting fault began
	failed     map[string]int // failed calls by program
	late       int            // calls that failed in the second half of a lasting fault
	tags       bool           // a call of the scheduler or an agent failed, so a tag may be missing
}

func (f *faulty) decide(c injector.Call) injector.Action {
	if !ours(c) || !c.CanFail(f.fault.errno) {
		return injector.Action{}
	}
	n := f.seen.add(c)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over || !f.hits(c, n) {
		return injector.Action{}
	}
	f.failed[c.Program]++
	f.tags = f.tags || c.Program == "scheduler" || slices.Contains(agents, c.Program)
	return injector.Action{Error: f.fault.errno}
}

func (f *faulty) hits(c injector.Call, n int) bool {
	if f.fault.at != "" {
		return n == f.fault.nth && c.Kind() == f.fault.at
	}
	if f.fault.from == "" {
		if !f.ready {
			return false
		}
		h := fnv.New32()
		_, _ = h.Write([]byte(c.Kind()))
		return (n+int(h.Sum32()%1000))%*stride == f.fault.number
	}
	if f.began.IsZero() && c.Kind() == f.fault.from {
		f.began = time.Now()
	}
	since := time.Since(f.began)
	if f.began.IsZero() || since > faultSpan || !strings.HasPrefix(c.Paths[0], "po/") || c.Program != "scheduler" && !c.Changes() {
		return false
	}
	if since > faultSpan/2 {
		f.late++
	}
	return true
}

func (f *faulty) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
}

func (f *faulty) mayDouble(e *ledger.Entry) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case !f.tags:
		return ""
	case e.Resent:
		return "recipient that an order sent elsewhere"
	}
	return "recipient whose tag could not be written"
}

// errnos are the errors by name.
var errnos = map[string]unix.Errno{
	"ENOSPC": unix.ENOSPC, "EIO": unix.EIO, "EDQUOT": unix.EDQUOT, "EMFILE": unix.EMFILE,
	"ENFILE": unix.ENFILE, "EROFS": unix.EROFS, "EACCES": unix.EACCES, "EINTR": unix.EINTR,
}

// TestErrorAtEachCall makes each call on files of each program fail, with each error
// that it can have. Afterwards nothing is lost or half written, and all mail moves on by
// itself.
func TestErrorAtEachCall(t *testing.T) {
	bin := build(t)
	var faults []fault
	for name := range strings.SplitSeq(*errnames, ",") {
		if errnos[name] == 0 {
			t.Fatalf("unknown error %q", name)
		}
		for n := range *stride {
			faults = append(faults, fault{errno: errnos[name], number: n})
		}
	}
	sweepErrors(t, bin, faults)
}

// TestLastingErrors makes a fault begin at each kind of call and last for a while.
// Meanwhile queries are answered, and few calls fail, because nothing is fed.
func TestLastingErrors(t *testing.T) {
	bin := build(t)
	c := count(t, bin)
	var faults []fault
	seen := map[string]bool{}
	for _, call := range c.calls {
		kind := call.Kind()
		if seen[kind] || !strings.HasPrefix(call.Paths[0], "po/") {
			continue
		}
		seen[kind] = true
		// A call that a signal always interrupts never ends.
		can := canFail(call, unix.EINTR)
		if len(can) > 0 && (call.Changes() || call.Program == "scheduler") {
			faults = append(faults, fault{errno: can[len(faults)%len(can)], from: kind})
		}
	}
	sweepErrors(t, bin, faults)
}

// TestErrorAtStart makes each of the calls at the start of the daemons fail. They start
// all the same, or they end and start at the next try.
func TestErrorAtStart(t *testing.T) {
	bin := build(t)
	c := count(t, bin)
	var faults []fault
	seen := map[string]int{}
	for _, call := range c.calls[:c.start] {
		kind := call.Kind()
		seen[kind]++
		if can := canFail(call, 0); len(can) > 0 {
			faults = append(faults, fault{errno: can[len(faults)%len(can)], at: kind, nth: seen[kind]})
		}
	}
	sweepErrors(t, bin, faults)
}

// canFail lists the errors of -errors that a call can have, except for one.
func canFail(c injector.Call, without unix.Errno) (can []unix.Errno) {
	for name := range strings.SplitSeq(*errnames, ",") {
		if e := errnos[name]; c.CanFail(e) && e != without {
			can = append(can, e)
		}
	}
	return can
}

func sweepErrors(t *testing.T, bin string, faults []fault) {
	t.Helper()
	faults = slices.DeleteFunc(faults, func(f fault) bool { return !strings.Contains(f.String(), *only) })
	rand.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	if !*whole {
		faults = faults[:min(sampleSize, len(faults))]
	}
	r := newResults()
	atOnce(t, faults, func(t *testing.T, f fault) { r.fail(t, bin, f) })
	r.log(t)
}

// fail runs the scenario with a fault.
func (r *results) fail(t *testing.T, bin string, what fault) {
	s := newSite(t, bin)
	defer s.remove()
	f := &faulty{fault: what, failed: map[string]int{}}
	s.trace = func(string) bool { return true }
	s.decide, s.takesBack = f.decide, true
	s.sink.reason = f.mayDouble
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	stopAsking := make(chan struct{})
	var asking sync.WaitGroup
	if what.from != "" {
		asking.Go(func() { s.ask(f, stopAsking) })
	}
	s.awaitReady()
	f.mu.Lock()
	f.ready = true
	f.afterStart = f.began.IsZero()
	f.mu.Unlock()
	s.mu.Lock()
	ended := s.ended
	s.mu.Unlock()
	s.live()
	f.end()
	close(stopAsking)
	asking.Wait()
	over := time.Now()
	s.settle()
	took := time.Since(over)
	s.stop()
	s.decide = nil
	s.audit()
	if what.at == "" && f.sawReady() && s.ended > ended {
		t.Error("a daemon that had started ended by itself")
	}
	f.mu.Lock()
	if f.late > maxLate {
		t.Errorf("%d calls failed in the second half of the fault", f.late)
	}
	for c, n := range s.complaints() {
		if n > maxComplaints {
			t.Errorf("the log says %d times: %s", n, c)
		}
	}
	r.errors(s, f.failed, took)
	f.mu.Unlock()
	if t.Failed() {
		t.Logf("failed calls: %v", f.failed)
		s.logs()
	}
}

// errors adds the outcome of a run.
func (r *results) errors(s *site, failed map[string]int, took time.Duration) {
	r.mu.Lock()
	for program, n := range failed {
		r.points[program] += n
		r.fired[program] += n
	}
	r.longest, r.asked = max(r.longest, took), max(r.asked, s.asked)
	r.took = append(r.took, took)
	for c, n := range s.complaints() {
		r.notes[fmt.Sprintf("logged up to %d times: %s", n, c.text)]++
	}
	r.mu.Unlock()
	r.take(s)
}

// maxLate bounds the calls that fail in the last second of a lasting fault: those of
// probes, retries, queries and orders. maxComplaints bounds how often the log repeats a complaint in a run.
const (
	maxLate       = 200
	maxComplaints = 12
)

// ask queries the scheduler again and again while a lasting fault is in force.
func (s *site) ask(f *faulty, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(200 * time.Millisecond):
		}
		f.mu.Lock()
		now := !f.began.IsZero() && time.Since(f.began) < faultSpan
		f.mu.Unlock()
		if !now {
			continue
		}
		began := time.Now()
		out, err := s.mailq("-QQQ")
		switch {
		case err == nil:
			s.asked = max(s.asked, time.Since(began))
		case f.sawReady():
			s.t.Errorf("a query failed: %v: %s", err, strings.TrimSpace(out))
		default:
			s.note("a query failed before the scheduler had started")
		}
	}
}

// sawReady reports whether the daemons had started before the fault began.
func (f *faulty) sawReady() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ready && f.afterStart
}

// complaint is a warning or an error in the log. Those that differ only in numbers are
// the same, unless they are about different messages: how many messages there are when a
// fault begins depends on the speed of the machine. What an agent said names the message
// in its text.
type complaint struct{ text, about string }

func (c complaint) String() string { return strings.TrimSpace(c.text + " " + c.about) }

// complaints counts the complaints in the log of the scheduler.
func (s *site) complaints() map[complaint]int {
	n := map[complaint]int{}
	log, err := os.Open(s.path("log/scheduler.err"))
	if err != nil {
		return nil
	}
	defer log.Close()
	for lines := bufio.NewScanner(log); lines.Scan(); {
		var line struct{ Level, Message, Error, File, Stderr string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && (line.Level == "warn" || line.Level == "error") && line.Message != "order" {
			n[complaint{maskNumbers(strings.ReplaceAll(line.Message+": "+line.Error, s.dir, "")), cmp.Or(line.File, line.Stderr)}]++
		}
	}
	return n
}
