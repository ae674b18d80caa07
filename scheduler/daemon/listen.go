package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
)

// Socket is an address to listen at. The zero value is none.
type Socket struct {
	Network string // "unix" or "tcp"
	Address string // a path, or host:port; without a host, all there are
}

// bindAgain is how long a socket is left alone that could not be bound.
const bindAgain = 5 * time.Second

// door is one socket that strangers come in by.
type door struct {
	name string // as the log has it: "mailq tcp4 :174"
	bind func() (net.Listener, error)
	// serve accepts connections until that fails, as it does when the
	// listener is closed.
	serve func(net.Listener) error
}

// doors keeps sockets open. That one cannot be had is never fatal: it is
// logged once, and tried again every five seconds.
type doors struct {
	log      zerolog.Logger
	ctx      context.Context // done when they close
	cancel   context.CancelFunc
	running  sync.WaitGroup
	sessions sync.WaitGroup
}

func newDoors(log zerolog.Logger) *doors {
	d := &doors{log: log}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

// open binds a door's socket, or begins to try to, and has it served.
func (d *doors) open(in door) {
	listener, said := d.bind(in, "")
	d.running.Go(func() {
		for {
			if listener != nil {
				d.serve(in, listener)
			}
			select {
			case <-d.ctx.Done():
				return
			case <-time.After(bindAgain):
			}
			listener, said = d.bind(in, said)
		}
	})
}

// bind returns no listener where the socket cannot be had, and why. What was
// said last is not said again.
func (d *doors) bind(in door, said string) (net.Listener, string) {
	listener, err := in.bind()
	if err != nil {
		if err.Error() != said {
			d.log.Error().Err(err).Str("socket", in.name).Dur("again", bindAgain).Msg("cannot listen, will try again")
		}
		return nil, err.Error()
	}
	d.log.Info().Str("socket", in.name).Stringer("address", listener.Addr()).Msg("listening")
	return listener, ""
}

func (d *doors) serve(in door, listener net.Listener) {
	stop := context.AfterFunc(d.ctx, func() { listener.Close() })
	defer stop()
	defer listener.Close()
	if err := in.serve(listener); d.ctx.Err() == nil {
		d.log.Error().Err(err).Str("socket", in.name).Msg("cannot accept, will listen again")
	}
}

// close closes all sockets and returns when nobody serves them any more, nor
// those who came in.
func (d *doors) close() {
	d.cancel()
	d.running.Wait()
	d.sessions.Wait()
}

// acceptAgain is how long accepting pauses when the system is short of
// something.
const acceptAgain = 100 * time.Millisecond

// lastWords is how long a session may take to end when the doors close.
const lastWords = time.Second

// accept gives each connection to serve in a goroutine of its own. The
// context is done when the doors close; sessions outlive a listener that fails.
func (d *doors) accept(listener net.Listener, serve func(context.Context, net.Conn)) error {
	for {
		conn, err := listener.Accept()
		switch {
		case err == nil:
		case short(err):
			time.Sleep(acceptAgain)
			continue
		default:
			return err
		}
		d.sessions.Go(func() {
			stop := context.AfterFunc(d.ctx, func() { conn.SetDeadline(time.Now().Add(lastWords)) })
			defer stop()
			defer conn.Close()
			serve(d.ctx, conn)
		})
	}
}

// short tells errors of accept that pass from those that stay.
func short(err error) bool {
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

// bindUnix listens at a path. What is left there of a scheduler that is gone
// is removed; what is no socket, or somebody answers at, is not.
func bindUnix(path string) (net.Listener, error) {
	if err := removeStale(path); err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	// Anybody may connect. Who may ask what is decided then.
	if err := os.Chmod(path, 0o666); err != nil {
		listener.Close()
		return nil, fmt.Errorf("opening the socket to all: %w", err)
	}
	return listener, nil
}

func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%q is there and no socket", path)
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		conn.Close()
		return fmt.Errorf("somebody else answers at %q", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}
