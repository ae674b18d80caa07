package ta

// This file sets up an agent as a child of the scheduler: its standard streams,
// the signals that end it, and its limit on open files.

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
)

// Standard connects s to the standard streams, which lead to the scheduler, and
// returns a context that ends at SIGTERM, SIGINT, SIGQUIT or SIGHUP. The agent
// then finishes its message and exits. If the scheduler is gone, Serve returns
// an error; SIGPIPE does not kill the agent in the middle of a message.
func (s *Server) Standard() (ctx context.Context, stop func()) {
	s.In, s.Out, s.Err = pollable(os.Stdin), pollable(os.Stdout), pollable(os.Stderr)
	s.AllNotary = os.Getenv(NotaryEnv) == NotaryAll
	if s.Reports = s.Reports && os.Getenv(MarkingEnv) == MarkingScheduler && isSocket(os.Stdin); s.Reports {
		s.Marking = ctlfile.SchedulerMarks
		s.begin(0)
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return signal.NotifyContext(context.Background(),
		syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP)
}

// pollable returns f or, if f is a socket, a file for it whose reads and writes wait in
// the runtime's poller, as those of a network connection do. A read of os.Stdin would
// block its thread, and the runtime would have to hand processors between threads
// whenever a job line comes. All standard streams that are sockets must be replaced,
// because they may be the same socket, which is either blocking or not.
func pollable(f *os.File) *os.File {
	if !isSocket(f) || syscall.SetNonblock(int(f.Fd()), true) != nil {
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

// interruptible returns a reader whose Read returns when ctx ends. It sets
// a read deadline, shuts down the read side of a blocking socket or, for any
// other file (an agent started by hand has a pipe or a terminal), abandons the
// Read. stop releases ctx.
func interruptible(ctx context.Context, r io.Reader) (_ io.Reader, stop func() bool) {
	f, ok := r.(interface {
		SetReadDeadline(time.Time) error
		SyscallConn() (syscall.RawConn, error)
	})
	if !ok {
		return r, func() bool { return true }
	}
	if f.SetReadDeadline(time.Time{}) == nil {
		return r, context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })
	}
	if file, ok := r.(*os.File); ok && !isSocket(file) {
		return &contextReader{ctx, file}, func() bool { return true }
	}
	return r, context.AfterFunc(ctx, func() {
		if conn, err := f.SyscallConn(); err == nil {
			_ = conn.Control(func(fd uintptr) { _ = syscall.Shutdown(int(fd), syscall.SHUT_RD) })
		}
	})
}

func isSocket(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeSocket != 0
}

// contextReader reads until ctx ends. A Read that is under way at that
// moment continues in its goroutine, so r must not be used afterwards.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *contextReader) Read(b []byte) (int, error) {
	type result struct {
		n   int
		err error
	}
	read := make(chan result, 1)
	go func() {
		n, err := c.r.Read(b)
		read <- result{n, err}
	}()
	select {
	case got := <-read:
		return got.n, got.err
	case <-c.ctx.Done():
		return 0, c.ctx.Err()
	}
}

// raiseFiles raises the soft limit of open files to the hard one. The Go
// runtime does that at the start of every program, but the scheduler sets our
// soft limit after it has started us (scheduler(8), -N), and either may happen
// last. An agent with a hundred connections would sometimes be left with 32
// files. By the time the scheduler writes its first line, it has set the limit.
func raiseFiles() {
	var files syscall.Rlimit
	// The runtime may set a limit one below the hard one.
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) == nil && files.Cur+1 < files.Max {
		files.Cur = files.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files)
	}
}

// onFirstRead is a Reader that calls do once, when the first bytes arrive.
type onFirstRead struct {
	io.Reader
	do func()
}

func (f *onFirstRead) Read(b []byte) (int, error) {
	n, err := f.Reader.Read(b)
	if n > 0 && f.do != nil {
		f.do()
		f.do = nil
	}
	return n, err
}
