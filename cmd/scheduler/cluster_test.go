package main

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"zsched/internal/testing/peertest"
)

// Schedulers of a cluster as processes, with a Redis server. Their agents ask the test
// about each job line, so it counts the sessions exactly: a session counts until its
// answer is written.

// clusterNode is a scheduler of a cluster with mail for one host. The ttl is that of
// production, so that a machine that stands still for some seconds makes no node exceed a
// limit.
func clusterNode(t *testing.T, store *peertest.Redis, name string) *picker {
	p := newPicker(t, 1, "maxthr=10 clustermax=4 marking=scheduler")
	p.office.write(t, p.po, fmt.Sprintf("PARAMcluster=\"redis://%s/0\"\nPARAMnode=%s\nsmtp/* overfeed=0 maxthr=10 clustermax=4 marking=scheduler\n\tcommand=\"asker %s ${sessions}\"\n",
		store.Addr(), name, filepath.Join(p.po, "asker")))
	fill(t, p.po, 1000, 1)
	p.start()
	return p
}

// atWork waits until the node has n sessions.
func (p *picker) atWork(n int) {
	p.t.Helper()
	for len(p.flight) < n {
		p.next()
	}
}

// collect takes the sessions that have begun, without waiting.
func (p *picker) collect() {
	for {
		select {
		case k := <-p.picks:
			p.flight = append(p.flight, k)
		default:
			return
		}
	}
}

// answerOldest ends the oldest session.
func (p *picker) answerOldest() {
	p.t.Helper()
	k := p.flight[0]
	p.flight = p.flight[1:]
	k.answer(p.t, "ok")
}

// TestSchedulerIsStoppedBeyondItsTTL: by SIGSTOP, while it has sessions. The other node
// then may have all of the limit. When the process goes on, it starts nothing before
// the store has answered.
func TestSchedulerIsStoppedBeyondItsTTL(t *testing.T) {
	store := peertest.FindRedis(t)
	if store == nil {
		t.Skip("no redis-server: make peers gets one")
	}
	store.Start()
	first := clusterNode(t, store, "mx1")
	first.atWork(4) // alone, it has all
	second := clusterNode(t, store, "mx2")
	var over, most, starts int
	count := func() {
		before := len(first.flight) + len(second.flight)
		first.collect()
		second.collect()
		now := len(first.flight) + len(second.flight)
		starts += now - before
		most = max(most, now)
		if now > 4 && now > before {
			over += now - max(4, before)
		}
	}
	report := func(row string) {
		t.Logf("%s: %d starts, %d beyond the limit of 4, most at once %d", row, starts, over, most)
	}
	// turn counts the sessions, lets each of these nodes end one, and says whether
	// the nodes had so many sessions before that.
	turn := func(ofFirst, ofSecond int, ps ...*picker) bool {
		time.Sleep(250 * time.Millisecond) // the length of the sessions
		count()
		had := len(first.flight) == ofFirst && len(second.flight) == ofSecond
		for _, p := range ps {
			if len(p.flight) > 0 {
				p.answerOldest()
			}
		}
		return had
	}
	peertest.Until(t, "both have two sessions", func() bool { return turn(2, 2, first, second) })
	report("both run")
	if over > 0 {
		t.Errorf("%d sessions beyond the limit", over)
	}
	if err := syscall.Kill(first.sched.cmd.Process.Pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(first.sched.cmd.Process.Pid, syscall.SIGCONT) })
	starts, over, most = 0, 0, 0
	peertest.Until(t, "the other node has all of the limit", func() bool { return turn(len(first.flight), 4, second) })
	report("one is stopped, and its two sessions go on")
	if most > 6 {
		t.Errorf("%d sessions at once, with 2 of the stopped node", most)
	}
	for len(first.flight) > 0 {
		first.answerOldest()
	}
	starts, over, most = 0, 0, 0
	if err := syscall.Kill(first.sched.cmd.Process.Pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	shared := 0
	peertest.Until(t, "both share the limit again", func() bool {
		if turn(2, 2, first, second) {
			shared++
		}
		return shared >= 5
	})
	report("it goes on")
	if over > 0 {
		t.Errorf("%d sessions beyond the limit after the stop", over)
	}
}
