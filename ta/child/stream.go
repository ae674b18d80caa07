package child

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"zsched/internal/eintr"
)

// afterlife is how many bytes are read from a stream after its grace. It is
// more than a socket or pipe holds, so that all the process itself wrote is
// read however late we are, and less than a descendant could write for ever.
const afterlife = 4 << 20

// stream reads a file whose read deadline, once set, means: from now on only
// what is there already.
type stream struct {
	f    *os.File
	left int  // bytes of the afterlife, once it has begun
	held bool // it ended although somebody has the other end open
	late bool
}

// Read is as io.Reader's. Errors other than io.EOF are told as io.EOF: a reset
// by the peer, which unread input causes, is the way an agent ends too.
func (s *stream) Read(b []byte) (int, error) {
	if !s.late {
		n, err := s.f.Read(b)
		if n > 0 {
			return n, nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return 0, io.EOF
		}
		s.late, s.left = true, afterlife
	}
	n := s.take(b[:min(len(b), s.left)])
	s.left -= n
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// take reads without waiting; 0 is the end.
func (s *stream) take(b []byte) int {
	if len(b) == 0 {
		s.held = true
		return 0
	}
	conn, err := s.f.SyscallConn()
	if err != nil {
		return 0
	}
	var n int
	conn.Control(func(fd uintptr) {
		n, err = eintr.Retry1(func() (int, error) { return unix.Read(int(fd), b) })
	})
	s.held = err == unix.EAGAIN
	return max(n, 0)
}
