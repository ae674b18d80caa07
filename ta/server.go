package ta

// This file has the main loop of an agent written in Go: it reads job lines and
// gives them to one session or several.

import (
	"context"
	"fmt"
	"io"
	"sync"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
)

// Server is the main loop of an agent written in Go: it reads job lines, opens
// the control files that they name, and calls Deliver once for each.
//
// A recipient is in one of these states at any moment. If the agent dies, the
// scheduler repairs the state from the control file:
//
//	locked                      it finds the pid dead and unlocks
//	delivered, nothing written  the message is delivered to it again
//	d line on disk              the d line is the outcome
//	tagged                      nothing to do
//	reported                    nothing to do
type Server struct {
	Name    string // the program, for logs and notary fields: "smtp"
	Channel string // takes recipients of this channel, case-sensitive; "": any
	// Host is the host for job lines that name none. An agent whose command
	// contains $host gets it as an operand. "" selects recipients at any host.
	Host string
	// Marking says who marks recipients. Standard changes SchedulerMarks to AgentMarks if the
	// scheduler does not mark what agents report.
	Marking Marking
	// SenderOwned accepts control files of other users, because ZMailer's
	// scheduler leaves them owned by the senders. The owner of a control file can
	// add recipients that have root's privilege.
	SenderOwned bool
	// MaxSize is how many bytes a user's message file may have (postoffice.CheckSize);
	// recipients of a larger one are deferred. 0: no limit.
	MaxSize  int64
	Sessions int // job lines that may be open at once; 0: 1
	// AllNotary sends the notary and the site with every report, so that the scheduler's event
	// log and metrics know the peer and the status code of ok2, ok3 and error2 too. Standard
	// sets it.
	AllNotary bool
	// Syslog gets a line for each recipient reported on; nil: none.
	Syslog *Syslog
	// PID is the pid in locks; 0: our own. An agent that runs in the process of the
	// scheduler needs another.
	PID int
	// Deliver delivers one message to the recipients in it. Each session calls
	// it from a goroutine of its own.
	Deliver func(*Message)

	Dir string    // the transport directory; "": the current one
	In  io.Reader // job lines from the scheduler
	Out io.Writer // reports to the scheduler
	Err io.Writer // lines for the scheduler's log, one in each write

	// Commits says that Deliver calls Message.Commit before anything that must not be done
	// twice. Otherwise a recipient counts as committed as soon as its job line is read.
	Commits bool

	leaving leaving
	out     *output
	recent  ctlfile.Recent // the large control files of the last job lines
	queue   unix.Stat_t    // the directory queue/ when Serve began; the zero value: not known
}

// Serve works until the scheduler tells the agent to leave, by an empty line or
// end of file, or until ctx is done. It finishes the messages under way and
// returns nil. A line without its LF at the end of file is dropped.
func (s *Server) Serve(ctx context.Context) error {
	s.queue = unix.Stat_t{}
	if fd, err := openQueue(s.path("../queue/"), &s.queue); err == nil {
		postoffice.Close(fd)
	}
	out := newOutput(s.Out)
	s.out = out
	defer interruptible(ctx, s.In)()
	lines := NewLineReader(s.In, MaxLine)

	err := s.serve(ctx, lines, out)
	if e := out.close(); err == nil && e != nil {
		err = fmt.Errorf("report to the scheduler: %w", e)
	}
	return err
}

// serve works until there is no more to do. If the scheduler ends, it leaves sessions
// alone whose mail was dropped.
func (s *Server) serve(ctx context.Context, lines *LineReader, out *output) error {
	run := s.serveOne
	if s.Sessions > 1 {
		run = s.serveMany
	}
	if s.leaving.active == nil {
		return run(ctx, lines, out)
	}
	out.line(ReportsLine)
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, lines, out) }()
	select {
	case err := <-ended:
		s.leave()
		if s.leaving.locked.Load() == 0 {
			return err
		}
		<-s.leaving.settled
	case <-s.leaving.settled:
	}
	return nil
}

// serveOne works on one job line after another. Its reports are written when no
// further job line is waiting, and at the latest after outputDelay.
func (s *Server) serveOne(ctx context.Context, lines *LineReader, out *output) error {
	ss := newSession(s, out, 0)
	out.line(HungryLine)
	for {
		if !lines.Buffered() || out.broken() {
			if out.flush() != nil {
				return nil // out.close returns the error
			}
		}
		job, ok, err := s.next(ctx, lines, out)
		if !ok {
			return err
		}
		ss.work(job)
		if ctx.Err() == nil {
			out.line(HungryLine)
		}
	}
}

// serveMany works on up to s.Sessions job lines at once.
func (s *Server) serveMany(ctx context.Context, lines *LineReader, out *output) error {
	jobs := make(chan JobLine, s.Sessions)
	var working sync.WaitGroup
	for n := range s.Sessions {
		out.line(HungryLine)
		ss := newSession(s, out, n)
		working.Go(func() {
			for job := range jobs {
				if ctx.Err() != nil || out.broken() {
					continue // the scheduler no longer waits for it
				}
				ss.work(job)
				if ctx.Err() == nil {
					out.line(HungryLine)
				}
				if len(jobs) == 0 {
					_ = out.flush() // out.close returns the error
				}
			}
		})
	}
	defer working.Wait()
	defer close(jobs)
	for {
		if out.flush() != nil {
			return nil
		}
		job, ok, err := s.next(ctx, lines, out)
		if !ok {
			return err
		}
		select {
		case jobs <- job:
		case <-ctx.Done():
			return nil
		}
	}
}

// next reads up to the next job line and answers other lines. ok is false when
// the agent should exit.
func (s *Server) next(ctx context.Context, lines *LineReader, out *output) (job JobLine, ok bool, err error) {
	for ctx.Err() == nil {
		line, err := lines.Next()
		switch {
		case err == ErrLong:
			s.warn("job line %.40q... is too long", line)
		case err == io.EOF || err == ErrTail || err != nil && ctx.Err() != nil:
			return JobLine{}, false, nil
		case err != nil:
			return JobLine{}, false, fmt.Errorf("read from the scheduler: %w", err)
		case string(line) == LeaveLine:
			return JobLine{}, false, nil
		case string(line) == IdleLine:
		default:
			if job, err = ParseJobLine(line); err == nil {
				return job, true, nil
			}
			s.warn("%v", err)
		}
		// The scheduler counts every line as given and waits for its answer.
		out.line(HungryLine)
		if out.flush() != nil {
			return JobLine{}, false, nil
		}
	}
	return JobLine{}, false, nil
}

// warn writes a line for the scheduler's log, in one write.
func (s *Server) warn(format string, args ...any) {
	if s.Err != nil {
		_, _ = io.WriteString(s.Err, "# "+s.Name+": "+fmt.Sprintf(format, args...)+"\n")
	}
}
