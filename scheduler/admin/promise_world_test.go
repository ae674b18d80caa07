package admin

// The machine of TestAnswersAreKept.

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/mailq/server"
	"zsched/queue"
	"zsched/scheduler"
	child "zsched/scheduler/agent"
	"zsched/scheduler/daemon"
	"zsched/scheduler/daemon/daemontest"
	"zsched/scheduler/rule"
	"zsched/scheduler/spool"
	"zsched/scheduler/state"
	"zsched/ta"
)

const hosts = 3 // at which recipients are

// life is a scheduler from its start to its end.
type life struct {
	world   *world
	ctx     context.Context
	cancel  context.CancelFunc
	spool   *spool.Spool
	daemon  *daemon.Daemon
	admin   *Server
	signals chan os.Signal
	ended   chan struct{}
	all     sync.WaitGroup

	mu      sync.Mutex
	started []*daemontest.InProcess
}

func postofficeDir(w *world, name string) error {
	disk := postoffice.Mount(w.office, w.disk)
	defer disk()
	return postoffice.MakeDir(postoffice.WorkingDir, w.office+"/"+name, 0o755)
}

func (w *world) start() {
	l := &life{world: w, signals: make(chan os.Signal, 8), ended: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	var err error
	l.spool, err = spool.Open(spool.Options{
		Postoffice: w.office, Unwatched: true, Workers: 2, Reporter: nobodyTold{}, Router: queue.Router{Postoffice: w.office},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	log := zerolog.New(lines(func(line string) { w.note("%s", line) })).Level(zerolog.InfoLevel)
	l.daemon = daemon.New(daemon.Options{
		Config: w.config(), Rand: rand.New(rand.NewPCG(uint64(w.intN(1<<30)), 3)), Spool: slowSpool{l.spool, w}, Signals: l.signals, Log: log,
		Agents: daemon.AgentOptions{Start: l.startAgent, Mailbin: "/mailbin"}, Observers: []daemon.Observer{l},
		State: path.Join(w.office, state.Name), Reload: func() (*rule.Config, error) { return w.config(), nil },
	})
	l.all.Go(func() {
		defer close(l.ended)
		_ = l.daemon.Run()
	})
	l.admin = New(Options{Port: slowPort{l.daemon, w}, Files: slowFiles{l.spool.Files(), w}, Log: log, Settings: server.Settings{}})
	l.all.Go(func() { l.admin.KeepHolds(l.ctx) })
	l.all.Go(l.route)
	w.now = l
}

// stop stops the scheduler and waits for its agents.
func (w *world) stop(sig os.Signal) {
	w.note("%v", sig)
	w.now.signals <- sig
	w.now.end()
}

// end waits until everything has ended.
func (l *life) end() {
	<-l.ended
	l.cancel()
	l.mu.Lock()
	for _, a := range l.started {
		a.Leave()
	}
	l.mu.Unlock()
	l.all.Wait()
	l.spool.Close()
}

// kill ends the scheduler and its agents at once. Sometimes the machine loses its power.
func (w *world) kill() {
	w.disk.Cut()
	kept := []float64{1, 1, 0.5, 0}[w.intN(4)]
	w.note("KILL; %v is kept", kept)
	w.now.signals <- unix.SIGTERM
	w.now.end()
	w.disk.PowerOn(kept)
	w.book.Kill(w.open())
}

// config is a configuration with other limits each time. For one of the hosts agents mark recipients.
func (w *world) config() *rule.Config {
	p := rule.Params{
		Interval: time.Minute, Retries: []int{1, 1, 2}, Expiry: 72 * time.Hour, Expiry2: 72 * time.Hour,
		MaxThr: 1 + w.intN(3), Sessions: 1, Quantum: 50, Overfeed: w.intN(3), UID: -1, GID: -1, AgentTimeout: 2 * time.Hour,
	}
	clause := func(host, name string, marking ta.Marking) rule.Clause {
		with := p
		with.Command, with.Marking = []string{"agent", name}, marking
		return rule.Clause{Channel: "smtp", Host: host, Settings: []rule.Setting{{
			Name: "command", Value: "agent", Apply: func(to *rule.Params) { *to = with },
		}}}
	}
	return &rule.Config{
		Clauses:  []rule.Clause{clause("h0.example", "agent", ta.AgentMarks), clause("*", "scheduler", ta.SchedulerMarks)},
		Defaults: p, ForkRate: 30,
	}
}

func (l *life) startAgent(spec child.Spec, sink func([]child.Event)) (daemon.Agent, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.world.agents++
	s := &ta.Server{
		Name: "agent", PID: ctlfile.MaxPID + l.world.agents, Channel: "smtp", Dir: l.world.office + "/transport", SenderOwned: true,
	}
	if spec.Args[1] == "scheduler" {
		s.Marking = ta.SchedulerMarks
	}
	s.Deliver = func(m *ta.Message) { l.deliver(m, s.Marking) }
	a := daemontest.NewInProcess(s, sink)
	l.started = append(l.started, a)
	l.all.Go(func() { a.Serve(s) })
	return a, nil
}

// deliver delivers a fifth of the recipients and defers the others. Sometimes that takes long. An
// agent that only reports has dropped the mail if its scheduler is gone then.
func (l *life) deliver(m *ta.Message, marking ta.Marking) {
	w := l.world
	w.pause([]time.Duration{time.Millisecond, time.Second, 20 * time.Second}[w.intN(3)])
	isGone := false
	select {
	case <-l.ended:
		off, _ := w.disk.IsOff()
		isGone = off || marking == ta.SchedulerMarks
	default:
		isGone, _ = w.disk.IsOff()
	}
	for i := range m.Recipients {
		r := &m.Recipients[i]
		if isGone || !w.good && w.intN(5) > 0 {
			r.Report(ta.Result{Status: ta.Deferred, Text: "later"})
			continue
		}
		w.book.Deliver(r.User)
		w.note("delivered %s", r.User)
		r.Report(ta.Result{Status: ta.OK, Text: "delivered"})
	}
}

// Action tells the book what is fed.
func (l *life) Action(_ time.Time, a scheduler.Action) {
	feed, ok := a.(*scheduler.Feed)
	if off, _ := l.world.disk.IsOff(); !ok || off {
		return
	}
	for _, r := range l.world.read("transport/" + feed.Job.Path) {
		if r.Host == feed.Job.Host {
			l.world.note("fed %s %s", r.User, r.Host)
			l.world.book.Feed(r.User, r.Host)
		}
	}
}

func (l *life) Event(time.Time, scheduler.Event) {}
func (l *life) Result(time.Time, spool.Result)   {}
func (l *life) Turn(time.Duration)               {}

// submit queues a message with some recipients.
func (w *world) submit() {
	w.mu.Lock()
	w.last++
	n := w.last
	w.mu.Unlock()
	var addresses []string
	for i := range 1 + w.intN(3) {
		addresses = append(addresses, fmt.Sprintf("r%d.%d@h%d.example", n, i, w.intN(hosts)))
	}
	if w.put(addresses) == nil {
		for _, address := range addresses {
			w.book.Add(address)
		}
	}
}

func (w *world) put(addresses []string) error {
	e := ctlfile.Envelope{Sender: ctlfile.Address{Channel: "local", Host: "here", User: "sender@here", Privilege: "0"}}
	for _, address := range addresses {
		_, host, _ := strings.Cut(address, "@")
		e.Recipients = append(e.Recipients, ctlfile.EnvelopeRecipient{
			Address: ctlfile.Address{Channel: "smtp", Host: host, User: address, Privilege: ctlfile.Nobody},
		})
	}
	_, err := queue.Submit(w.office, 0, &ctlfile.Contents{Blocks: []ctlfile.HeaderBlock{{
		Envelopes: []ctlfile.Envelope{e}, Header: "Subject: x\n",
	}}}, strings.NewReader("body\n"))
	w.note("queued %v %v", addresses, err)
	return err
}

// route plays the router.
func (l *life) route() {
	w := l.world
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-time.After(time.Second):
		}
		for _, file := range w.disk.Files("router") {
			if addresses := w.submitted(file); len(addresses) > 0 && w.put(addresses) == nil {
				_ = postoffice.RemovePath(w.office + "/" + file)
			}
		}
	}
}

// submitted returns the recipients of a submission.
func (w *world) submitted(file string) (addresses []string) {
	for line := range strings.Lines(w.disk.Content(file)) {
		if address, ok := strings.CutPrefix(strings.TrimSpace(line), "to <"); ok {
			addresses = append(addresses, strings.TrimSuffix(address, ">"))
		}
	}
	return addresses
}

func (w *world) controlFiles(dir string) []string {
	return slices.DeleteFunc(w.disk.Files(dir), func(f string) bool {
		_, ok := ctlfile.Number(path.Base(f))
		return !ok || strings.Contains(f, "/.")
	})
}

// read returns the open recipients of a control file.
func (w *world) read(file string) (open []ctlfile.Recipient) {
	f, err := ctlfile.Parse([]byte(w.disk.Content(file)))
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(f.Recipients, func(r ctlfile.Recipient) bool { return r.Tag != ctlfile.Open && r.Tag != ctlfile.Locked })
}

// spoolID returns the spoolid of a control file, and when its message was written; "": its message
// is elsewhere.
func (w *world) spoolID(file string) (id string, at time.Time) {
	var st unix.Stat_t
	if postoffice.Stat(postoffice.WorkingDir, path.Join(w.office, strings.Replace(file, "transport", "queue", 1)), &st) != nil {
		return "", at
	}
	n, _ := ctlfile.Number(path.Base(file))
	at = time.Unix(st.Mtim.Unix())
	return ctlfile.SpoolID(n, at), at
}

// open returns the open recipients that are on disk, and in how many files each is.
func (w *world) open() map[string]int {
	all := map[string]int{}
	for _, file := range slices.Concat(w.controlFiles("transport"), w.controlFiles("hold/transport")) {
		for _, r := range w.read(file) {
			all[r.User]++
		}
	}
	for _, file := range w.disk.Files("router") {
		for _, address := range w.submitted(file) {
			all[address]++
		}
	}
	maps.DeleteFunc(all, func(address string, _ int) bool { return !w.book.Knows(address) })
	return all
}

// nobodyTold writes no notices.
type nobodyTold struct{}

func (nobodyTold) Report(*spool.Owed) (string, error) { return "", nil }
func (nobodyTold) AnswersNullSender() bool            { return false }

type lines func(string)

func (f lines) Write(b []byte) (int, error) {
	f(strings.TrimSpace(string(b)))
	return len(b), nil
}

// The ways between loop, sessions and disk take random times, so that what happens at the same
// time comes in any order.
type (
	slowPort struct {
		daemon.Port
		world *world
	}
	slowFiles struct {
		Files
		world *world
	}
	slowSpool struct {
		*spool.Spool
		world *world
	}
)

func (p slowPort) Ask(ctx context.Context, f func(*daemon.Loop)) error {
	p.world.pause(time.Millisecond)
	return p.Port.Ask(ctx, f)
}

func (f slowFiles) RecordHold(r spool.HoldRecord) error {
	f.world.pause(2 * time.Millisecond)
	defer f.world.pause(2 * time.Millisecond)
	return f.Files.RecordHold(r)
}

func (f slowFiles) EndHolds(r spool.HoldRecord) error {
	f.world.pause(2 * time.Millisecond)
	defer f.world.pause(2 * time.Millisecond)
	return f.Files.EndHolds(r)
}

func (s slowSpool) Do(a scheduler.Action) {
	if finish, ok := a.(*scheduler.Finish); ok {
		own := *finish
		a = &own
	}
	go func() {
		s.world.pause(5 * time.Millisecond)
		s.Spool.Do(a)
	}()
}
