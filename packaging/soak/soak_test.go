// Package soak contains only a test. It runs the whole mail system under load, kills its
// programs all the time, and checks that every recipient ends as it should.
//
//	make soak SECONDS=1800
//
// Mail comes in over SMTP and from sendmail. It goes through router and scheduler
// into Maildirs and to SMTP servers, fails, expires, and comes back as notices. Orders
// hold, release, reroute, requeue, retry, expire and kill it. For two thirds of the
// time every program is killed with SIGKILL every few seconds. In the last third only
// agents and clients are killed, so that leaks in the daemons show. Then the queue
// drains, and a ledger shows what became of every recipient.
//
// Everything runs on loopback addresses and in one directory, as root or as any user.
// At the end the processes are stopped and the directory is removed.
package soak

import (
	"context"
	"flag"
	"maps"
	"math/rand/v2"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

var (
	soakTime = flag.Duration("soak.time", 2*time.Second, "how long TestSoak sends mail")
	keep     = flag.Bool("soak.keep", false, "keep the directory of TestSoak, with an event log")
)

const (
	sessions = 6 // SMTP clients at once
	writers  = 2 // callers of sendmail at once

	administrators = 6 // callers of mailq at once
)

// TestSoak runs everything that the package comment describes.
func TestSoak(t *testing.T) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	s := newSite(t)
	s.startAll()
	reading, stopReading := context.WithCancel(context.Background())
	var reader sync.WaitGroup
	reader.Go(func() { s.readMaildirs(reading) })
	fresh := s.measureFresh(ctx)

	begun := time.Now()
	calm := begun.Add(*soakTime * 2 / 3)
	load, end := context.WithDeadline(ctx, begun.Add(*soakTime))
	defer end()

	var work sync.WaitGroup
	for range sessions {
		work.Go(func() { s.submitOverSMTP(load) })
	}
	for range writers {
		work.Go(func() { s.submitWithSendmail(load) })
	}
	for range administrators {
		work.Go(func() { s.order(load) })
	}
	work.Go(func() { s.killDaemons(load, calm) })
	work.Go(func() { s.killAgents(load) })
	work.Go(func() { s.backlog.watch(load, s) })
	work.Go(func() { s.watchGrowth(load, calm) })
	work.Wait()
	took := time.Since(begun)

	s.drain(ctx)
	t.Logf("the queue was empty after another %s", time.Since(begun)-took)
	stopReading()
	reader.Wait()
	if ctx.Err() != nil {
		t.Fatal("interrupted")
	}
	s.checkLeaks(ctx, fresh)
	s.stopAll()
	s.checkFiles()
	s.report(took)
}

// report prints the figures, and fails the test for each recipient that did not end as
// it should.
func (s *site) report(took time.Duration) {
	v := s.ledger.verdict(s.faults.list())
	s.t.Logf("%d messages accepted in %s, with %d recipients: %d delivered, %d failed, %d killed by order",
		v.messages, took.Round(time.Second), v.recipients, v.delivered, v.failed, v.killed)
	s.t.Logf("%d times a recipient was held until an order let it go", v.held)
	s.t.Logf("%d messages whose client was not told: %d of them arrived", v.unsure, v.unsureArrived)
	faults := 0
	for _, kind := range slices.Sorted(maps.Keys(s.faults.counts)) {
		faults += s.faults.counts[kind]
		s.t.Logf("fault: %7d %s", s.faults.counts[kind], kind)
	}
	for _, kind := range slices.Sorted(maps.Keys(s.orders)) {
		s.t.Logf("order: %7d %s", s.orders[kind], kind)
	}
	doubles := 0
	for _, cause := range slices.Sorted(maps.Keys(v.doubles)) {
		d := v.doubles[cause]
		doubles += d.times
		s.t.Logf("double: %6d %s; at most %s before or after it", d.times, cause, d.gap.Round(time.Millisecond))
	}
	for i, text := range v.wrong {
		if i == 50 {
			s.t.Errorf("and %d more", len(v.wrong)-i)
			break
		}
		s.t.Error(text)
	}
	s.t.Logf("messages %d, faults survived %d, doubles %d, losses %d", v.messages, faults, doubles, v.losses)
	if v.messages == 0 || v.delivered == 0 || v.failed == 0 {
		s.t.Error("no mail was accepted, none was delivered, or none has failed")
	}
}

// pause waits for a random time, at most twice the mean. It reports whether ctx has not
// ended.
func pause(ctx context.Context, mean time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(rand.N(2*mean) + 1):
		return true
	}
}
