package ctlfile

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"golang.org/x/sys/unix"

	"zsched/internal/eintr"
)

// MaxPID is the greatest pid that a lock can name; it stands for every pid
// beyond it. Whose such a lock is, memory must know.
const MaxPID = 999999

const pidWidth = 6

// Swap changes the tag of the r, X or d line at offset, the letter's, from
// one state to another, and the pid field behind it: the pid of a lock,
// blanks for everything else. '+' in place of ' ' leaves those bytes alone,
// and so does any change of a d line, which has no such field. It reports
// false, and has written nothing, if the tag is not from or another process is
// taking the same lock. It never reports true without having written.
//
// A line of an old file may have no pid field. Then the tag byte alone is
// the lock: agents respect it, but nobody can tell whose it is, so that its
// PID reads as 0 and a restarted scheduler clears it.
//
// fd is open for reading and writing, without O_APPEND. The pid matters only
// when to is Locked.
func Swap(fd int, offset int64, from, to Tag, pid int) (bool, error) {
	done, err := swap(fd, offset, from, to, pid)
	if err != nil {
		return false, fmt.Errorf("change tag %q to %q at byte %d: %w", from, to, offset, err)
	}
	return done, nil
}

func swap(fd int, offset int64, from, to Tag, pid int) (bool, error) {
	if to == Locked {
		if pid <= 0 {
			return false, fmt.Errorf("no lock can name pid %d", pid)
		}
		if !claim(fd, offset) {
			return false, nil
		}
	}
	line, err := readFront(fd, offset)
	if err != nil {
		return false, err
	}
	field, err := hasPIDField(line)
	if err != nil {
		return false, err
	}
	if Tag(line[1]) != from {
		return false, nil
	}
	line[1] = byte(to)
	end := 2
	if field && !(from == Open && to == Delivered) {
		end += pidWidth
		putPID(line[2:end], to, pid)
	}
	if err := pwrite(fd, line[1:end], offset+1); err != nil {
		return false, err
	}
	return true, nil
}

// readFront reads the letter, the tag and what may be a pid of the line that
// starts at offset, after a look at the line end that must stand before it.
func readFront(fd int, offset int64) ([]byte, error) {
	buf := make([]byte, 1+2+pidWidth)
	buf[0] = '\n'
	known := 0
	if offset == 0 {
		known = 1
	}
	n, err := pread(fd, buf[known:], offset-1+int64(known))
	front := buf[:known+n]
	switch {
	case err != nil:
		return nil, err
	case len(front) < 3:
		return nil, io.ErrUnexpectedEOF
	case front[0] != '\n':
		return nil, errors.New("no line starts there")
	}
	return front[1:], nil
}

// hasPIDField reports whether the line whose front this is goes on with a pid.
// A line without the field must not lose its channel's first letters.
func hasPIDField(front []byte) (bool, error) {
	switch front[0] {
	case 'd':
		return false, nil
	case 'r', 'X':
		return isPIDField(string(front[2:])), nil
	}
	return false, fmt.Errorf("no recipient or diagnostic starts with %q", front)
}

// isPIDField reports whether s starts with six blanks or digits.
func isPIDField(s string) bool {
	if len(s) < pidWidth {
		return false
	}
	for i := range pidWidth {
		if !isBlankOrDigit(s[i]) {
			return false
		}
	}
	return true
}

func isBlankOrDigit(b byte) bool { return b == ' ' || isDigit(b) }

func putPID(field []byte, to Tag, pid int) {
	for i := range field {
		field[i] = ' '
	}
	if to != Locked {
		return
	}
	digits := strconv.Itoa(min(pid, MaxPID))
	copy(field[pidWidth-len(digits):], digits)
}

