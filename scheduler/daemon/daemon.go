// Package daemon runs the scheduler: one goroutine, the loop, owns the core.
// Everything that happens reaches it through channels. It waits in one select:
//
//	found names ──┐ only while few control files are being read
//	results     ──┤           ┌────────────────────────────┐
//	agents      ──┼─ batch ──►│ Step each, perform actions │──► one write to each agent
//	signals     ──┤           └────────────────────────────┘    that was given something
//	reload done ──┤
//	questions   ──┤
//	timer       ──┘◄── set to Next
//
// Performing an action never waits: the spool's workers do the file work, each
// agent is started by a goroutine and written to without blocking, and log
// lines go to an asynchronous writer. The outcomes come back as events. The
// loop takes no scheduling decisions; it decides only how much it takes in at
// once.
//
// Each query (a mailq session, a metrics scrape) runs in its own goroutine and
// posts short functions to the loop, which alone touches the core: Port. A long
// list is many such functions, each for a slice of a walk; a large order is many,
// each about a few hundred targets. So neither delays mail, and a list shows
// the queue as it changes.
//
// # The path of a control file
//
// From transport/ to its removal, in the order in which its files and functions come. Events
// and actions are values of package scheduler.
//
//	spool/sweep.go          sweep, announce: reads transport/ and sends names to the loop
//	daemon/loop.go          turn, Step, perform: receives names, gives events to the core, carries out its actions
//	daemon/intake.go        take, arrived: drops names that are known; tells the core of the others: Arrived
//	spool/load.go           Load, load: lets a worker read the control file, or refuses it
//	ctlfile/parse.go        Parse: reads its lines
//	scheduler/arrive.go     arrive: groups the recipients into vertices of threads
//	scheduler/pick.go       dispatchRing, feed: finds a session for a due vertex: Start, Feed
//	daemon/agent.go         feed, flush: writes the job line to the agent, at the end of the turn
//	scheduler/agent/agent.go read: reads the agent's lines
//	ta/protocol.go          ParseLine: parses a line
//	daemon/agentoutput.go   hear, said: turns lines into events, and tells the core: AgentReported
//	scheduler/report.go     agentReported, delivered: finds the recipient, and what becomes of it
//	scheduler/store.go      endRecipient, finish, writeDone: when the last recipient is done: Finish
//	daemon/files.go         finish, finished: asks the spool, and tells the core: Done
//	spool/retire.go         finish, unlink: checks that nothing is open, and removes both files
//
// A report that does not end the message goes through spool/mark.go (Mark, mark) in place of
// the last one.
package daemon

import (
	"cmp"
	"math/rand/v2"
	"os"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"zsched/scheduler"
	child "zsched/scheduler/agent"
	"zsched/scheduler/rule"
	"zsched/scheduler/spool"
)

// Spool is what the loop needs of the directories; *spool.Spool is one. Its
// methods do not wait.
type Spool interface {
	Found() <-chan []spool.Name
	Results() <-chan []spool.Result
	Load(names []spool.Name)
	Do(a scheduler.Action)
	Probe()
	Sweep()

	// It waits while it reads files, and is called before the loop begins.
	LoadHolds() ([]spool.HoldRecord, error)
}

// Agent is a started agent; *child.Agent is one.
type Agent interface {
	PID() int
	Send(b []byte) error
	CloseWrite()
	Signal(sig syscall.Signal) error
}

// Starter starts an agent, as child.Start does.
type Starter func(spec child.Spec, sink func([]child.Event)) (Agent, error)

// StartChild is the Starter of real agents.
func StartChild(spec child.Spec, sink func([]child.Event)) (Agent, error) {
	c, err := child.Start(spec, sink)
	if err != nil {
		return nil, err // not c: an Agent that holds a nil child is not nil
	}
	return c, nil
}

// AgentOptions is what all agents have in common.
type AgentOptions struct {
	Start   Starter
	Mailbin string                   // their programs are below its folder ta/
	Env     func() map[string]string // the ZENV variables, when an agent is started; nil: none
	Dir     string                   // their working directory, POSTOFFICE/transport
	NoFile  uint64                   // their limit of open files (option -N); 0: unchanged
	// FileGroup is the group of control and message files. Agents that are not
	// root get it too; 0: none.
	FileGroup int
}

