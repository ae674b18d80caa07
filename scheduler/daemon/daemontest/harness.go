// Package daemontest runs a real loop around a spool in memory and agents in
// goroutines, for the tests of packages daemon, admin and metrics. In a
// testing/synctest bubble its timers are real, but days pass in no time.
package daemontest

import (
	"bytes"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"zsched/scheduler/daemon"
	"zsched/scheduler/rule"
	"zsched/ta"
)

// Harness is a spool in memory and fake agents around a real loop.
type Harness struct {
	Began   time.Time
	Spool   *Spool
	Signals chan os.Signal
	Ended   chan struct{} // closed when the loop has ended
	Log     *Buffer
	Stats   *Buffer // the statistics log
	Options daemon.Options
	Daemon  *daemon.Daemon // set by Run
	// Deliver is what an agent does with a job line; nil: every recipient is
	// delivered.
	Deliver func(a *FakeAgent, job ta.JobLine)

	t      *testing.T
	mu     sync.Mutex
	agents []*FakeAgent
}

// New makes a Harness with one clause, for every channel and host.
func New(t *testing.T, set func(*rule.Params)) *Harness {
	h := &Harness{
		Began: time.Now(), Signals: make(chan os.Signal, 4), Ended: make(chan struct{}),
		Log: new(Buffer), Stats: new(Buffer), t: t,
	}
	h.Spool = newSpool(h)
	h.Options = daemon.Options{
		Config:  OneClause(set),
		Rand:    rand.New(rand.NewPCG(1, 2)),
		Spool:   h.Spool,
		Agents:  daemon.AgentOptions{Start: h.Start, Mailbin: "/mailbin"},
		Log:     zerolog.New(h.Log),
		Account: func(line []byte) { h.Stats.Write(line) },
		Signals: h.Signals,
	}
	return h
}

// OneClause is a configuration with one clause, smtp/*.
func OneClause(set func(*rule.Params)) *rule.Config {
	p := rule.Params{
		Interval: time.Minute, Retries: []int{1, 1, 2, 3, 5, 8, 13, 21, 34},
		Expiry: 72 * time.Hour, Expiry2: 24 * time.Hour,
		MaxThr: 1, Sessions: 1, Quantum: 50, Command: []string{"agent"}, UID: -1, GID: -1,
		AgentTimeout: 2 * time.Hour,
	}
	if set != nil {
		set(&p)
	}
	return &rule.Config{
		Clauses: []rule.Clause{{
			Channel: "smtp", Host: "*", Settings: []rule.Setting{{
				Name: "command", Value: "agent", Apply: func(to *rule.Params) { *to = p },
			}},
		}},
		Defaults: p, ForkRate: 30,
	}
}

// Run starts the loop.
func (h *Harness) Run() {
	h.Daemon, h.Ended = daemon.New(h.Options), make(chan struct{})
	go func() {
		defer close(h.Ended)
		h.Daemon.Run()
	}()
}

// Stop stops the loop, waits until it has ended, and kills the agents that are left.
func (h *Harness) Stop(sig os.Signal) {
	h.Signals <- sig
	<-h.Ended
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.agents {
		a.Signal(syscall.SIGKILL)
	}
}

// Started returns how many agents have been started so far.
func (h *Harness) Started() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.agents)
}

// Agent returns the i-th agent that was started.
func (h *Harness) Agent(i int) *FakeAgent {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.agents[i]
}

// Since returns the time since New.
func (h *Harness) Since() time.Duration { return time.Since(h.Began) }

// Buffer is a bytes.Buffer for several goroutines.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
