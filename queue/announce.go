package queue

// Announcements: datagrams that tell the scheduler, or ZMailer's router, of a new file.

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// Announce sends the datagram "NEW path" to a notify socket: the scheduler's for
// a new control file, or that of ZMailer's router. It does not wait: a sweep finds the file
// if the datagram is lost.
func Announce(socket, path string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err == nil {
		defer unix.Close(fd)
		err = unix.Sendto(fd, []byte("NEW "+path), 0, &unix.SockaddrUnix{Name: strings.TrimPrefix(socket, "UNIX:")})
	}
	if err != nil {
		return fmt.Errorf("announce %q to %s: %w", path, socket, err)
	}
	return nil
}
