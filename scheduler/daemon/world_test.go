package daemon

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
	"zsched/scheduler/spool"
	"zsched/ta"
	"zsched/ta/child"
)

// world is a spool in memory and agents in goroutines around a real loop, all
// in a synctest bubble: its timers are real, its days are short.
type world struct {
	t       *testing.T
	began   time.Time
	spool   *memorySpool
	signals chan os.Signal
	ended   chan struct{}
	log     *buffer
	stats   *buffer
	options Options
	daemon  *Daemon // that runs

	mu     sync.Mutex
	agents []*puppet
	// play is what an agent does with a job line; nil: every recipient is
	// delivered.
	play func(p *puppet, job ta.Job)
}

// newWorld makes a world with one clause, for every channel and host.
func newWorld(t *testing.T, set func(*scheduler.Params)) *world {
	w := &world{
		t: t, began: time.Now(), signals: make(chan os.Signal, 4), ended: make(chan struct{}),
		log: new(buffer), stats: new(buffer),
	}
	w.spool = newMemorySpool(w)
	w.options = Options{
		Config:  oneClause(set),
		Rand:    rand.New(rand.NewPCG(1, 2)),
		Spool:   w.spool,
		Start:   w.start,
		Mailbin: "/mailbin",
		Log:     zerolog.New(w.log),
		Account: func(line []byte) { w.stats.Write(line) },
		Signals: w.signals,
	}
	return w
}

func oneClause(set func(*scheduler.Params)) *scheduler.Config {
	p := scheduler.Params{
		Interval: time.Minute, Retries: []int{1, 1, 2, 3, 5, 8, 13, 21, 34},
		Expiry: 72 * time.Hour, Expiry2: 24 * time.Hour,
		MaxThr: 1, Sessions: 1, Quantum: 50, Command: []string{"puppet"}, UID: -1, GID: -1,
	}
	if set != nil {
		set(&p)
	}
	return &scheduler.Config{
		Clauses: []scheduler.Clause{{
			Channel: "smtp", Host: "*", Settings: []scheduler.Setting{{
				Name: "command", Value: "puppet", Apply: func(to *scheduler.Params) { *to = p },
			}},
		}},
		Defaults: p, ForkRate: 30, AgentTimeout: 2 * time.Hour,
	}
}

// run starts the loop.
func (w *world) run() {
	w.daemon, w.ended = New(w.options), make(chan struct{})
	go func() {
		defer close(w.ended)
		w.daemon.Run()
	}()
}

// stop stops the loop and waits for it and all agents to leave.
func (w *world) stop(sig os.Signal) {
	w.signals <- sig
	<-w.ended
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.agents {
		p.Signal(syscall.SIGKILL)
	}
}

// started returns how many agents were started, ever.
func (w *world) started() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.agents)
}

func (w *world) agent(i int) *puppet {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.agents[i]
}

// since returns how much of the world's time has gone by.
func (w *world) since() time.Duration { return time.Since(w.began) }

// memorySpool is a queue without directories.
type memorySpool struct {
	world   *world
	found   chan []spool.Name
	results chan []spool.Result

	mu      sync.Mutex
	files   map[string]*memoryFile
	taken   []string // paths in the order of taking
	most    int      // names being taken at one time, at most
	now     int
	sweeps  int
	slow    time.Duration // of every unlinking
	removed func()        // called after one, before it is told
	verbose []string
	fault   error // of every Finish, Probe and order; nil: none
	probes  int
	held    map[string]*memoryFile
	threads []spool.Thread // that are held
	sent    []string       // to the router
	// meanwhile is what somebody else does to held messages after they were
	// looked up, or sent elsewhere.
	meanwhile func()
}

// memoryFile is a control file.
type memoryFile struct {
	taken spool.Taken
	tags  map[int64]ctlfile.Tag
}

