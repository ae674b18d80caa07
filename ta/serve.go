package ta

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Marking says who changes tags and writes diagnostics in the control file.
type Marking uint8

const (
	// AgentMarks is ZMailer's contract: the agent locks a recipient, delivers,
	// writes its d line if one is owed, reports and tags it.
	AgentMarks Marking = iota
	// SchedulerMarks frees the agent of all that: it reads and reports.
	SchedulerMarks
)

// ParseMarking reads the value of the clause keyword marking=.
func ParseMarking(s string) (Marking, error) {
	switch s {
	case "agent":
		return AgentMarks, nil
	case "scheduler":
		return SchedulerMarks, nil
	}
	return 0, fmt.Errorf("marking %q is neither agent nor scheduler", s)
}

// Server is the loop of an agent written in Go: it talks to the scheduler,
// opens what it is told to, and calls Deliver once for every job line.
//
// A message is at any moment in one of these states; the agent's death in any
// of them is repaired from the control file, and the last column says how:
//
//	locked                     the scheduler finds the pid dead and unlocks
//	delivered, nothing written it is delivered again
//	d line on disk             the scheduler settles it by the d line
//	tagged                     done
//	reported                   done
type Server struct {
	Name    string // the program, for logs and notary fields: "smtp"
	Channel string // whose recipients are taken, as spelt in the file; "": any
	// Host is the operand of a command with $host. It stands in where a job
	// line names none; "" then takes recipients at any host.
	Host     string
	Marking  Marking
	Sessions int // job lines that may be open at once; 0: 1
	// Syslog gets a line for each recipient reported on; nil: none.
	Syslog *Syslog
	// Deliver delivers one message to the recipients in it. With several
	// sessions it is called by as many goroutines at once.
	Deliver func(*Message)

	Dir string    // the transport directory; "": the current one
	In  io.Reader // the scheduler
	Out io.Writer // the scheduler
	Err io.Writer // for the scheduler's log, a line a write
}

// Standard makes s talk over the standard streams, as the scheduler's child
// does, and gives it a context that ends at SIGTERM, SIGINT, SIGQUIT or
// SIGHUP, at which an agent finishes its message and leaves. A scheduler that
// is gone is an error of Serve, not a signal that kills it with a message
// half done.
func (s *Server) Standard() (ctx context.Context, stop func()) {
	s.In, s.Out, s.Err = os.Stdin, os.Stdout, os.Stderr
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return signal.NotifyContext(context.Background(),
		syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP)
}

// Main serves over the standard streams to the end and returns the program's
// exit status. An error is told in the scheduler's log.
func (s *Server) Main() int {
	ctx, stop := s.Standard()
	defer stop()
	if err := s.Serve(ctx); err != nil {
		s.warn("%v", err)
		return ExitIOErr
	}
	return ExitOK
}

// Serve works until the scheduler says that the agent shall leave, by an empty
// line or end of file, or ctx is done; the messages under way are finished
// first. The error is nil then. A line without its LF at the end of file is
// dropped.
func (s *Server) Serve(ctx context.Context) error {
	out := newOutput(s.Out)
	in, stop := interruptible(ctx, s.In)
	defer stop()
	lines := NewLines(&first{in, raiseFiles}, MaxLine)

	var err error
	if s.Sessions > 1 {
		err = s.serveMany(ctx, lines, out)
	} else {
		err = s.serveOne(ctx, lines, out)
	}
	if e := out.close(); err == nil && e != nil {
		err = fmt.Errorf("report to the scheduler: %w", e)
	}
	return err
}

// serveOne works off one job line after the other. What it has to say is
// written when no further line is waiting, or in a moment (output).
func (s *Server) serveOne(ctx context.Context, lines *Lines, out *output) error {
	at := newSession(s, out, 0)
	out.line(HungryLine)
	for {
		if !lines.Buffered() || out.broken() {
			if out.flush() != nil {
				return nil // close tells
			}
		}
		job, ok, err := s.next(ctx, lines, out)
		if !ok {
			return err
		}
		at.work(job)
		if ctx.Err() == nil {
			out.line(HungryLine)
		}
	}
}

// serveMany works off up to s.Sessions job lines at once.
func (s *Server) serveMany(ctx context.Context, lines *Lines, out *output) error {
	jobs := make(chan Job, s.Sessions)
	var working sync.WaitGroup
	for n := range s.Sessions {
		out.line(HungryLine)
		at := newSession(s, out, n)
		working.Go(func() {
			for job := range jobs {
				if ctx.Err() != nil || out.broken() {
					continue // nobody waits for it any more
				}
				at.work(job)
				if ctx.Err() == nil {
					out.line(HungryLine)
				}
				if len(jobs) == 0 {
					_ = out.flush() // close tells
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

// next reads up to the next job line, answering what is none. It is not ok
// when it is time to leave.
func (s *Server) next(ctx context.Context, lines *Lines, out *output) (job Job, ok bool, err error) {
	for ctx.Err() == nil {
		line, err := lines.Next()
		switch {
		case err == ErrLong:
			s.warn("job line %.40q... is too long", line)
		case err == io.EOF || err == ErrTail || err != nil && ctx.Err() != nil:
			return Job{}, false, nil
		case err != nil:
			return Job{}, false, fmt.Errorf("read from the scheduler: %w", err)
		case string(line) == LeaveLine:
			return Job{}, false, nil
		case string(line) == IdleLine:
		default:
			if job, err = ParseJob(line); err == nil {
				return job, true, nil
			}
			s.warn("%v", err)
		}
		// Whatever it was, it counts as given and wants its answer.
		out.line(HungryLine)
		if out.flush() != nil {
			return Job{}, false, nil
		}
	}
	return Job{}, false, nil
}

// warn writes a line for the scheduler's log, in one write.
func (s *Server) warn(format string, args ...any) {
	if s.Err != nil {
		_, _ = io.WriteString(s.Err, "# "+s.Name+": "+fmt.Sprintf(format, args...)+"\n")
	}
}
