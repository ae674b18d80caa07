//go:build linux && amd64

package crashtest

// Points: the calls at which programs are killed.

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"zsched/internal/testing/injector"
)

// point is a call at which a program is killed: the nth of its kind.
type point struct {
	call injector.Call
	n    int
	how  string // "process"; "all": its children too; "half": after half of the data is written
}

func (p point) String() string { return fmt.Sprintf("%s #%d %s", p.call.Kind(), p.n, p.how) }

// counted are the calls of a run, by kind.
type counted struct {
	mu    sync.Mutex
	times map[string]int
	calls []injector.Call // in their order
	start int             // how many of them were made before the daemons were ready
}

func (c *counted) add(call injector.Call) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.times == nil {
		c.times = map[string]int{}
	}
	kind := call.Kind()
	c.times[kind]++
	c.calls = append(c.calls, call)
	return c.times[kind]
}

// ours reports whether a call is counted: one of our programs makes it, and it is not
// about files of the test itself.
func ours(c injector.Call) bool {
	return (slices.Contains(notAgents, c.Program) || slices.Contains(agents, c.Program)) &&
		!strings.HasPrefix(c.Paths[0], "run/stdin") && !strings.HasPrefix(c.Paths[0], "log/"+c.Program+".err")
}

// counting has what the first count has returned.
var counting struct {
	sync.Mutex
	done *counted
}

// count runs the scenario once without a fault and returns its calls, to all tests. Nothing
// may be doubled then.
func count(t *testing.T, bin string) *counted {
	t.Helper()
	counting.Lock()
	defer counting.Unlock()
	if counting.done != nil {
		return counting.done
	}
	s := newSite(t, bin)
	defer s.remove()
	var c counted
	s.trace = func(string) bool { return true }
	s.decide = func(call injector.Call) injector.Action {
		if ours(call) {
			c.add(call)
		}
		return injector.Action{}
	}
	s.isReady = func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.start = len(c.calls)
	}
	began := time.Now()
	s.run()
	t.Logf("without a fault the scenario takes %v; %d calls on files, of %d kinds", time.Since(began).Round(time.Millisecond), len(c.calls), len(c.times))
	for _, note := range s.notes {
		t.Log(note)
	}
	for what, n := range s.ledger.Doubles() {
		t.Errorf("without a fault, doubled %d times: %s", n, what)
	}
	if t.Failed() {
		s.logs()
		t.FailNow()
	}
	counting.done = &c
	return &c
}

// points returns where to kill. Every call counts; before a call that changes nothing,
// only the process is killed.
func (c *counted) points() (list []point) {
	times := map[string]int{}
	for _, call := range c.calls {
		kind := call.Kind()
		times[kind]++
		p := point{call, times[kind], "process"}
		list = append(list, p)
		if call.Program == "scheduler" && call.Changes() {
			p.how = "all"
			list = append(list, p)
		}
		if call.Writes() {
			p.how = "half"
			list = append(list, p)
		}
	}
	return list
}

// plan is the points of one run.
type plan struct {
	number int
	points []point
}

func (p plan) String() string { return fmt.Sprint("run", p.number) }

// plans divides points among runs, each with at most *kills points of one program and
// as few points of others as possible. The fewer kills a run has, the more of the other
// calls of the scenario it reaches.
func plans(list []point) (runs []plan) {
	byProgram := map[string][]point{}
	most := 0
	for _, p := range list {
		byProgram[p.call.Program] = append(byProgram[p.call.Program], p)
		most = max(most, len(byProgram[p.call.Program]))
	}
	for n := range (most + *kills - 1) / *kills {
		runs = append(runs, plan{number: n})
	}
	for _, points := range byProgram {
		// The first points come in the first runs; a program with few points is not in
		// all of them.
		for i, p := range points {
			runs[i*len(runs)/len(points)].points = append(runs[i*len(runs)/len(points)].points, p)
		}
	}
	return runs
}

// foundAt are the kinds of call, and ways, at which kills once showed a defect.
var foundAt = map[string]string{
	"smtp pwrite64 po/transport/N":       "half",    // a torn pid in a lock was taken for another process
	"mailbox linkat mail/mbox-root.lock": "process", // a lock file without a pid stopped the mailbox for five minutes
}

// found returns the first points of foundAt.
func found(all []point) (list []point) {
	for kind, how := range foundAt {
		for _, p := range all {
			if p.how == how && p.call.Kind() == kind {
				list = append(list, p)
				break
			}
		}
	}
	return list
}