// claim makes reading and writing a tag one step among programs that use this
// package, by a lock on those bytes. It goes when fd is closed: until then the
// tag says the same. Where the file system has no such locks the scheduler's
// care to feed a line to one agent at a time must do.
func claim(fd int, offset int64) bool {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: offset + 1, Len: 1 + pidWidth}
	err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &lock)
	return err != unix.EAGAIN && err != unix.EACCES
}

// AppendDiagnostic appends d lines and returns when they are on disk. They go
// in one write, so that those of other processes do not come between; if it
// comes up short, it is taken back and the error is ENOSPC. fd is as for Swap,
// and must not be in use elsewhere meanwhile. The Offset and Tag of the
// diagnostics do not matter.
func AppendDiagnostic(fd int, diagnostics ...Diagnostic) error {
	if len(diagnostics) == 0 {
		return nil
	}
	if err := appendLines(fd, diagnostics); err != nil {
		return fmt.Errorf("append diagnostics: %w", err)
	}
	return nil
}

func appendLines(fd int, diagnostics []Diagnostic) error {
	torn, err := endsTorn(fd)
	if err != nil {
		return err
	}
	var b []byte
	if torn {
		// Should the other line be whole by now, an empty line would be
		// malformed; one of an unknown letter is not.
		b = append(b, "  \n"...)
	}
	for i := range diagnostics {
		b = diagnostics[i].AppendTo(b)
	}
	if err := appendOnce(fd, b); err != nil {
		return err
	}
	return eintr.Retry(func() error { return unix.Fdatasync(fd) })
}

// endsTorn reports whether the last line has no end: a crash cut it short, or
// somebody is writing it now.
func endsTorn(fd int) (bool, error) {
	size, err := fileSize(fd)
	if err != nil || size == 0 {
		return false, err
	}
	var last [1]byte
	_, err = pread(fd, last[:], size-1)
	return last[0] != '\n', err
}

// appendOnce appends b in one write, or nothing.
func appendOnce(fd int, b []byte) error {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	// Only for this write: pwrite on such a descriptor would append as well.
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags|unix.O_APPEND); err != nil {
		return err
	}
	n, err := eintr.Retry1(func() (int, error) { return unix.Write(fd, b) })
	if _, e := unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags); err == nil {
		err = e
	}
	switch {
	case n == len(b):
		return err
	case n > 0:
		return errors.Join(short(n, len(b)), err, takeBack(fd, n))
	}
	return err
}

// takeBack removes the n bytes that this descriptor has appended, unless
// others have appended behind them.
func takeBack(fd, n int) error {
	end, err := unix.Seek(fd, 0, io.SeekCurrent)
	if err != nil {
		return err
	}
	size, err := fileSize(fd)
	if err != nil {
		return err
	}
	if size != end {
		return errors.New("a cut line stays, for another follows it")
	}
	return eintr.Retry(func() error { return unix.Ftruncate(fd, end-int64(n)) })
}

func fileSize(fd int) (int64, error) {
	var st unix.Stat_t
	err := eintr.Retry(func() error { return unix.Fstat(fd, &st) })
	return st.Size, err
}

// pread reads until b is full or the file ends.
func pread(fd int, b []byte, offset int64) (n int, err error) {
	for n < len(b) {
		m, err := eintr.Retry1(func() (int, error) { return unix.Pread(fd, b[n:], offset+int64(n)) })
		if err != nil {
			return n, err
		}
		if m <= 0 {
			return n, nil
		}
		n += m
	}
	return n, nil
}

func pwrite(fd int, b []byte, offset int64) error {
	n, err := eintr.Retry1(func() (int, error) { return unix.Pwrite(fd, b, offset) })
	if err == nil && n < len(b) {
		err = short(n, len(b))
	}
	return err
}

// short is the error of a write that took n bytes only. The system does not
// say why; with a file it is that there was no room for more. Files end within
// a block more often than not, so that a full disk tends to show itself so.
func short(n, of int) error {
	return fmt.Errorf("%d of %d bytes written: %w", n, of, unix.ENOSPC)
}
