package router

// Power cuts: the whole of submission, routing, delivery and notices in one
// process on a disk in memory, whose power goes at any call.

import (
	"flag"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"zsched/router/table"
)

var (
	powerCutTime = flag.Duration("powercut.time", 0, "how long TestPowerCuts runs; 0: a fixed number of runs")
	powerCutSeed = flag.Uint64("powercut.seed", 0, "run TestPowerCuts with this seed only, and print its log")
)

// badSeeds are seeds that once failed, each with what it found. A seed determines what is
// sent and ordered, where the power goes, which calls fail and what survives. It does not
// determine the order in which goroutines make their calls, so a seed gives a similar run
// and not the same one. A seed is therefore no test case by itself: a defect that is
// found gets a test with an order of calls of its own, and its seed stays here because
// similar runs come near the place. The log of a failed run has every call in its order.
var badSeeds = []uint64{
	3, 120, // a new message got the control file of an earlier one
	41,                  // transport/.router itself was not on disk
	59,                  // a message was held whose routing was not on disk
	70,                  // hash directory S was taken for a spoolid
	77,                  // an erased d line made a file malformed
	8957622057274566098, // the same as 41
	620410202340698242,  // a message was moved back to router/ after an error, and its control file removed
	126,                 // a notice whose name was not on disk counted as sent
	18,                  // a hold that failed half-way left the message file in hold/
	34,                  // the router took an error for the absence of a message
	6519942202950955873, // a d line that was cut short counted as the record of a success
	2936964096962290499, // a REQUEUE removed a message although its submission was not durable
	1845593632335408258, // an EXPIRE of held mail that a crash brought back after a REQUEUE sent a notice
}

// cutSteps are the steps at which TestPowerCuts has to cut the power: a part of the
// description of a call, with numbers and hash directories left out.
var cutSteps = []string{
	"write public", "sync public", "rename public to router", "sync router", // the SMTP server
	"write queue/.tmp", "sync queue/.tmp", "rename queue/.tmp to router", // sendmail, notices, REQUEUE
	"write transport/.router", "sync everything", "rename router to queue", "sync queue", // the router
	"rename transport/.router to transport", "unlink transport/.router",
	"write transport", "sync transport", // tags and d lines: agents, outcomes, expiry, locks
	"unlink transport", "unlink queue", // retire
	"rename queue to hold/queue", "rename transport to hold/transport", // HOLD
	"rename hold/queue to queue", "rename hold/transport to transport", // RELEASE, and the end of a hold
	"write hold/orders", "sync hold/orders", "rename hold/orders to hold/orders", "unlink hold/orders",
	"sync hold",
	"write transport/.scheduler", "rename queue/.tmp to queue", "rename transport/.scheduler to transport", // REROUTE
	"write corrupt/transport", "rename queue to corrupt/queue", "rename transport to corrupt/transport",
	"mkdir queue", "mkdir transport", "mkdir hold",
}

// figures count what happened in many runs.
type figures struct {
	runs, cuts, calls, faults int
	recipients, accepted      int
	losses                    int
	doubles                   map[string]int
	steps                     map[string]int // cuts, by the step that they came in
}

// powerCutRuns is how many runs TestPowerCuts makes by itself, each with cutsInRun
// power cuts.
const (
	powerCutRuns = 100
	cutsInRun    = 4
)

// TestPowerCuts cuts the power at every step of cutSteps, and at many others, and
// checks every promise that was made to a sender or to an administrator.
func TestPowerCuts(t *testing.T) {
	// A run is short and leaves much garbage. With fewer collections, the same processor
	// time is enough for half as many cuts again.
	defer debug.SetGCPercent(debug.SetGCPercent(800))
	loader := tables(t)
	total := newFigures()
	switch {
	case *powerCutSeed != 0:
		powerCutRun(t, loader, *powerCutSeed, total)
	case *powerCutTime != 0:
		first, end := rand.Uint64()>>1, time.Now().Add(*powerCutTime)
		total.share(t, func(t *testing.T, worker uint64, f *figures) {
			for seed := first + worker; time.Now().Before(end) && !t.Failed(); seed += powerCutWorkers {
				powerCutRun(t, loader, seed, f)
			}
		})
	default:
		total.share(t, func(t *testing.T, worker uint64, f *figures) {
			for _, seed := range badSeeds {
				if seed%powerCutWorkers == worker {
					powerCutRun(t, loader, seed, f)
				}
			}
			for seed := 1 + worker; seed <= powerCutRuns && !t.Failed(); seed += powerCutWorkers {
				powerCutRun(t, loader, seed, f)
			}
		})
	}
	total.log(t)
	for _, step := range cutSteps {
		// In fewer runs, chance may leave one out.
		if total.runs >= 20*powerCutRuns && total.steps[step] == 0 {
			t.Errorf("no power cut at %q", step)
		}
	}
}

// powerCutWorkers is how many runs there are at a time.
const powerCutWorkers = 2

// share makes runs in several goroutines and adds up their figures.
func (f *figures) share(t *testing.T, work func(t *testing.T, worker uint64, f *figures)) {
	var parts [powerCutWorkers]*figures
	t.Run("runs", func(t *testing.T) {
		for worker := range powerCutWorkers {
			parts[worker] = newFigures()
			t.Run("", func(t *testing.T) {
				t.Parallel()
				work(t, uint64(worker), parts[worker])
			})
		}
	})
	for _, p := range parts {
		f.runs, f.cuts, f.calls, f.faults = f.runs+p.runs, f.cuts+p.cuts, f.calls+p.calls, f.faults+p.faults
		f.recipients, f.accepted, f.losses = f.recipients+p.recipients, f.accepted+p.accepted, f.losses+p.losses
		for what, n := range p.doubles {
			f.doubles[what] += n
		}
		for step, n := range p.steps {
			f.steps[step] += n
		}
	}
}

func newFigures() *figures { return &figures{doubles: map[string]int{}, steps: map[string]int{}} }

func (f *figures) log(t *testing.T) {
	t.Logf("%d runs, %d power cuts, %d calls on files, %d of them failed by themselves", f.runs, f.cuts, f.calls, f.faults)
	t.Logf("%d recipients, %d of them accepted", f.recipients, f.accepted)
	doubles := 0
	for _, what := range slices.Sorted(maps.Keys(f.doubles)) {
		doubles += f.doubles[what]
		t.Logf("doubled: %6d %s", f.doubles[what], what)
	}
	for _, step := range slices.Sorted(maps.Keys(f.steps)) {
		t.Logf("cut at:  %6d %s", f.steps[step], step)
	}
	t.Logf("doubles: %d, losses: %d", doubles, f.losses)
}

// note takes the lines of a log.
type note func(line string)

func (n note) Write(b []byte) (int, error) {
	n(strings.TrimSpace(string(b)))
	return len(b), nil
}

// tables are the router's, on the real disk.
func tables(t *testing.T) *table.Loader {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"routes": "mx.example local\n* smtp\n", "aliases": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	l := &table.Loader{RoutesFile: filepath.Join(dir, "routes"), AliasesFile: filepath.Join(dir, "aliases"), Domains: []string{"mx.example"}}
	if err := l.Load(); err != nil {
		t.Fatal(err)
	}
	return l
}
