// Package child is one agent as a process: started with a stream socket as
// its standard input and output and a pipe of its own as standard error, fed,
// heard and, when it is gone, told of.
//
// Its life, as the sink sees it:
//
//	Start ─► Said, Stderr, Said, … ─► Exited      (always the last value)
//
// Three goroutines serve a child, none of them a thread while it waits:
//
//	hear       socket ─► lines ─► batches to the sink; then Exited
//	hearErrors stderr ─► lines ─► batches to the sink
//	watch      waits for the process, reaps it, and sets the bound below
//
// and a fourth, drain, while the child does not take what it is sent.
//
// All that the agent wrote is read to the end of file before Exited is told:
// waiting for the process first would lose what is still in the socket. Two
// cases would take for ever, and a grace (Spec.Grace) ends them. A descendant
// of a process that is gone may hold its streams open: what is there by then
// is read, and they are closed. An agent that closed its socket may not leave:
// it is killed.
package child

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ta"
)

const (
	// Grace is how long an agent's end may take, unless Spec says otherwise.
	Grace = 5 * time.Second
	// MaxPending is how many bytes Send keeps that the socket did not take.
	MaxPending = 1 << 20

	maxBatch  = 256     // values in one call of the sink
	maxStderr = 8 << 10 // bytes of one line on standard error
)

// Spec says what to start and how. All of it is final: names are resolved,
// words are expanded.
type Spec struct {
	Path string   // program; not looked up along PATH
	Args []string // argv, the program's name first
	Env  []string // the whole environment, NAME=value
	Dir  string   // working directory: $POSTOFFICE/transport; "": the caller's

	UID, GID int // -1: unchanged

	Nice        int  // added to the caller's own
	Priority    int  // absolute, instead of Nice, when PrioritySet
	PrioritySet bool // tells a priority of 0 from none

	NoFile uint64        // soft limit of open files; 0: unchanged
	Grace  time.Duration // see the package comment; 0: Grace
}

// Heard is something an agent said or did. The set is sealed.
type Heard interface{ heard() }

type (
	// Said is one line from the agent's socket.
	Said ta.Said

	// Stderr is one line from its standard error, without LF. The end of a
	// line beyond 8 KiB is dropped.
	Stderr string

	// Unlimited: the system did not let us set its limit of open files
	// (Spec.NoFile), and why. It has that of the caller and works with it.
	// Nothing is heard from its socket before this.
	Unlimited string

	// Exited: the process is gone and all it wrote has been told.
	Exited struct {
		// Status is for people: "exit status 1", "signal: killed", with a
		// word more when a grace had to end it.
		Status string
		Clean  bool // exit status 0
	}
)

func (Said) heard()      {}
func (Stderr) heard()    {}
func (Unlimited) heard() {}
func (Exited) heard()    {}

// Errors of Send.
var (
	ErrClosed  = errors.New("agent's input is closed")
	ErrBacklog = errors.New("agent does not take its input")
)

// Child is a started agent.
type Child struct {
	pid    int
	grace  time.Duration
	sock   *os.File // our end, non-blocking
	stderr *os.File
	pidfd  *os.File
	raw    syscall.RawConn // of sock

	telling sync.Mutex // held while sink runs
	sink    func([]Heard)

	unlimited error // why it has not the limit of open files

	reaped   chan struct{} // closed by watch
	status   unix.WaitStatus
	lost     bool           // the status went to somebody else
	finished sync.WaitGroup // hearErrors and drain

	mu       sync.Mutex
	pending  []byte // accepted by Send, not taken by the socket; drain runs
	draining bool
	closing  bool // CloseWrite was called, or the socket is broken
}

// Start starts an agent. The error says in plain words why no process came of
// it; then sink is never called. The sink is called with batches of bounded
// size in the order of what happened, never by two goroutines at once; the
// last value of the last batch is Exited. While it blocks, the agent is not
// read.
func Start(spec Spec, sink func([]Heard)) (*Child, error) {
	c, err := start(spec)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Path, err)
	}
	c.sink = sink
	c.finished.Add(1)
	go c.hear()
	go c.hearErrors()
	go c.watch()
	return c, nil
}

