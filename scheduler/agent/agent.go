// Package agent runs one agent as a process. Its standard input and output are
// one stream socket, its standard error is a pipe. The package sends it lines,
// reads what it writes, and reaps it.
//
// The handler gets these events:
//
//	Start ─► Line, Stderr, Line, … ─► Exited      (always the last one)
//
// Three goroutines serve a child; none of them occupies a thread while it waits:
//
//	readSocket  socket ─► lines ─► batches to the handler; then Exited
//	readStderr  stderr ─► lines ─► batches to the handler
//	watch       waits for the process, reaps it, and sets the deadline below
//
// and a fourth, drain, while the child does not read what it is sent.
//
// Everything that the agent wrote is read, to the end of file, before Exited is
// emitted: waiting for the process first would lose what is still in the socket.
// In two cases that would take forever, so a grace period (Spec.Grace) bounds
// them. A descendant of a process that is gone may hold its streams open: what
// has arrived when the period ends is read, and the streams are closed. An agent
// that has closed its socket may fail to exit: it is killed.
package agent

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
	// Grace is the grace period where Spec sets none.
	Grace = 5 * time.Second
	// MaxPending is the maximum number of unsent bytes that Send keeps.
	MaxPending = 1 << 20

	maxBatch  = 256     // events in one call of the handler
	maxStderr = 8 << 10 // bytes of one line on standard error
)

// Spec says what to start and how. Its names are already resolved and its
// words expanded.
type Spec struct {
	Path string   // program; not looked up in PATH
	Args []string // argv, the program's name first
	Env  []string // the whole environment, NAME=value
	Dir  string   // working directory: $POSTOFFICE/transport; "": the caller's

	UID, GID int // -1: unchanged
	// FileGroup is the group of control and message files. An agent that is not
	// root gets it as a supplementary group. 0: none.
	FileGroup int

	Nice        int  // added to the caller's own
	Priority    int  // absolute, instead of Nice, when PrioritySet
	PrioritySet bool // Priority is set, and may be 0

	NoFile uint64        // soft limit on open files, which a shell sets; 0: unchanged
	Grace  time.Duration // grace period of the package comment; 0: Grace
}

// Event is something that an agent wrote or that happened to it. The set is
// sealed.
type Event interface{ event() }

type (
	// Line is one line from the agent's socket.
	Line ta.Line

	// Stderr is one line from its standard error, without LF. The end of a
	// line beyond 8 KiB is dropped.
	Stderr string

	// Exited says that the process is gone and that everything it wrote has
	// been emitted.
	Exited struct {
		// Status is for people: "exit status 1", "signal: killed", and a
		// remark if the grace period had to end it.
		Status string
		Clean  bool // exit status 0
	}
)

func (Line) event()   {}
func (Stderr) event() {}
func (Exited) event() {}

// Errors of Send.
var (
	ErrClosed  = errors.New("agent's input is closed")
	ErrBacklog = errors.New("agent does not read its input")
)

// Agent is a started agent.
type Agent struct {
	pid    int
	grace  time.Duration
	sock   *os.File // our end, non-blocking
	stderr *os.File
	pidfd  *os.File
	raw    syscall.RawConn // of sock

	emitting sync.Mutex // held while handler runs
	handler  func([]Event)

	reaped   chan struct{} // closed by watch
	status   unix.WaitStatus
	lost     bool           // another waiter took the status
	finished sync.WaitGroup // readStderr and drain

	mu       sync.Mutex
	pending  []byte // accepted by Send, not taken by the socket; drain runs
	draining bool
	closing  bool // CloseWrite was called, or the socket is broken
}

// Start starts an agent. If it returns an error, no process was started and
// handler is never called. Otherwise it is called with batches of
// bounded size, in the order of events, by one goroutine at a time; the last
// event of the last batch is Exited. While handler blocks, nothing is read from
// the agent.
func Start(spec Spec, handler func([]Event)) (*Agent, error) {
	c, err := start(spec)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Path, err)
	}
	c.handler = handler
	c.finished.Add(1)
	go c.readSocket()
	go c.readStderr()
	go c.watch()
	return c, nil
}

// PID is the process id. After Exited it may belong to another process.
func (c *Agent) PID() int { return c.pid }

// Signal sends sig to the process; the error is os.ErrProcessDone when it is
// gone. The signal never reaches another process, even if one has the id now.
func (c *Agent) Signal(sig unix.Signal) error {
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

// watch reaps the process and sets the deadline of its streams.
func (c *Agent) watch() {
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

// readSocket reads the socket to its end, makes sure that the process ends too,
// and emits Exited.
func (c *Agent) readSocket() {
	held := c.read(c.sock, ta.MaxLine, func(line []byte, err error) Event {
		switch err {
		case nil:
			return Line(ta.ParseLine(line))
		case ta.ErrTail:
			return Line{Kind: ta.Malformed, Text: string(line), Reason: "agent exited within a line"}
		}
		return Line{Kind: ta.Malformed, Text: string(line[:200]), Reason: err.Error()}
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
	c.emit([]Event{exited})
}

func (c *Agent) readStderr() {
	defer c.finished.Done()
	c.read(c.stderr, maxStderr, func(line []byte, _ error) Event { return Stderr(line) })
	c.stderr.Close()
}

// read cuts a stream into lines and emits them; the lines of one read go into
// one call of the handler. held reports whether the grace period ended it.
func (c *Agent) read(f *os.File, max int, event func([]byte, error) Event) (held bool) {
	s := &stream{f: f}
	lines := ta.NewLineReader(s, max)
	var batch []Event
	for {
		line, err := lines.Next()
		if line == nil && err != nil {
			break
		}
		batch = append(batch, event(line, err))
		if len(batch) == maxBatch || !lines.Buffered() {
			c.emit(batch)
			batch = nil
		}
	}
	if len(batch) > 0 {
		c.emit(batch)
	}
	return s.held
}

func (c *Agent) emit(batch []Event) {
	c.emitting.Lock()
	defer c.emitting.Unlock()
	c.handler(batch)
}

// exited is the event for the wait status.
func (c *Agent) exited() Exited {
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
