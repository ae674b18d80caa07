// Package daemon stands around the scheduler and does what it says. One
// goroutine owns the core; it is told of everything through channels and
// waits in one select:
//
//	found names ──┐ gate: only while few are being taken
//	results     ──┤           ┌────────────────────────────┐
//	agents      ──┼─ batch ──►│ Step each, perform actions │──► one write to each agent
//	signals     ──┤           └────────────────────────────┘    that has something coming
//	reload done ──┤
//	questions   ──┤ one a turn, and others first after it
//	timer       ──┘◄── armed with Next
//
// Performing never waits: files are touched by the spool's workers, agents
// are started by a goroutine each and written to without blocking, logs go
// through an Outlet. What came of it all comes back as events. The loop holds
// no opinion about mail; what it decides itself is only how much it takes in
// at once.
//
// Who asks something (mailq at its sockets, a scrape of metrics) has a
// goroutine of his own and has the loop do what touches the core: a question
// is a short function. A long list is many questions, each for a slice of a
// walk; a large order is many, each about a few hundred targets. So neither
// holds up the mail, and a list shows the queue as it changes. query.go reads,
// order.go and held.go give orders, metrics.go and survey.go count.
package daemon

import (
	"context"
	"iter"
	"math/rand/v2"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"zsched/mailq/server"
	"zsched/scheduler"
	"zsched/scheduler/spool"
	"zsched/ta/child"
)

// Spool is what the loop needs of the directories; *spool.Spool is one.
type Spool interface {
	Found() <-chan []spool.Name
	Results() <-chan []spool.Result
	Take(names []spool.Name)
	Mark(op uint64, path string, marks []spool.Mark)
	Reread(op uint64, path string, dead int)
	Finish(op uint64, path string, owes bool)
	Probe()
	Verbose(path string, owner uint32, line string)
	Sweep()

	// Hold, Release, EndHeld and Resubmit are answered with Moved, Released
	// twice and Resubmitted, HoldThreads with Recorded.
	Hold(op uint64, path string)
	Release(op uint64, id string)
	EndHeld(op uint64, path string, marks []spool.Mark)
	Resubmit(op uint64, r spool.Resubmission)
	HoldThreads(op uint64, threads []spool.Thread)
	HeldThreads() ([]spool.Thread, error)
	// Find and Show read files in the caller's time.
	Find(ctx context.Context, what spool.Sought) iter.Seq2[*spool.Stored, error]
	Show(ctx context.Context, id string) (*spool.Stored, bool, error)
}

// Agent is a started agent; *child.Child is one.
type Agent interface {
	PID() int
	Send(b []byte) error
	CloseWrite()
	Signal(sig syscall.Signal) error
}

// Starter starts an agent, as child.Start does.
type Starter func(spec child.Spec, sink func([]child.Heard)) (Agent, error)

// StartChild is the Starter of real agents.
func StartChild(spec child.Spec, sink func([]child.Heard)) (Agent, error) {
	c, err := child.Start(spec, sink)
	if err != nil {
		return nil, err // not c: an Agent that holds a nil child is not nil
	}
	return c, nil
}

// Options is what a Daemon is made of. Config, Rand, Spool and Start must be
// given, the rest may be left out.
type Options struct {
	Config *scheduler.Config
	Rand   *rand.Rand
	Spool  Spool
	Start  Starter

	// What every agent gets: the folder its program is in, below ta/, the
	// ZENV variables, its working directory, its limit of open files.
	Mailbin string
	Env     map[string]string
	Dir     string
	NoFile  uint64

	Log zerolog.Logger
	// Verbose logs every event and action (option -v).
	Verbose bool
	// VerboseLater does so from the end of the startup scan (option -W).
	VerboseLater bool
	// Account, if set, is given every line of the statistics log.
	Account func(line []byte)
	// Syslog, if set, is given what belongs into the system's log.
	Syslog func(severity scheduler.Severity, line string)

	// Synchronous starts no agent before the whole queue is loaded (option -S).
	Synchronous bool
	// Keep leaves finished messages where they are (option -p).
	Keep bool
	// Operands, if any, are the only control files taken; Run returns when
	// nothing more is due.
	Operands []spool.Name

	// Queries is where queries are answered, in the way Answering says, which
	// is asked again after each reload. Answering nil: they are not.
	Queries   Socket
	Answering func() server.Settings
	// Rendezvous is where SIGUSR2 writes the queue; "": nowhere.
	Rendezvous string
	// Lines writes parameters as a clause would set them, "name=value" each,
	// for EXPLAIN.
	Lines func(scheduler.Params) []string
	// MessageDir and LogDir are where messages and logs lie, for the counters
	// of free space.
	MessageDir, LogDir string
	// Metrics is where counters are shown; none: nowhere.
	Metrics Socket
	// BindAddr is what ports without a host listen at in IPv4: BINDADDR of
	// zmailer.conf(5).
	BindAddr string
	// Inherited are listeners that the service manager opened. Those named
	// "metrics" show counters; at all others queries are answered, instead of
	// at the socket that the configuration names.
	Inherited map[string][]net.Listener

	Signals <-chan os.Signal
	// Reload reads the configuration again (SIGUSR1). It runs outside of the
	// loop and may take its time.
	Reload func() (*scheduler.Config, error)
	// Reopen opens the log files again (SIGHUP).
	Reopen func()
	// Ready is called once, when the loop begins to run.
	Ready func()
}

