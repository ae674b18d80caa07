package spool

// The notify socket, to which routers send the names of new control files.

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
)

const (
	// maxDatagram is the longest notification that is read.
	maxDatagram = 999
	// notifyRetry is how long after an error the socket is made again.
	notifyRetry = 5 * time.Second
	// notifyBytes is the size of the receive buffer that is asked for.
	notifyBytes = 1 << 20
)

// notifySocket is where routers send "NEW F/F/258367", one datagram for each
// control file. It has mode 0200: only its owner may write.
type notifySocket struct {
	path  string
	conn  net.PacketConn
	inode uint64 // of the path; a successor has another
}

// notifyPath returns the path that a configuration names as UNIX:/path, /path or
// nothing.
func notifyPath(postoffice, setting string) string {
	path := strings.TrimPrefix(setting, "UNIX:")
	if path == "" {
		return filepath.Join(postoffice, ".scheduler.notify")
	}
	return path
}

// bindNotify makes the socket and replaces the socket that has its name.
func bindNotify(path string) (*notifySocket, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	// The name gets the mode that the socket has when it is bound.
	if err := unix.Fchmod(fd, 0o200); err != nil {
		return nil, err
	}
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, notifyBytes) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, notifyBytes)
	}
	inode, err := bindTo(fd, path)
	if err != nil {
		return nil, err
	}
	conn, err := net.FilePacketConn(file)
	if err != nil {
		return nil, err
	}
	return &notifySocket{path, conn, inode}, nil
}

// bindTo gives a socket its name, which a socket of an earlier process may still
// have, and returns the name's inode.
func bindTo(fd int, path string) (inode uint64, err error) {
	dir, err := postoffice.OpenDir(postoffice.WorkingDir, filepath.Dir(path))
	if err != nil {
		return 0, err
	}
	defer unix.Close(dir)
	base := filepath.Base(path)
	var st unix.Stat_t
	if postoffice.Stat(dir, base, &st) == nil {
		if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
			return 0, fmt.Errorf("%q exists and is not a socket", path)
		}
		if err := postoffice.Remove(dir, base); err != nil {
			return 0, err
		}
	}
	// An address holds 107 bytes; a longer path is reached by way of its
	// directory.
	address := path
	if len(path) > 107 {
		address = "/proc/self/fd/" + strconv.Itoa(dir) + "/" + base
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: address}); err != nil {
		return 0, err
	}
	err = postoffice.Stat(dir, base, &st)
	return st.Ino, err
}

// close closes the socket and removes the name, unless it is another socket's now.
func (n *notifySocket) close() {
	var st unix.Stat_t
	if postoffice.Stat(postoffice.WorkingDir, n.path, &st) == nil && st.Ino == n.inode {
		postoffice.Remove(postoffice.WorkingDir, n.path)
	}
	n.conn.Close()
}

// notified is the goroutine that receives from n or, if there was an error, from a socket
// that it makes later.
func (s *Spool) notified(n *notifySocket, err error) {
	reported := ""
	for {
		if err == nil {
			stop := make(chan struct{})
			s.spawn(func() {
				select {
				case <-s.done:
				case <-stop:
				}
				n.close()
			})
			err = s.listen(n)
			close(stop)
		}
		// The same error is reported once, not every five seconds.
		if text := fmt.Sprintf("notify socket: %v", err); text != reported && !s.closed() {
			reported = text
			s.warn(text)
		}
		timer := time.NewTimer(notifyRetry)
		select {
		case <-s.done:
			timer.Stop()
			return
		case <-timer.C:
		}
		n, err = bindNotify(notifyPath(s.options.Postoffice, s.options.NotifySocket))
	}
}

// listen announces the names in datagrams until the socket fails or is closed.
func (s *Spool) listen(n *notifySocket) error {
	raw, err := n.conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return err
	}
	buf := make([]byte, maxDatagram+1)
	for {
		var failed error
		err := raw.Read(func(fd uintptr) bool {
			names, waiting, err := receive(int(fd), buf)
			if len(names) > 0 && !s.announce(names) {
				err = net.ErrClosed
			}
			failed = err
			return waiting || failed != nil
		})
		if err = errors.Join(err, failed); err != nil {
			return err
		}
	}
}

// receive reads the datagrams that are waiting, at most a batch, and returns the names
// in them. more says that others may be waiting. Without the limit, a flood of other
// datagrams would keep it from returning names, and the socket from being closed.
func receive(fd int, buf []byte) (names []Name, more bool, err error) {
	for range batchLimit {
		size, err := postoffice.Retry1(func() (int, error) {
			n, _, err := unix.Recvfrom(fd, buf, 0)
			return n, err
		})
		switch err {
		case nil:
		case unix.EAGAIN:
			return names, false, nil
		default:
			return names, false, err
		}
		if n, ok := parseNotification(buf[:size]); ok {
			names = append(names, n)
		}
	}
	return names, true, nil
}

// parseNotification parses "NEW name", "NEW L/name" or "NEW L/L/name". Other
// datagrams are ignored.
func parseNotification(datagram []byte) (Name, bool) {
	path, ok := strings.CutPrefix(string(datagram), "NEW ")
	if !ok || len(datagram) > maxDatagram {
		return Name{}, false
	}
	prefix, base := split(path)
	switch len(prefix) {
	case 0, 2, 4:
	default:
		return Name{}, false
	}
	for i := 0; i < len(prefix); i += 2 {
		if prefix[i] < 'A' || prefix[i] > 'Z' || prefix[i+1] != '/' {
			return Name{}, false
		}
	}
	id, ok := numbered(base)
	if !ok || base[0] == '0' {
		return Name{}, false
	}
	return Name{path, id}, true
}
