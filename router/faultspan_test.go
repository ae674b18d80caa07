package router

// Recovery: how long mail stays where it is after a fault of the disk has ended.

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
	"zsched/internal/testing/ledger"
	"zsched/internal/testing/memdisk"
	"zsched/router/table"
)

const (
	// recoveryLimit is how long after the end of a fault all mail has been delivered or
	// has failed, and its notices have been delivered. doc/reliability.md states it.
	recoveryLimit = 2 * time.Minute
	// recoveryInterval is the time between two attempts in TestMailMovesOnSoonAfterAFault:
	// the agents defer mail that they cannot read.
	recoveryInterval = 10 * time.Second
	recoveryRuns     = 3 // for each fault and span
)

// span is a fault and how long it lasts.
type span struct {
	errno       unix.Errno // 0: the disk is full
	probability float64
	lasts       time.Duration
}

func (f span) String() string {
	name := "no space left"
	if f.errno != 0 {
		name = fmt.Sprintf("%s at %.0f %% of the calls", unix.ErrnoName(f.errno), 100*f.probability)
	}
	return fmt.Sprintf("%s for %v", name, f.lasts)
}

// spans returns all faults of TestMailMovesOnSoonAfterAFault.
func spans() (list []span) {
	for _, lasts := range []time.Duration{time.Second, time.Minute, 10 * time.Minute} {
		list = append(list, span{lasts: lasts})
		for _, errno := range memdisk.Errors {
			list = append(list, span{errno, 0.1, lasts})
			if errno != unix.EINTR { // a call that a signal always interrupts never ends
				list = append(list, span{errno, 1, lasts})
			}
		}
	}
	return list
}

// TestMailMovesOnSoonAfterAFault makes calls on files fail for a while. When that ends, the
// programs recover without help and in time. The time is virtual, so the load of the machine
// does not count. packaging/crashtest does the same on a real disk, but cannot have such a
// limit: there the recovery takes as long as the machine lets it.
func TestMailMovesOnSoonAfterAFault(t *testing.T) {
	loader := tables(t)
	var all []time.Duration
	for i, f := range spans() {
		for n := range recoveryRuns {
			var took time.Duration
			synctest.Test(t, func(t *testing.T) {
				took = recoverFrom(t, loader, f, uint64(1000*i+n))
			})
			all = append(all, took)
		}
	}
	slices.Sort(all)
	t.Logf("%d faults: half of them over within %v, all within %v", len(all), all[len(all)/2], all[len(all)-1])
}

// recoverFrom runs the programs with a fault and returns how long they take after it.
func recoverFrom(t *testing.T, loader *table.Loader, f span, seed uint64) (took time.Duration) {
	s := newSimulation(t, loader, seed, newFigures())
	defer postoffice.Mount(s.office, s.disk)()
	s.makeDirs()
	m := s.machine()
	m.faults, m.interval, m.hinted = true, recoveryInterval, true
	if err := m.start(loader, rand.New(rand.NewPCG(seed, 3))); err != nil {
		t.Fatal(err)
	}
	defer m.stop()
	s.submitGood(m)
	time.Sleep(time.Duration(s.rand.IntN(3000)) * time.Millisecond)
	faults := memdisk.Faults{Probability: f.probability, Error: f.errno}
	if f.errno == 0 {
		faults.Space = s.disk.Used() + int64(s.rand.IntN(3000))
	}
	s.disk.SetFaults(faults)
	for range 3 {
		s.submitGood(m)
		time.Sleep(f.lasts / 3)
	}
	s.disk.Trace("THE FAULT ENDS")
	s.disk.SetFaults(memdisk.Faults{})
	for len(s.ledger.Unkept()) > 0 && took < 10*recoveryLimit {
		time.Sleep(time.Second)
		synctest.Wait()
		took += time.Second
		s.disk.Trace(fmt.Sprintf("%v AFTER THE FAULT", took))
	}
	for _, why := range slices.Concat(s.ledger.Unkept(), s.ledger.Wrong()) {
		t.Errorf("%v: %s", f, why)
	}
	if took > recoveryLimit {
		t.Errorf("%v: the mail moves on after %v", f, took)
	}
	if t.Failed() {
		s.explain()
	}
	return took
}

// submitGood submits messages whose recipients are delivered or fail at the first attempt.
func (s *simulation) submitGood(m *machine) {
	for range 3 {
		s.submitOne(m, func() (ledger.Fate, bool) {
			fate := ledger.Delivers
			if s.rand.IntN(3) == 0 {
				fate = ledger.Fails
			}
			return fate, s.rand.IntN(2) == 0
		})
	}
}
