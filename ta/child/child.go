// Package child is one agent as a process: started with a stream socket as
// its standard input and output and a pipe of its own as standard error, fed,
// heard and, when it is gone, told of.
//
// Its life, as the sink sees it:
//
//	Start ─► Said, Stderr, Said, … ─► Exited      (always the last value)
//
// Everything the agent wrote is read to the end of its streams before Exited
// is told. Two bounds keep that from taking for ever: what a descendant that
// inherited the streams may hold back ends Options' grace after the process,
// and an agent that closed its socket without leaving is killed after it.
package child

import (
	"errors"
	"zsched/ta"

	"golang.org/x/sys/unix"
)

// Spec says what to start and how. All of it is final: names are resolved,
// words are expanded.
type Spec struct {
	Path string   // program
	Args []string // argv, the program's name first
	Env  []string // the whole environment, NAME=value
	Dir  string   // working directory: $POSTOFFICE/transport; "": the caller's

	UID, GID int // -1: unchanged

	Nice        int  // added to the caller's
	Priority    int  // absolute, instead of Nice, when PrioritySet
	PrioritySet bool // tells a priority of 0 from none

	NoFile uint64 // soft limit of open files; 0: unchanged
}

// Heard is something an agent said or did. The set is sealed.
type Heard interface{ heard() }

type (
	// Said is one line from the agent's socket.
	Said ta.Said

	// Stderr is one line from its standard error, without LF and bounded.
	Stderr string

	// Exited: the process is gone and all it wrote has been told.
	Exited struct {
		Status string // as a person reads it: "exit status 1", "signal: killed"
		Clean  bool   // it ended by itself with exit status 0
	}
)

func (Said) heard()   {}
func (Stderr) heard() {}
func (Exited) heard() {}

// Child is a started agent.
type Child struct{ pid int }

// Start starts an agent. The error says in plain words why no process came of
// it; then sink is never called. The sink is called with batches in the order
// of what happened, never by two goroutines at once; the last value of the
// last batch is Exited. While it blocks, the agent is not read.
func Start(spec Spec, sink func([]Heard)) (*Child, error) { return nil, errors.New("not yet") }

// PID is the process id; it stays the child's until Exited.
func (c *Child) PID() int { return c.pid }

// Send gives the agent b. It never blocks: what the socket does not take at
// once is kept and written later, in order, up to a bound beyond which Send is
// an error and takes nothing.
func (c *Child) Send(b []byte) error { return errors.New("not yet") }

// CloseWrite shows the agent end of file after all that was sent.
func (c *Child) CloseWrite() {}

// Signal sends sig, unless the process is gone.
func (c *Child) Signal(sig unix.Signal) error { return errors.New("not yet") }