// take is the message with its open recipients.
func (f *memoryFile) take() spool.Taken {
	t := f.taken
	t.Recipients = slices.DeleteFunc(slices.Clone(t.Recipients), func(r spool.Recipient) bool {
		return f.tags[r.Offset] != ctlfile.Open
	})
	return t
}

func newMemorySpool(w *world) *memorySpool {
	return &memorySpool{
		world: w, found: make(chan []spool.Name), results: make(chan []spool.Result, 1<<16),
		files: make(map[string]*memoryFile), held: make(map[string]*memoryFile), removed: func() {},
	}
}

// put writes a control file with recipients at these hosts.
func (s *memorySpool) put(id uint64, hosts ...string) spool.Name {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file(id, hosts...)
}

func (s *memorySpool) file(id uint64, hosts ...string) spool.Name {
	name := spool.Name{Path: strconv.FormatUint(id, 10), ID: id}
	f := &memoryFile{tags: make(map[int64]ctlfile.Tag)}
	f.taken = spool.Taken{Name: name, LogID: fmt.Sprintf("<m%d@here>", id), Sender: "rayan", ErrorTo: "rayan", ModifiedAt: time.Now(), ChangedAt: time.Now(), Size: 100}
	for i, host := range hosts {
		offset := int64(100 + 50*i)
		f.tags[offset] = ctlfile.Open
		f.taken.Recipients = append(f.taken.Recipients, spool.Recipient{Offset: offset, Channel: "smtp", Host: host})
	}
	s.files[name.Path] = f
	return name
}

// bring puts a control file there and says so.
func (s *memorySpool) bring(id uint64, hosts ...string) {
	s.found <- []spool.Name{s.put(id, hosts...)}
}

func (s *memorySpool) Found() <-chan []spool.Name     { return s.found }
func (s *memorySpool) Results() <-chan []spool.Result { return s.results }

func (s *memorySpool) Probe() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.probes++
	s.answer(spool.Probed{Err: s.fault})
}

// fail makes writing fail from now on, or work again.
func (s *memorySpool) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = err
}

func (s *memorySpool) answer(r spool.Result) { s.results <- []spool.Result{r} }

func (s *memorySpool) Sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweeps++
}

func (s *memorySpool) Verbose(_ string, _ uint32, line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.verbose = append(s.verbose, line)
}

func (s *memorySpool) Take(names []spool.Name) {
	s.mu.Lock()
	s.now += len(names)
	s.most = max(s.most, s.now)
	s.mu.Unlock()
	go func() {
		for _, name := range names {
			s.mu.Lock()
			var r spool.Result = spool.Refused{Name: name, Why: spool.Vanished, Tries: 1}
			if f := s.files[name.Path]; f != nil {
				s.taken = append(s.taken, name.Path)
				r = f.take()
			}
			s.now--
			s.mu.Unlock()
			s.answer(r)
		}
	}()
}

func (s *memorySpool) Mark(op uint64, path string, marks []spool.Mark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[path]
	for _, m := range marks {
		if f != nil && !m.LeaveTag {
			f.tags[m.Offset] = m.Tag
		}
	}
	s.answer(spool.Marked{Op: op, Missing: f == nil})
}

func (s *memorySpool) Reread(op uint64, path string, _ int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[path]
	r := spool.Reread{Op: op, Missing: f == nil}
	if f != nil {
		for _, to := range f.taken.Recipients {
			r.Recipients = append(r.Recipients, spool.State{Offset: to.Offset, Tag: f.tags[to.Offset]})
		}
	}
	s.answer(r)
}

func (s *memorySpool) Finish(op uint64, path string, _ bool) {
	go func() {
		time.Sleep(s.slow)
		s.mu.Lock()
		err := s.fault
		if err == nil {
			delete(s.files, path)
		}
		s.mu.Unlock()
		s.removed()
		s.answer(spool.Finished{Op: op, Err: err})
	}()
}

// left returns how many control files there are.
func (s *memorySpool) left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.files)
}

// takes returns how often a control file was read.
func (s *memorySpool) takes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.taken)
}

