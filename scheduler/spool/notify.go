package spool

// The notify socket, to which routers send the names of new control files.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
)

const (
	// maxDatagram is the longest notification that is read.
	maxDatagram = 999
	// notifyBytes is the size of the receive buffer that is asked for.
	notifyBytes = 1 << 20
)

// notifyPath returns the path that a configuration names as UNIX:/path, /path or
// nothing.
func notifyPath(postoffice, setting string) string {
	path := strings.TrimPrefix(setting, "UNIX:")
	if path == "" {
		return filepath.Join(postoffice, ".scheduler.notify")
	}
	return path
}

// bindNotify makes the socket to which routers send "NEW F/F/258367", one datagram for each
// control file, and replaces the socket that has its name. It has mode 0200: only its owner
// may write.
func bindNotify(path string) (*net.UnixConn, error) {
	info, err := postoffice.Lstat(path)
	if err == nil && info.Mode().Type() != os.ModeSocket {
		return nil, fmt.Errorf("%q exists and is not a socket", path)
	}
	if err == nil {
		if err := postoffice.RemovePath(path); err != nil {
			return nil, err
		}
	}
	// The name gets the mode that the socket has when it is bound.
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = unix.Fchmod(int(fd), 0o200) })
		return errors.Join(err, failed)
	}}
	packets, err := config.ListenPacket(context.Background(), "unixgram", path)
	if err != nil {
		return nil, err
	}
	conn := packets.(*net.UnixConn)
	_ = conn.SetReadBuffer(notifyBytes)
	return conn, nil
}

// notified is the goroutine that receives from the socket. Without one, the watch and the sweep
// find the names.
func (s *Spool) notified(conn *net.UnixConn) {
	s.spawn(func() {
		<-s.done
		_ = conn.Close()
	})
	if err := s.listen(conn); !s.closed() {
		s.warn(fmt.Sprintf("notify socket: %v", err))
	}
	<-s.done
	_ = postoffice.RemovePath(notifyPath(s.options.Postoffice, s.options.NotifySocket))
}

// listen announces the names in datagrams until the socket fails or is closed.
func (s *Spool) listen(conn *net.UnixConn) error {
	buf := make([]byte, maxDatagram+1)
	for {
		size, err := conn.Read(buf)
		if err != nil {
			return err
		}
		if n, ok := parseNotification(buf[:size]); ok && !s.announce([]Name{n}) {
			return net.ErrClosed
		}
	}
}

// parseNotification parses "NEW name", "NEW L/name" or "NEW L/L/name". Other
// datagrams are ignored.
func parseNotification(datagram []byte) (Name, bool) {
	path, ok := strings.CutPrefix(string(datagram), "NEW ")
	if !ok || len(datagram) > maxDatagram {
		return Name{}, false
	}
	prefix, base := split(path)
	id, ok := numbered(base)
	if !ok || base[0] == '0' || !isHashPrefix(prefix) {
		return Name{}, false
	}
	return Name{path, id}, true
}
