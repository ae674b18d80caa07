package queue

// Announcements: datagrams that tell the scheduler or the router of a new file.

import (
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Announce sends the datagram "NEW path" to a notify socket: the scheduler's for
// a new control file, or the router's. It does not wait: a sweep finds the file
// if the datagram is lost.
func Announce(socket, path string) error {
	a := NewAnnouncer(socket)
	defer a.Close()
	return a.Announce(path)
}

// Announcer announces many files to one notify socket. It keeps its connection from one
// datagram to the next, and connects again when the program that listens has changed.
type Announcer struct {
	socket string
	mu     sync.Mutex
	fd     int // connected; -1: not now
}

// NewAnnouncer returns an Announcer for a notify socket, which need not exist yet.
// Close releases its connection.
func NewAnnouncer(socket string) *Announcer { return &Announcer{socket: socket, fd: -1} }

// Announce is the function Announce for this socket.
func (a *Announcer) Announce(path string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.send([]byte("NEW " + path)); err != nil {
		return fmt.Errorf("announce %q to %s: %w", path, a.socket, err)
	}
	return nil
}

func (a *Announcer) send(datagram []byte) error {
	if a.fd >= 0 {
		err := unix.Send(a.fd, datagram, 0)
		if err == nil || err == unix.EAGAIN {
			return err
		}
		a.disconnect()
	}
	if err := a.connect(); err != nil {
		return err
	}
	return unix.Send(a.fd, datagram, 0)
}

func (a *Announcer) connect() (err error) {
	a.fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		a.fd = -1
		return err
	}
	if err = unix.Connect(a.fd, &unix.SockaddrUnix{Name: strings.TrimPrefix(a.socket, "UNIX:")}); err != nil {
		a.disconnect()
	}
	return err
}

func (a *Announcer) disconnect() {
	if a.fd >= 0 {
		_ = unix.Close(a.fd)
		a.fd = -1
	}
}

// Close closes the connection. A later Announce connects again.
func (a *Announcer) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.disconnect()
}
