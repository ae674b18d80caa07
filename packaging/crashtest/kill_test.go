//go:build linux && amd64

package crashtest

// The sweep of kills.

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"zsched/internal/testing/injector"
	"zsched/internal/testing/ledger"
)

// The programs whose calls are counted. Agents are children of the scheduler.
var (
	notAgents = []string{"scheduler", "router", "smtpserver", "sendmail", "ctlfile"}
	agents    = []string{"smtp", "mailbox", "sm", "hold", "errormail"}
)

// results sums up the outcomes of many runs.
type results struct {
	mu       sync.Mutex
	runs     int
	points   map[string]int // by program
	fired    map[string]int // those at which the fault happened
	missed   []point
	losses   int
	doubles  map[string]int
	leftover map[string]int
	notes    map[string]int
	longest  time.Duration   // recovery after errors
	took     []time.Duration // all recoveries
	asked    time.Duration   // the longest query during an error
}

func newResults() *results {
	return &results{points: map[string]int{}, fired: map[string]int{}, doubles: map[string]int{}, leftover: map[string]int{}, notes: map[string]int{}}
}

// log prints the figures.
func (r *results) log(t *testing.T) {
	points, fired := 0, 0
	for _, program := range slices.Sorted(maps.Keys(r.points)) {
		t.Logf("%-10s %5d calls, %5d faults", program, r.points[program], r.fired[program])
		points, fired = points+r.points[program], fired+r.fired[program]
	}
	doubles := 0
	for _, what := range slices.Sorted(maps.Keys(r.doubles)) {
		doubles += r.doubles[what]
		t.Logf("doubled: %5d %s", r.doubles[what], what)
	}
	for _, what := range slices.Sorted(maps.Keys(r.leftover)) {
		t.Logf("left:    %5d %s", r.leftover[what], what)
	}
	for _, what := range slices.Sorted(maps.Keys(r.notes)) {
		t.Logf("noted:   %5d %s", r.notes[what], what)
	}
	if r.longest > 0 {
		slices.Sort(r.took)
		t.Logf("recovery: half of the runs within %v, all within %v", r.took[len(r.took)/2].Round(10*time.Millisecond), r.longest.Round(10*time.Millisecond))
	}
	if r.asked > 0 {
		t.Logf("longest query during an error: %v", r.asked.Round(10*time.Millisecond))
	}
	t.Logf("%d runs, %d calls swept, %d faults, %d losses, %d doubles", r.runs, points, fired, r.losses, doubles)
}

// take adds the outcome of a run.
func (r *results) take(s *site) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs++
	r.losses += len(s.ledger.Unkept())
	for what, n := range s.ledger.Doubles() {
		r.doubles[what] += n
	}
	for _, path := range s.left {
		r.leftover[injector.General(path)]++
	}
	for _, note := range s.notes {
		r.notes[maskNumbers(note[:min(160, len(note))])]++
	}
}

// maskNumbers replaces each number in a text with N.
func maskNumbers(text string) string {
	var b strings.Builder
	for i, c := range text {
		if c < '0' || c > '9' {
			b.WriteRune(c)
		} else if i == 0 || text[i-1] < '0' || text[i-1] > '9' {
			b.WriteByte('N')
		}
	}
	return b.String()
}

// sampleSize is how many runs of each sweep there are without -whole.
const sampleSize = 1

// TestKilledAtEachCall kills each program at each of its calls on files. Afterwards
// nothing is lost, and no recipients or notices come twice except those that
// scheduler(8), WHAT A CRASH COSTS, allows.
func TestKilledAtEachCall(t *testing.T) {
	bin := build(t)
	c := count(t, bin)
	all := c.points()
	list := slices.DeleteFunc(slices.Clone(all), func(p point) bool {
		return !strings.Contains(p.String(), *only) || !*whole && !p.call.Changes()
	})
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	// Those at which the disk changes come first.
	slices.SortStableFunc(list, func(a, b point) int {
		switch {
		case a.call.Changes() == b.call.Changes():
			return 0
		case a.call.Changes():
			return -1
		}
		return 1
	})
	runs := plans(list)
	if !*whole {
		rand.Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
		runs = append(runs[:min(sampleSize, len(runs))], plan{len(runs), found(all)})
	}
	r := newResults()
	kill := func(t *testing.T, p plan) { r.kill(t, bin, p.points) }
	left := atOnce(t, runs, kill)
	if *whole && left == 0 && len(r.missed) > 0 {
		r.log(t)
		// Other kills, or chance, kept programs from making a call.
		for _, p := range r.missed {
			r.points[p.call.Program]--
		}
		again := plans(r.missed)
		t.Logf("%d calls were not reached; %d runs more", len(r.missed), len(again))
		for i := range again {
			again[i].number += len(runs)
		}
		r.missed = nil
		atOnce(t, again, kill)
	}
	r.log(t)
	for _, p := range r.missed {
		t.Logf("not reached: %s", p)
	}
}

