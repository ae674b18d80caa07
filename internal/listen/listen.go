// Package listen keeps the listening sockets of a daemon open, such as those for
// PARAMmailqsock and PARAMmetrics of the scheduler.
//
// A socket that cannot be opened is never fatal. The reason is logged once, and
// opening it is tried again every five seconds. The same happens to a listener
// that fails later.
package listen

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
)

// retryDelay is the time between two attempts to open a socket.
const retryDelay = 5 * time.Second

// Sockets is a set of listening sockets that are closed together.
type Sockets struct {
	log      zerolog.Logger
	ctx      context.Context // done when the sockets close
	cancel   context.CancelFunc
	serving  sync.WaitGroup // one for each socket
	sessions sync.WaitGroup // one for each accepted connection
}

// New returns an empty set, which logs to log what happens to its sockets.
func New(log zerolog.Logger) *Sockets {
	s := &Sockets{log: log}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Open opens the socket of an address, or takes the inherited listeners
// instead if there are any. It returns after the first attempt. name says in
// the log what the sockets are for.
//
// serve is called with each listener, in a goroutine of its own, and returns
// when accepting fails, as it does when the listener is closed.
func (s *Sockets) Open(name string, at Address, inherited []net.Listener, serve func(net.Listener) error) {
	for _, listener := range inherited {
		s.open(name+" handed over", once(listener), serve)
	}
	if len(inherited) == 0 && at.Network != "" {
		s.open(name+" "+at.Network+" "+at.Address, at.listen, serve)
	}
}

// once returns a function that opens a socket which the service manager opened. It cannot be
// opened again.
func once(listener net.Listener) func() (net.Listener, error) {
	return func() (net.Listener, error) {
		l := listener
		if listener = nil; l == nil {
			return nil, errors.New("the service manager hands over a socket only once, and this one is closed")
		}
		return l, nil
	}
}

func (s *Sockets) open(name string, listen func() (net.Listener, error), serve func(net.Listener) error) {
	listener, reason := s.listen(name, listen, "")
	s.serving.Go(func() {
		for {
			if listener != nil {
				s.serve(name, listener, serve)
			}
			select {
			case <-s.ctx.Done():
				return
			case <-time.After(retryDelay):
			}
			listener, reason = s.listen(name, listen, reason)
		}
	})
}

// listen returns a nil listener and the reason if the socket cannot be opened.
// A reason that equals the one logged last is not logged again.
func (s *Sockets) listen(name string, listen func() (net.Listener, error), logged string) (net.Listener, string) {
	listener, err := listen()
	if err != nil {
		if err.Error() != logged {
			s.log.Error().Err(err).Str("socket", name).Dur("again", retryDelay).Msg("cannot listen, will try again")
		}
		return nil, err.Error()
	}
	s.log.Info().Str("socket", name).Stringer("address", listener.Addr()).Msg("listening")
	return listener, ""
}

func (s *Sockets) serve(name string, listener net.Listener, serve func(net.Listener) error) {
	stop := context.AfterFunc(s.ctx, func() { listener.Close() })
	defer stop()
	defer listener.Close()
	if err := serve(listener); s.ctx.Err() == nil {
		s.log.Error().Err(err).Str("socket", name).Msg("cannot accept, will listen again")
	}
}

// Close closes all sockets and returns when all sessions have ended.
func (s *Sockets) Close() {
	s.cancel()
	s.serving.Wait()
	s.sessions.Wait()
}

// closeTimeout is how long a session may go on after Close.
const closeTimeout = time.Second

// Accept calls serve for each connection, in a goroutine of its own, until
// accepting fails. The context is done when the set closes. Sessions outlive a
// listener that fails.
func (s *Sockets) Accept(listener net.Listener, serve func(context.Context, net.Conn)) error {
	return Accept(listener, func(conn net.Conn) {
		s.sessions.Go(func() {
			stop := context.AfterFunc(s.ctx, func() { conn.SetDeadline(time.Now().Add(closeTimeout)) })
			defer stop()
			defer conn.Close()
			serve(s.ctx, conn)
		})
	})
}

// acceptPause is how long Accept pauses when the system is short of something that it needs.
const acceptPause = 100 * time.Millisecond

// Accept calls begin with each connection until accepting fails for good.
func Accept(listener net.Listener, begin func(net.Conn)) error {
	for {
		conn, err := listener.Accept()
		switch {
		case err == nil:
			begin(conn)
		case isTemporary(err):
			time.Sleep(acceptPause)
		default:
			return err
		}
	}
}

// isTemporary says whether an error of accept(2) concerns one connection or a
// shortage that passes.
func isTemporary(err error) bool {
	for _, e := range []error{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM,
		syscall.ECONNABORTED, syscall.EINTR, syscall.EPROTO,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// limited is a listener with a bounded number of open connections, so that mail
// keeps the file descriptors that it needs. A further connection closes the one that
// has been open longest: a peer that connects and sends nothing, or half a request,
// keeps no other peer out, and a complete request is soon served.
type limited struct {
	net.Listener
	maxConns int

	mu   sync.Mutex
	open []*limitedConn // oldest first
}

// Limit bounds the number of connections that a listener has open.
func Limit(listener net.Listener, maxConns int) net.Listener {
	return &limited{Listener: listener, maxConns: maxConns}
}

func (l *limited) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &limitedConn{conn, l}
	var oldest *limitedConn
	l.mu.Lock()
	if len(l.open) == l.maxConns {
		oldest = l.open[0]
		l.open = slices.Delete(l.open, 0, 1)
	}
	l.open = append(l.open, c)
	l.mu.Unlock()
	if oldest != nil {
		oldest.Conn.Close()
	}
	return c, nil
}

// limitedConn is a connection that counts towards the limit until it is closed.
type limitedConn struct {
	net.Conn
	listener *limited
}

func (c *limitedConn) Close() error {
	l := c.listener
	l.mu.Lock()
	l.open = slices.DeleteFunc(l.open, func(other *limitedConn) bool { return other == c })
	l.mu.Unlock()
	return c.Conn.Close()
}
