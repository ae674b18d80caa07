package ta

// This file sets up an agent as a child of the scheduler: its standard streams, and
// the signals that end it.

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Standard connects s to the standard streams, which lead to the scheduler, and
// returns a context that ends at SIGTERM, SIGINT, SIGQUIT or SIGHUP. The agent
// then finishes its message and exits. If the scheduler is gone, Serve returns
// an error; SIGPIPE does not kill the agent in the middle of a message.
func (s *Server) Standard() (ctx context.Context, stop func()) {
	s.In, s.Out, s.Err = pollable(os.Stdin), pollable(os.Stdout), pollable(os.Stderr)
	s.AllNotary = os.Getenv(MarkingEnv) == MarkingScheduler
	if s.Marking == SchedulerMarks && s.AllNotary && hasMode(os.Stdin, os.ModeSocket) {
		s.begin(0)
	} else {
		s.Marking = AgentMarks
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return signal.NotifyContext(context.Background(),
		syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP)
}

// pollable returns f or, if f is a socket or pipe, a file for it whose reads and writes wait in
// the runtime's poller, as those of a network connection do. A read of os.Stdin would
// block its thread, and the runtime would have to hand processors between threads
// whenever a job line comes. All standard streams that are sockets must be replaced,
// because they may be the same socket, which is either blocking or not.
func pollable(f *os.File) *os.File {
	if !hasMode(f, os.ModeSocket|os.ModeNamedPipe) || syscall.SetNonblock(int(f.Fd()), true) != nil {
		return f
	}
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		_ = syscall.SetNonblock(int(f.Fd()), false)
		return f
	}
	return os.NewFile(uintptr(fd), f.Name())
}

// Main serves over the standard streams to the end and returns the program's
// exit status. It writes an error to the scheduler's log.
func (s *Server) Main() int {
	ctx, stop := s.Standard()
	defer stop()
	if err := s.Serve(ctx); err != nil {
		s.warn("%v", err)
		return ExitIOErr
	}
	return ExitOK
}

// interruptible makes Read return when ctx ends, if it waits in the poller. On a terminal an
// agent that was started by hand ends at the end of its input.
func interruptible(ctx context.Context, r io.Reader) (stop func() bool) {
	f, ok := r.(interface{ SetReadDeadline(time.Time) error })
	if !ok {
		return func() bool { return true }
	}
	return context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })
}

// hasMode reports whether a file is of one of some types.
func hasMode(f *os.File, types os.FileMode) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&types != 0
}