// atOnce runs a subtest for each item, several at a time, and returns how many it left
// out because of -for.
func atOnce[T fmt.Stringer](t *testing.T, list []T, run func(*testing.T, T)) (left int) {
	t.Helper()
	work := make(chan T)
	var workers sync.WaitGroup
	for range *parallel {
		workers.Go(func() {
			for item := range work {
				t.Run(item.String(), func(t *testing.T) { run(t, item) })
			}
		})
	}
	began := time.Now()
	for i, item := range list {
		if *limit > 0 && time.Since(began) > *limit {
			left = len(list) - i
			t.Logf("%d of %d runs are left out after %v", left, len(list), *limit)
			break
		}
		work <- item
	}
	close(work)
	workers.Wait()
	return left
}

// kill runs the scenario with a kill at each point.
func (r *results) kill(t *testing.T, bin string, points []point) {
	s := newSite(t, bin)
	defer s.remove()
	var mu sync.Mutex
	var seen counted
	var fired []point
	s.trace = func(program string) bool {
		return slices.ContainsFunc(points, func(p point) bool {
			return program == p.call.Program || program == "scheduler" && slices.Contains(agents, p.call.Program)
		})
	}
	s.decide = func(call injector.Call) injector.Action {
		kind := call.Kind()
		n := seen.add(call)
		for _, p := range points {
			if p.n == n && p.call.Kind() == kind {
				mu.Lock()
				defer mu.Unlock()
				fired = append(fired, p)
				return injector.Action{Kill: p.how != "all", KillAll: p.how == "all", Half: p.how == "half"}
			}
		}
		return injector.Action{}
	}
	s.sink.reason = func(e *ledger.Entry) string {
		mu.Lock()
		defer mu.Unlock()
		for _, p := range fired {
			if why := mayDouble(p, e); why != "" {
				return why
			}
		}
		return ""
	}
	s.run()
	doubled := s.ledger.Doubles()
	for _, what := range []string{"notice of failure", "notice of success"} {
		if doubled[what] > 0 && !slices.ContainsFunc(fired, func(p point) bool { return slices.Contains(mayDoubleNotice, p.call.Program) }) {
			t.Errorf("%s came twice", what)
		}
	}
	r.kills(s, points, fired)
	if *whole || t.Failed() {
		t.Logf("killed at %q", fired)
	}
	if t.Failed() {
		s.logs()
	}
}

// kills adds the outcome of a run.
func (r *results) kills(s *site, points, fired []point) {
	r.mu.Lock()
	for _, p := range points {
		r.points[p.call.Program]++
		if !slices.ContainsFunc(fired, func(f point) bool { return f.String() == p.String() }) {
			r.missed = append(r.missed, p)
		}
	}
	for _, p := range fired {
		r.fired[p.call.Program]++
	}
	r.mu.Unlock()
	r.take(s)
}

// mayDoubleNotice are the programs that write notices and deliver them.
var mayDoubleNotice = []string{"scheduler", "smtp", "errormail"}

// mayDouble says why a recipient may be delivered again after a program was killed; ""
// if it may not.
func mayDouble(p point, e *ledger.Entry) string {
	switch {
	case slices.Contains(agents, p.call.Program):
		if p.call.Program == agentOf(e.Address) || p.call.Program == "hold" && e.Address == "h5@ok.example" {
			return "recipient that the killed agent was working on"
		}
	case p.call.Program != "scheduler":
	case e.Resent:
		return "recipient that an order sent elsewhere"
	case strings.HasSuffix(e.Address, "@unmarked.example"):
		return "recipient with marking=scheduler, fed and not marked"
	case p.how == "all":
		return "recipient that an agent, killed with the scheduler, was working on"
	}
	return ""
}

// agentOf returns the agent that delivers the mail of a recipient.
func agentOf(address string) string {
	switch {
	case mailboxOf[address] != "":
		return "mailbox"
	case strings.HasSuffix(address, "@sm.example"):
		return "sm"
	}
	return "smtp"
}
