// Package daemontest runs a real loop around a spool in memory and agents in
// goroutines, for the tests of packages daemon, admin and metrics. In a
// testing/synctest bubble its timers are real and its days are short.
package daemontest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"zsched/ctlfile"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
	"zsched/scheduler/spool"
	"zsched/ta"
	"zsched/ta/child"
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
	Deliver func(a *FakeAgent, job ta.Job)

	t      *testing.T
	mu     sync.Mutex
	agents []*FakeAgent
}

// New makes a Harness with one clause, for every channel and host.
func New(t *testing.T, set func(*scheduler.Params)) *Harness {
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
func OneClause(set func(*scheduler.Params)) *scheduler.Config {
	p := scheduler.Params{
		Interval: time.Minute, Retries: []int{1, 1, 2, 3, 5, 8, 13, 21, 34},
		Expiry: 72 * time.Hour, Expiry2: 24 * time.Hour,
		MaxThr: 1, Sessions: 1, Quantum: 50, Command: []string{"agent"}, UID: -1, GID: -1,
		AgentTimeout: 2 * time.Hour,
	}
	if set != nil {
		set(&p)
	}
	return &scheduler.Config{
		Clauses: []scheduler.Clause{{
			Channel: "smtp", Host: "*", Settings: []scheduler.Setting{{
				Name: "command", Value: "agent", Apply: func(to *scheduler.Params) { *to = p },
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

// Stop stops the loop and waits for it and all agents to leave.
func (h *Harness) Stop(sig os.Signal) {
	h.Signals <- sig
	<-h.Ended
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.agents {
		a.Signal(syscall.SIGKILL)
	}
}

// Started returns how many agents were started, ever.
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

// Spool is a queue without directories. Its fields may be read and set while no
// loop runs, or between synctest.Wait and the next event.
type Spool struct {
	harness *Harness
	Names   chan []spool.Name // found
	Answers chan []spool.Result

	Mu        sync.Mutex
	Files     map[string]*File // by path, in the queue
	Held      map[string]*File // by path, in hold/
	Threads   []spool.Thread   // that are held
	MaxTaking int              // names being taken at one time, at most
	Sweeps    int
	Probes    int
	Slow      time.Duration // time that each Finish takes
	Finished  func()        // called after each Finish, before it is answered
	Lines     []string      // that Verbose wrote
	Sent      []string      // to the router
	// Meanwhile is what somebody else does to held messages after they were
	// looked up, or sent elsewhere.
	Meanwhile func()

	takes  int
	taking int
	fault  error // of every Finish, Probe and order; nil: none
}

// File is a control file.
type File struct {
	Taken spool.Taken
	Tags  map[int64]ctlfile.Tag
}

// message is the message with its open recipients.
func (f *File) message() spool.Taken {
	t := f.Taken
	t.Recipients = slices.DeleteFunc(slices.Clone(t.Recipients), func(r ctlfile.OpenRecipient) bool {
		return f.Tags[r.Offset] != ctlfile.Open
	})
	return t
}

func newSpool(h *Harness) *Spool {
	return &Spool{
		harness: h, Names: make(chan []spool.Name), Answers: make(chan []spool.Result, 1<<16),
		Files: make(map[string]*File), Held: make(map[string]*File), Finished: func() {},
	}
}

// Put writes a control file with recipients at these hosts.
func (s *Spool) Put(id uint64, hosts ...string) spool.Name {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.file(id, hosts...)
}

func (s *Spool) file(id uint64, hosts ...string) spool.Name {
	name := spool.Name{Path: strconv.FormatUint(id, 10), ID: id}
	f := &File{Tags: make(map[int64]ctlfile.Tag)}
	f.Taken = spool.Taken{Name: name, LogID: fmt.Sprintf("<m%d@here>", id), Sender: "rayan", ErrorTo: "rayan", ModifiedAt: time.Now(), ChangedAt: time.Now(), Size: 100}
	for i, host := range hosts {
		offset := int64(100 + 50*i)
		f.Tags[offset] = ctlfile.Open
		f.Taken.Recipients = append(f.Taken.Recipients, ctlfile.OpenRecipient{Offset: offset, Channel: "smtp", Host: host})
	}
	s.Files[name.Path] = f
	return name
}

// Bring puts a control file there and says so.
func (s *Spool) Bring(id uint64, hosts ...string) {
	s.Names <- []spool.Name{s.Put(id, hosts...)}
}

func (s *Spool) Found() <-chan []spool.Name     { return s.Names }
func (s *Spool) Results() <-chan []spool.Result { return s.Answers }

func (s *Spool) Probe() {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Probes++
	s.Answer(spool.Probed{Err: s.fault})
}

// Fail makes writing fail from now on, or work again.
func (s *Spool) Fail(err error) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.fault = err
}

// Answer sends a result to the loop.
func (s *Spool) Answer(r spool.Result) { s.Answers <- []spool.Result{r} }

func (s *Spool) Sweep() {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Sweeps++
}

func (s *Spool) Verbose(_ string, _ uint32, line string) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Lines = append(s.Lines, line)
}

func (s *Spool) Take(names []spool.Name) {
	s.Mu.Lock()
	s.taking += len(names)
	s.MaxTaking = max(s.MaxTaking, s.taking)
	s.Mu.Unlock()
	go func() {
		for _, name := range names {
			s.Mu.Lock()
			var r spool.Result = spool.Refused{Name: name, Why: spool.Vanished, Tries: 1}
			if f := s.Files[name.Path]; f != nil {
				s.takes++
				r = f.message()
			}
			s.taking--
			s.Mu.Unlock()
			s.Answer(r)
		}
	}()
}

func (s *Spool) Mark(op uint64, path string, marks []ctlfile.Mark) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	f := s.Files[path]
	for _, m := range marks {
		if f != nil && !m.LeaveTag {
			f.Tags[m.Offset] = m.Tag
		}
	}
	s.Answer(spool.Marked{Op: op, Missing: f == nil})
}

func (s *Spool) Reread(op uint64, path string, _ int) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	f := s.Files[path]
	r := spool.Reread{Op: op, Missing: f == nil}
	if f != nil {
		for _, to := range f.Taken.Recipients {
			r.Recipients = append(r.Recipients, ctlfile.State{Offset: to.Offset, Tag: f.Tags[to.Offset]})
		}
	}
	s.Answer(r)
}

func (s *Spool) Finish(op uint64, path string, _ bool) {
	go func() {
		time.Sleep(s.Slow)
		s.Mu.Lock()
		err := s.fault
		if err == nil {
			delete(s.Files, path)
		}
		s.Mu.Unlock()
		s.Finished()
		s.Answer(spool.Finished{Op: op, Err: err})
	}()
}

// Left returns how many control files there are.
func (s *Spool) Left() int {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return len(s.Files)
}

// Takes returns how often a control file was read.
func (s *Spool) Takes() int {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.takes
}

// FakeAgent is an agent in a goroutine. What it does with a job line is the
// Harness's to say.
type FakeAgent struct {
	harness *Harness
	pid     int
	sink    func([]child.Event)

	mu      sync.Mutex
	unread  bytes.Buffer
	eof     bool
	status  string
	wake    chan struct{}
	signals []syscall.Signal
	deaf    bool // to everything but SIGKILL
}

// Start starts a fake agent: daemon.Starter.
func (h *Harness) Start(spec child.Spec, sink func([]child.Event)) (daemon.Agent, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := &FakeAgent{harness: h, pid: 1000 + len(h.agents), sink: sink, wake: make(chan struct{}, 1)}
	h.agents = append(h.agents, a)
	go a.live()
	return a, nil
}

func (a *FakeAgent) live() {
	defer func() {
		a.mu.Lock()
		status := a.status
		a.mu.Unlock()
		a.sink([]child.Event{child.Exited{Status: status, Clean: status == "exit status 0"}})
	}()
	a.Say(child.Line{Kind: ta.Hungry})
	for range a.wake {
		for {
			line, dead := a.next()
			if dead {
				return
			}
			if line == "" {
				break
			}
			if a.deaf {
				continue
			}
			if line != "#idle\n" {
				job, err := ta.ParseJob([]byte(strings.TrimSuffix(line, "\n")))
				if err != nil {
					a.harness.t.Errorf("agent was given %q: %v", line, err)
					continue
				}
				a.do(job)
				if a.dying() {
					return
				}
			}
			a.Say(child.Line{Kind: ta.Hungry})
		}
	}
}

// next returns a whole line, if one is there, and whether it is time to leave.
func (a *FakeAgent) next() (line string, dead bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.status != "" {
		return "", true
	}
	line, err := a.unread.ReadString('\n')
	if err != nil {
		a.unread.WriteString(line)
		line = ""
	}
	if !a.deaf && (line == "\n" || line == "" && a.eof) {
		a.status = "exit status 0"
		return "", true
	}
	return line, false
}

// dying reports whether it has no more to say.
func (a *FakeAgent) dying() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status != ""
}

func (a *FakeAgent) do(job ta.Job) {
	if a.harness.Deliver != nil {
		a.harness.Deliver(a, job)
		return
	}
	a.ReportAll(job, ta.OK2, "delivered")
}

// ReportAll reports every open recipient of a job line in the same way, and
// tags those that are done, as agents do.
func (a *FakeAgent) ReportAll(job ta.Job, status ta.Status, text string) {
	s := a.harness.Spool
	s.Mu.Lock()
	f := s.Files[job.Path]
	var reports []child.Event
	for _, to := range f.Taken.Recipients {
		if to.Host != job.Host || f.Tags[to.Offset] != ctlfile.Open {
			continue
		}
		switch status {
		case ta.OK2, ta.OK3:
			f.Tags[to.Offset] = ctlfile.Delivered
		case ta.Error2:
			f.Tags[to.Offset] = ctlfile.Failed
		}
		reports = append(reports, child.Line{Kind: ta.Reported, Report: ta.Report{
			Message: f.Taken.Name.ID, Offset: to.Offset, Status: status, Text: text,
		}})
	}
	s.Mu.Unlock()
	a.Say(reports...)
}

// Deafen makes it mind nothing but SIGKILL.
func (a *FakeAgent) Deafen() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.deaf = true
}

func (a *FakeAgent) Say(said ...child.Event) { a.sink(said) }

func (a *FakeAgent) notify() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// Given returns what the agent has not read yet and the signals it got.
func (a *FakeAgent) Given() (lines, signals string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.unread.String(), fmt.Sprint(a.signals)
}

func (a *FakeAgent) PID() int { return a.pid }

func (a *FakeAgent) Send(b []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unread.Write(b)
	a.notify()
	return nil
}

func (a *FakeAgent) CloseWrite() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.eof = true
	a.notify()
}

func (a *FakeAgent) Signal(sig syscall.Signal) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.signals = append(a.signals, sig)
	if !a.deaf || sig == syscall.SIGKILL {
		a.status = fmt.Sprintf("signal: %v", sig)
	}
	a.notify()
	return nil
}

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