// PID is the process id. It may be another's once Exited is told.
func (c *Child) PID() int { return c.pid }

// Signal sends sig to the process; os.ErrProcessDone when it is gone. It never
// reaches another process, even after the id was given to one.
func (c *Child) Signal(sig unix.Signal) error {
	conn, err := c.pidfd.SyscallConn()
	if err != nil {
		return os.ErrProcessDone
	}
	var sent error
	err = conn.Control(func(fd uintptr) {
		sent = unix.PidfdSendSignal(int(fd), sig, nil, 0)
	})
	if err != nil || sent == unix.ESRCH {
		return os.ErrProcessDone
	}
	return sent
}

// watch reaps the process and bounds what its streams may take from then on.
func (c *Child) watch() {
	conn, err := c.pidfd.SyscallConn()
	if err == nil {
		err = conn.Read(func(uintptr) bool {
			pid, err := unix.Wait4(c.pid, &c.status, unix.WNOHANG, nil)
			c.lost = err != nil && err != unix.EINTR
			return pid == c.pid || c.lost
		})
	}
	c.lost = c.lost || err != nil
	until := time.Now().Add(c.grace)
	c.sock.SetReadDeadline(until)
	c.stderr.SetReadDeadline(until)
	close(c.reaped)
}

// hear reads the socket to its end, sees to it that the process ends too, and
// says so.
func (c *Child) hear() {
	if c.unlimited != nil {
		c.tell([]Heard{Unlimited(c.unlimited.Error())})
	}
	held := c.read(c.sock, ta.MaxLine, func(line []byte, err error) Heard {
		switch err {
		case nil:
			return Said(ta.ParseSaid(line))
		case ta.ErrTail:
			return Said{Kind: ta.Garbled, Text: string(line), Reason: "agent left within a line"}
		}
		return Said{Kind: ta.Garbled, Text: string(line[:200]), Reason: err.Error()}
	})

	kill := time.AfterFunc(c.grace, func() { c.Signal(unix.SIGKILL) })
	<-c.reaped
	late := !kill.Stop()

	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	c.sock.Close() // ends drain
	c.finished.Wait()
	c.pidfd.Close()

	exited := c.exited()
	switch {
	case late && c.status.Signaled() && c.status.Signal() == unix.SIGKILL:
		exited.Status += " (it had closed its socket and did not leave)"
	case held:
		exited.Status += " (a descendant held its socket)"
	}
	c.tell([]Heard{exited})
}

func (c *Child) hearErrors() {
	defer c.finished.Done()
	c.read(c.stderr, maxStderr, func(line []byte, _ error) Heard { return Stderr(line) })
	c.stderr.Close()
}

// read cuts a stream into lines and tells them, one call of the sink for what
// one read brought. It says whether the grace ended it.
func (c *Child) read(f *os.File, max int, heard func([]byte, error) Heard) (held bool) {
	s := &stream{f: f}
	lines := ta.NewLines(s, max)
	var batch []Heard
	for {
		line, err := lines.Next()
		if line == nil && err != nil {
			break
		}
		batch = append(batch, heard(line, err))
		if len(batch) == maxBatch || !lines.Buffered() {
			c.tell(batch)
			batch = nil
		}
	}
	if len(batch) > 0 {
		c.tell(batch)
	}
	return s.held
}

func (c *Child) tell(batch []Heard) {
	c.telling.Lock()
	defer c.telling.Unlock()
	c.sink(batch)
}

// exited puts the wait status into words.
func (c *Child) exited() Exited {
	s := c.status
	switch {
	case c.lost:
		return Exited{Status: "exit status unknown"}
	case s.Signaled() && s.CoreDump():
		return Exited{Status: "signal: " + s.Signal().String() + " (core dumped)"}
	case s.Signaled():
		return Exited{Status: "signal: " + s.Signal().String()}
	}
	return Exited{Status: fmt.Sprintf("exit status %d", s.ExitStatus()), Clean: s.ExitStatus() == 0}
}