// takingLimit bounds the control files that are being taken at any time, so
// that a full queue's names wait in its directories and not in memory.
const takingLimit = 1024

// turnLimit bounds what one turn of the loop deals with, so that nobody waits
// long for the next.
const turnLimit = 256

// Daemon is the loop. Everything in it belongs to the goroutine in Run, except
// the channels.
type Daemon struct {
	Options
	core      *scheduler.Scheduler
	now       time.Time // of this turn
	startedAt time.Time

	timer   *time.Timer
	armedAt time.Time // when it fires; zero: it does not
	queue   []scheduler.Event

	questions chan question
	asked     bool // the turn before dealt with a question
	lastOrder uint64
	replied   scheduler.Answer              // of the last order
	lastOwn   uint64                        // errand
	errands   map[uint64]func(spool.Result) // ends of those under way
	held      map[spool.Thread]struct{}     // as they are written, or being written
	resubmits map[scheduler.Op][]int64      // offsets of those under way

	agents map[scheduler.AgentID]*agent
	unsent []*agent // those that have something coming this turn
	heard  chan heard
	starts chan started

	more      chan []spool.Result // has room for what one turn leaves
	intake    intake
	filing    int // actions on files under way
	verbose   map[scheduler.MessageID]verboseLog
	startup   startup
	stop      stop
	reload    reload
	tally     tally
	surveyor  surveyor
	server    *server.Server // nil: queries are not answered
	writing   atomic.Bool    // the rendezvous file
	restraint restraint      // of what strangers cause to be logged
	over      bool
	left      chan struct{} // closed when the loop has left
}

// New makes a Daemon; Run runs it.
func New(o Options) *Daemon {
	d := &Daemon{
		Options:   o,
		timer:     time.NewTimer(0),
		questions: make(chan question),
		agents:    make(map[scheduler.AgentID]*agent),
		heard:     make(chan heard, 64),
		starts:    make(chan started),
		more:      make(chan []spool.Result, 1),
		intake:    newIntake(),
		verbose:   make(map[scheduler.MessageID]verboseLog),
		reload:    reload{done: make(chan reloaded, 1)},
		left:      make(chan struct{}),
		errands:   make(map[uint64]func(spool.Result)),
		held:      make(map[spool.Thread]struct{}),
		resubmits: make(map[scheduler.Op][]int64),
	}
	d.timer.Stop()
	d.tally = newTally(time.Now())
	d.core = scheduler.New(d.frozenUntilLoaded(o.Config), o.Rand)
	if d.Answering != nil {
		d.server = server.New(queries{d}, d.answering())
	}
	return d
}

// Run runs the loop until the scheduler has stopped. It is called once.
func (d *Daemon) Run() {
	doors := newDoors(d.Log)
	defer doors.close() // when nobody waits for the loop any more
	defer close(d.left)
	d.now = time.Now()
	d.startedAt = d.now
	d.loadHeld()
	d.openDoors(doors)
	if d.Ready != nil {
		d.Ready()
	}
	d.takeOperands()
	for !d.over {
		d.arm()
		d.turn()
		d.finishOperands()
		d.flush()
		d.tally.paused(time.Since(d.now))
	}
}

// step tells the core what happened and performs what it says. What comes of
// performing at once is told in the same way after it.
func (d *Daemon) step(e scheduler.Event) {
	d.queue = append(d.queue, e)
	for i := 0; i < len(d.queue); i++ {
		if d.Verbose {
			d.show("event", d.queue[i])
		}
		for _, a := range d.core.Step(d.now, d.queue[i]) {
			if d.Verbose {
				d.show("action", a)
			}
			d.perform(a)
		}
	}
	clear(d.queue)
	d.queue = d.queue[:0]
}

// then queues an event that comes of the action being performed.
func (d *Daemon) then(e scheduler.Event) { d.queue = append(d.queue, e) }

// arm sets the timer to what the core wishes.
func (d *Daemon) arm() {
	next, ok := d.core.Next()
	switch {
	case !ok:
		if !d.armedAt.IsZero() {
			d.timer.Stop()
			d.armedAt = time.Time{}
		}
	case !next.Equal(d.armedAt):
		d.timer.Reset(time.Until(next))
		d.armedAt = next
	}
}
