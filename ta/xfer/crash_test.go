package xfer

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/internal/testing/memdisk"
)

var crashRuns = flag.Int("crash.runs", 150, "number of runs of TestCrashOnEitherSideLosesAndDoublesNothing")

func TestMailArrivesAsItWas(t *testing.T) {
	p := newPair(t, t.TempDir(), t.TempDir())
	p.submit(3)
	p.submit(1)
	stop, err := p.serve()
	check(t, err)
	defer stop()
	said := p.run()
	if got := strings.Count(said, "\tok3 moved to mx2"); got != 4 {
		t.Errorf("%d reports of success:\n%s", got, said)
	}
	for _, path := range controlFiles(filepath.Join(p.source, "transport"), "") {
		f := p.readControl(filepath.Join(p.source, "transport", path))
		for i := range f.Recipients {
			if f.Recipients[i].Tag != ctlfile.Delivered || f.Outcome(i) != string(ctlfile.Moved) {
				t.Errorf("%s has the tag %q: %s", f.Recipients[i].User, f.Recipients[i].Tag, f.Outcome(i))
			}
		}
		for _, d := range f.Diagnostics {
			if d.Tag != ctlfile.Delivered || d.Text != "moved to mx2" {
				t.Errorf("the d line %+v is not marked as reported", d)
			}
		}
	}
	p.arrivedOnce("all")
}

// TestCrashOnEitherSideLosesAndDoublesNothing cuts the power of one node or the other at
// a random call while mail is moved, and moves the rest after that, perhaps with another
// cut. At the end every recipient is at the target, once.
func TestCrashOnEitherSideLosesAndDoublesNothing(t *testing.T) {
	for run := range *crashRuns {
		seed := rand.New(rand.NewPCG(uint64(run), 15))
		source, target := filepath.Join(t.TempDir(), "source"), filepath.Join(t.TempDir(), "target")
		disks := []*memdisk.Disk{memdisk.New(source, os.Geteuid(), seed), memdisk.New(target, os.Geteuid(), rand.New(rand.NewPCG(uint64(run), 16)))}
		unmount := []func(){postoffice.Mount(source, disks[0]), postoffice.Mount(target, disks[1])}
		p := newPair(t, source, target)
		for range 1 + seed.IntN(5) {
			p.submit(1 + seed.IntN(3))
		}
		for round := range 20 {
			if round < 3 {
				disks[seed.IntN(2)].CutAt(1+seed.IntN(80), func(string) bool { return true })
			}
			if stop, err := p.serve(); err == nil {
				p.run()
				stop()
			}
			for _, disk := range disks {
				disk.CutAt(0, nil)
				if off, _ := disk.IsOff(); off {
					disk.PowerOn(seed.Float64())
				}
			}
			if p.repair() == 0 {
				break
			}
		}
		stop, err := p.serve() // completes what a cut has left
		check(t, err)
		stop()
		p.arrivedOnce(fmt.Sprintf("run %d", run))
		if t.Failed() {
			for i, disk := range disks {
				t.Logf("disk %d:\n%s", i, strings.Join(disk.Trace(""), "\n"))
			}
			t.FailNow()
		}
		for _, un := range unmount {
			un()
		}
	}
}
