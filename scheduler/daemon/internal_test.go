package daemon

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"zsched/ctlfile"
	"zsched/scheduler"
	child "zsched/scheduler/agent"
	"zsched/scheduler/rule"
	"zsched/scheduler/spool"
	"zsched/ta"
)

// KnowsSaved reports whether the table of the saved state is in memory.
func (l *Loop) KnowsSaved() bool { return l.saved != nil }

// Turn, Loaded and the constants are for the tests in package daemon_test.
func (d *Daemon) Turn()       { d.turn() }
func (d *Daemon) Loaded() int { return d.loop.intake.messages }

const (
	MaxBatch  = maxBatch
	MaxTaking = maxTaking
)

// Agents are not heard while more than maxFinishing messages wait to be removed.
func TestSlowRemovalHoldsAgentsBack(t *testing.T) {
	d := New(Options{Config: new(rule.Config), Rand: rand.New(rand.NewPCG(1, 2)), Spool: silentSpool{}})
	d.agentSaid <- agentEvents{}
	d.owed = 1
	if d.asking() != nil {
		t.Error("a second question comes before what an agent says")
	}
	for op := range scheduler.Op(maxFinishing) {
		if d.heard() == nil {
			t.Fatalf("nothing is heard while %d messages are removed", op)
		}
		d.loop.intake.finishing[op] = 0
	}
	if d.heard() != nil {
		t.Error("agents are heard although too much waits")
	}
	if d.asking() == nil {
		t.Error("a question waits for an agent that is not heard")
	}
	d.loop.intake.finished(0)
	if d.heard() == nil {
		t.Error("nothing is heard after a removal")
	}
}

// silentSpool has no results.
type silentSpool struct{ Spool }

func (silentSpool) Results() <-chan []spool.Result { return nil }

// An agent that says very much at once holds nobody up: it comes in pieces.
func TestChattyAgentIsHeardInPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard int
		d := New(Options{Config: new(rule.Config), Rand: rand.New(rand.NewPCG(1, 2))})
		l := &listener{daemon: d, agent: 1, known: closed(), log: zerolog.Nop(), limit: newOutputLimit()}
		go func() {
			var all []child.Event
			for range 1000 {
				all = append(all, child.Line{Kind: ta.Reported})
			}
			l.hear(append(all, child.Exited{}))
		}()
		for {
			said := <-l.daemon.agentSaid
			if len(said.events) > maxBatch {
				t.Errorf("%d events in one piece", len(said.events))
			}
			if heard += len(said.events); said.exited {
				break
			}
		}
		if heard != 1001 {
			t.Errorf("%d events of 1001", heard)
		}
	})
}

func closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func TestStatisticsLine(t *testing.T) {
	changed := time.Date(2003, 3, 12, 22, 38, 24, 0, time.UTC)
	line := appendAccount(nil, &scheduler.Outcome{
		Message: 258367, ModifiedAt: time.Date(2003, 3, 12, 22, 38, 19, 0, time.UTC), ChangedAt: changed,
		State: "ok3", Channel: "smtp", Host: "funet.fi",
	}, changed.Add(7*time.Second))
	if got, want := string(line), "S258367AbTCLWiT 5 7 ok3 smtp/funet.fi\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// The loop hears nobody else while it looks: with a list through a list a
// million recipients would take it a quarter of an hour.
func TestResubmittedOfAMillion(t *testing.T) {
	const n = 1_000_000
	asked := make([]int64, n)
	r := spool.Answered{Copies: spool.Copies{Offsets: make([]int64, n/2)}, Recipients: make([]ctlfile.State, n)}
	for i := range asked {
		asked[i] = int64(100 * i)
		r.Recipients[i] = ctlfile.State{Offset: asked[i], Tag: ctlfile.Open}
		if i < n/2 {
			r.Offsets[i] = asked[i]
		} else {
			r.Recipients[i].Tag = ctlfile.Delivered
		}
	}
	if !allSent(asked, r) {
		t.Error("not all were sent")
	}
	r.Recipients[n-1].Tag = ctlfile.Locked
	if allSent(asked, r) {
		t.Error("all were sent, also the locked one")
	}
}

// A recipient that went counts as gone although another stayed locked.
func TestRerouteInPartFailsAsAWhole(t *testing.T) {
	for _, c := range []struct {
		went   []int64
		states []ctlfile.State
		err    error
		done   bool
	}{
		{went: []int64{100, 150}, done: true},
		{went: []int64{100, 150}, err: syscall.EIO, done: true},
		{went: []int64{100}, states: []ctlfile.State{{Offset: 150, Tag: ctlfile.Delivered}}, done: true},
		{went: []int64{100}, states: []ctlfile.State{{Offset: 150, Tag: ctlfile.Locked}}},
		{err: syscall.ENOSPC},
	} {
		synctest.Test(t, func(t *testing.T) {
			log := new(bytes.Buffer)
			d := New(Options{
				Config: new(rule.Config), Rand: rand.New(rand.NewPCG(1, 2)), Log: zerolog.New(log), Verbose: true,
			})
			d.loop.files.answered(spool.Answered{
				Action: scheduler.Resubmit{Offsets: []int64{100, 150}}, Op: 5,
				Copies: spool.Copies{Offsets: c.went}, Recipients: c.states, Err: c.err,
			})
			if done := strings.Contains(log.String(), `"event":"Done"`); done != c.done {
				t.Errorf("%+v: done is %v", c, done)
			}
		})
	}
}
