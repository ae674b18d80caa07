package ctlfile

// Tags and locks: the byte after a line's letter, and the pid of a lock.

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
)

// Tag is the byte after a line's letter: the state of the line's recipient or
// diagnostic.
type Tag byte

const (
	Open      Tag = ' ' // not delivered yet, or deferred; the tag of all other lines
	Locked    Tag = '~' // an agent works on the recipient; its pid follows
	Delivered Tag = '+' // of a recipient: done. Of a d line: the sender has been told
	Failed    Tag = '-' // of a recipient: failed for good
)

// ofRecipient reports whether a recipient can have the tag.
func (t Tag) ofRecipient() bool {
	return t == Open || t == Locked || t == Delivered || t == Failed
}

// MaxPID is the greatest pid that a lock can name. It also stands for every greater
// pid; then only the scheduler that started the process knows which process it is.
const MaxPID = 999999

const pidWidth = 6

// Swap changes the tag of the r, X or d line whose letter is at offset from one
// state to another. It also writes the pid field after the tag: the pid for a
// lock, blanks for every other tag. The change from ' ' to '+' leaves the pid
// field as it is, and so does any change of a d line, which has no such field.
// Swap returns false, and writes nothing, if the tag is not from or if another process
// is taking the same lock. It returns true only after it has written.
//
// A line of an old file may have no pid field. Then the tag alone is the lock: agents
// respect it, but no program can tell who holds it. Recipient.PID returns 0, and a
// restarted scheduler clears the lock.
//
// fd is open for reading and writing, without O_APPEND. pid matters only when
// to is Locked.
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
		unlock, free := lockBytes(fd, offset)
		if !free {
			return false, nil
		}
		defer unlock()
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

// delayAt is where a recipient line has its delay field, counted from its letter.
const delayAt, delayWidth = 2 + pidWidth, 4

// SetDelays sets the delay field of the r or X line at offset: the number of delay
// notices that the recipient's sender has received. It does nothing if the line has
// no such field. fd is as for Swap.
func SetDelays(fd int, offset int64, delays int) error {
	front := make([]byte, delayAt+delayWidth)
	n, err := postoffice.PreadFull(fd, front, offset)
	if err == nil && (n < len(front) || front[0] != 'r' && front[0] != 'X' || !isPIDField(string(front[2:])) || !isDelayField(string(front[delayAt:]))) {
		return nil
	}
	if err == nil {
		err = pwrite(fd, fmt.Appendf(nil, "%*d", delayWidth, min(max(delays, 0), 9999)), offset+delayAt)
	}
	if err != nil {
		return fmt.Errorf("write the delay field at byte %d: %w", offset, err)
	}
	return nil
}

// isDelayField reports whether s is four blanks or digits.
func isDelayField(s string) bool {
	return len(s) == delayWidth && strings.Trim(s, " 0123456789") == ""
}

// lockBytes makes the change of a tag atomic among programs that use this package, by
// a file lock on the tag and the pid field. Once the tag is written, the tag and the pid
// field show who has the recipient, and unlock ends the file lock: the kernel keeps the
// locks of a file in a list, which each further one searches. If the file system has no
// such locks, only the scheduler prevents two agents from locking a recipient: it gives a
// job line to one agent at a time.
func lockBytes(fd int, offset int64) (unlock func(), free bool) {
	return postoffice.LockRange(fd, offset+1, 1+pidWidth)
}

// readFront reads the letter, the tag and, if there is one, the pid field of the line
// that starts at offset. It checks that a line end precedes the line.
func readFront(fd int, offset int64) ([]byte, error) {
	buf := make([]byte, 1+2+pidWidth)
	buf[0] = '\n'
	known := 0
	if offset == 0 {
		known = 1
	}
	n, err := postoffice.PreadFull(fd, buf[known:], offset-1+int64(known))
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

// hasPIDField reports whether the line that begins with these bytes has a pid field. If
// it has none, writing a pid would overwrite the first letters of the channel.
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
	if to == Locked {
		digits := strconv.Itoa(min(pid, MaxPID))
		copy(field[pidWidth-len(digits):], digits)
	}
}

func pwrite(fd int, b []byte, offset int64) error {
	n, err := postoffice.Pwrite(fd, b, offset)
	if err == nil && n < len(b) {
		err = errShortWrite(n, len(b))
	}
	return err
}

// errShortWrite returns the error for a write that wrote only n bytes. The system does
// not say why, but for a file the reason is a lack of space: most files end within a
// block, so a write to a full disk often fills the rest of the block.
func errShortWrite(n, size int) error {
	return fmt.Errorf("%d of %d bytes written: %w", n, size, unix.ENOSPC)
}