// puppet is an agent in a goroutine. What it does with a job line is the
// world's to say.
type puppet struct {
	world *world
	pid   int
	sink  func([]child.Heard)

	mu     sync.Mutex
	unread bytes.Buffer
	eof    bool
	status string
	wake   chan struct{}
	taught []syscall.Signal
	deaf   bool // to everything but SIGKILL
}

func (w *world) start(spec child.Spec, sink func([]child.Heard)) (Agent, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := &puppet{world: w, pid: 1000 + len(w.agents), sink: sink, wake: make(chan struct{}, 1)}
	w.agents = append(w.agents, p)
	go p.live()
	return p, nil
}

func (p *puppet) live() {
	defer func() {
		p.mu.Lock()
		status := p.status
		p.mu.Unlock()
		p.sink([]child.Heard{child.Exited{Status: status, Clean: status == "exit status 0"}})
	}()
	p.say(child.Said{Kind: ta.Hungry})
	for range p.wake {
		for {
			line, dead := p.next()
			if dead {
				return
			}
			if line == "" {
				break
			}
			if p.deaf {
				continue
			}
			if line != "#idle\n" {
				job, err := ta.ParseJob([]byte(strings.TrimSuffix(line, "\n")))
				if err != nil {
					p.world.t.Errorf("agent was given %q: %v", line, err)
					continue
				}
				p.do(job)
				if p.dying() {
					return
				}
			}
			p.say(child.Said{Kind: ta.Hungry})
		}
	}
}

// next returns a whole line, if one is there, and whether it is time to leave.
func (p *puppet) next() (line string, dead bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.status != "" {
		return "", true
	}
	line, err := p.unread.ReadString('\n')
	if err != nil {
		p.unread.WriteString(line)
		line = ""
	}
	if !p.deaf && (line == "\n" || line == "" && p.eof) {
		p.status = "exit status 0"
		return "", true
	}
	return line, false
}

// dying reports whether it has no more to say.
func (p *puppet) dying() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status != ""
}

func (p *puppet) do(job ta.Job) {
	if p.world.play != nil {
		p.world.play(p, job)
		return
	}
	p.reportAll(job, ta.OK2, "delivered")
}

// reportAll reports every open recipient of a job line in the same way, and
// tags those that are done, as agents do.
func (p *puppet) reportAll(job ta.Job, status ta.Status, text string) {
	s := p.world.spool
	s.mu.Lock()
	f := s.files[job.Path]
	var reports []child.Heard
	for _, to := range f.taken.Recipients {
		if to.Host != job.Host || f.tags[to.Offset] != ctlfile.Open {
			continue
		}
		switch status {
		case ta.OK2, ta.OK3:
			f.tags[to.Offset] = ctlfile.Delivered
		case ta.Error2:
			f.tags[to.Offset] = ctlfile.Failed
		}
		reports = append(reports, child.Said{Kind: ta.Reported, Report: ta.Report{
			Message: f.taken.Name.ID, Offset: to.Offset, Status: status, Text: text,
		}})
	}
	s.mu.Unlock()
	p.say(reports...)
}

// deafen makes it mind nothing but SIGKILL.
func (p *puppet) deafen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = true
}

func (p *puppet) say(said ...child.Heard) { p.sink(said) }

func (p *puppet) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// given returns what the agent has not read yet and the signals it got.
func (p *puppet) given() (lines, signals string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unread.String(), fmt.Sprint(p.taught)
}

func (p *puppet) PID() int { return p.pid }

func (p *puppet) Send(b []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unread.Write(b)
	p.signal()
	return nil
}

func (p *puppet) CloseWrite() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.eof = true
	p.signal()
}

func (p *puppet) Signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taught = append(p.taught, sig)
	if !p.deaf || sig == syscall.SIGKILL {
		p.status = fmt.Sprintf("signal: %v", sig)
	}
	p.signal()
	return nil
}

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