// Options are the parameters of New. Config, Rand, Spool and Agents.Start must
// be set.
type Options struct {
	Config *rule.Config
	Rand   *rand.Rand
	Spool  Spool
	Agents AgentOptions

	Log zerolog.Logger
	// Verbose logs every event and action (option -v).
	Verbose bool
	// VerboseLater does so from the end of the startup scan (option -W).
	VerboseLater bool
	// Account, if set, is given every line of the statistics log.
	Account func(line []byte)
	// Syslog, if set, is given the lines for the system's log.
	Syslog func(severity scheduler.Severity, line string)
	// Cluster, if set, shares limits with other nodes.
	Cluster Cluster
	// Observers are told everything that passes through the loop, one after the other.
	Observers []Observer

	// Synchronous starts no agent before the whole queue is loaded (option -S).
	Synchronous bool
	// State is the path of POSTOFFICE/.scheduler.state; "": what is known is
	// neither read nor saved. SavePeriod is how often it is written (default: a minute).
	State      string
	SavePeriod time.Duration
	// Owned, if set, returns an error once another scheduler has taken over the
	// postoffice, or another postoffice is in its place. It is called before job lines
	// are given to agents, which write to control files, and before the state is saved.
	Owned   func() error
	Signals <-chan os.Signal
	// Reload reads the configuration again (SIGUSR1). It is called outside the
	// loop and may take its time.
	Reload func() (*rule.Config, error)
	// Reopen opens the log files again (SIGHUP). It does not wait.
	Reopen func()
	// Dump writes the queue to the rendezvous file (SIGUSR2). It does not wait.
	Dump func()
	// Ready is called once, when the loop begins to run.
	Ready func()

	// Clocks reads the clocks; nil: both are those of Go, which stop while the machine
	// sleeps.
	Clocks func() scheduler.Now
}

// Observer is told what passes through the loop, in the loop's goroutine. Its
// methods must be quick. It must not keep the slices inside the values.
type Observer interface {
	Event(now time.Time, e scheduler.Event)
	Action(now time.Time, a scheduler.Action)
	Result(now time.Time, r spool.Result)
	// Turn reports how long one turn of the loop took. The loop receives nothing
	// else meanwhile.
	Turn(took time.Duration)
}

const (
	// maxTaking bounds the control files that are being read at any time, so
	// that the names of a full queue wait in its directories and not in memory.
	maxTaking = 1024
	// maxBatch bounds how many things one turn of the loop handles, so that
	// nothing waits long for the next turn.
	maxBatch = 256
)

// Daemon is the loop and the channels through which it learns what happens.
// Its exported methods, except Run, may be called by any goroutine.
type Daemon struct {
	options Options
	loop    Loop

	timer   *time.Timer
	armedAt time.Time // when the timer fires; zero: it is stopped
	readAt  time.Time // when the clocks were read; its monotonic part counts
	madeAt  time.Time // of New

	questions chan question
	owed      time.Duration // what the last question has taken and other turns have not taken since
	agentSaid chan agentEvents
	started   chan agentStart
	backlog   chan []spool.Result // holds the results that the last turn left
	stopped   chan struct{}       // closed when the loop has ended

	startup startup
	stop    stop
	reload  reload
	done    bool // the core has said Stopped, or the postoffice was taken over
	// disowned is why nothing may be written in the postoffice any more; nil: it may.
	disowned error
}

// New makes a Daemon; Run runs it.
func New(o Options) *Daemon {
	o.SavePeriod = cmp.Or(o.SavePeriod, savePeriod)
	if o.Owned == nil {
		o.Owned = func() error { return nil }
	}
	if o.Cluster == nil {
		o.Cluster = alone{}
	}
	d := &Daemon{
		options:   o,
		timer:     time.NewTimer(0),
		questions: make(chan question),
		agentSaid: make(chan agentEvents, 64),
		started:   make(chan agentStart),
		backlog:   make(chan []spool.Result, 1),
		stopped:   make(chan struct{}),
		madeAt:    time.Now(),
		reload:    reload{done: make(chan reloaded, 1)},
	}
	d.timer.Stop()
	l := &d.loop
	l.perform, l.observers, l.log, l.verbose = d.perform, o.Observers, o.Log, o.Verbose
	l.agents = newAgents(d)
	l.intake = newIntake(l, o.Spool)
	l.files = newFiles(l, o)
	l.core = scheduler.New(d.frozenUntilLoaded(o.Config), o.Rand)
	return d
}

// Run runs the loop until the scheduler has stopped. It is called once. The error
// says that hold records cannot be read, so that nothing was begun, or that
// the postoffice is not ours any more (Options.Owned): then agents were killed, and nothing
// was saved.
func (d *Daemon) Run() error {
	defer close(d.stopped)
	l := &d.loop
	d.startClocks()
	if err := l.loadHolds(d.options.Spool); err != nil {
		return err
	}
	d.startClocks() // that may have waited
	l.stepAll(d.options.Cluster.Turn(l.now))
	l.startedAt = l.now
	d.restoreState()
	stopSaver := d.startSaver()
	if d.options.Ready != nil {
		d.options.Ready()
	}
	for !d.done {
		d.arm()
		d.turn()
		d.flushCluster()
		if len(l.agents.unsent) > 0 {
			d.disown(d.options.Owned())
		}
		l.agents.flush()
		for _, o := range l.observers {
			o.Turn(time.Since(d.readAt))
		}
	}
	stopSaver()
	return d.disowned
}

// startClocks sets the time of the first turn.
func (d *Daemon) startClocks() {
	now := d.clocks()
	d.loop.now, d.loop.elapsed, d.readAt = now.Wall, now.Elapsed, time.Now()
}

// disown ends the loop and kills the agents if err is not nil. Job lines that they
// were to get in this turn are dropped.
func (d *Daemon) disown(err error) {
	if err == nil || d.disowned != nil {
		return
	}
	d.disowned, d.done = err, true
	d.loop.log.Error().Err(err).Msg("the scheduler stops at once")
	d.loop.agents.killAll()
}
