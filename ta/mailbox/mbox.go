package mailbox

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"zsched/internal/eintr"
	"zsched/internal/syncdir"
	"zsched/ta"
)

// A lock of somebody else's is looked at again after a pause, each twice as
// long as the one before, from firstPause to lastPause.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// mbox is one delivery to a file of messages, which others read and write by
// the same two locks: the file beside it (dotLock) and a lock of fcntl's.
//
//	dot lock ─► open, check ─► fcntl lock ─► size into the dot lock, on disk
//	─► append, on disk ─► size out of the dot lock, on disk ─► unlock
//
// Who finds the dot lock without its process, and the size in it, takes back
// what was appended (mbox.restore).
type mbox struct {
	o      *order
	dir    int // descriptor of its directory
	name   string
	until  time.Time // how long locks are waited for
	pause  time.Duration
	dot    *dotLock // nil: the directory allows none
	fd     int
	opened unix.Stat_t // as it was before
	made   bool        // by us
}

// appendMbox appends a letter to an mbox of ours, which is made if it is
// missing. After an error the file is as it was.
func appendMbox(o *order) (out outcome, err error) {
	b := &mbox{o: o, fd: -1, until: time.Now().Add(o.LockWait)}
	if b.dir, b.name, err = openParent(string(o.Path)); err != nil {
		return out, b.unfit(err)
	}
	defer unix.Close(b.dir)
	if b.dot, err = b.takeDotLock(); err != nil {
		return out, err
	}
	defer b.dot.drop()
	if err = b.open(); err != nil {
		return out, err
	}
	defer unix.Close(b.fd) // unlocks it
	out.Before, out.Name = b.opened.Size, string(o.Path)
	out.Bytes, out.Cvt, err = b.append()
	if err != nil {
		err = errors.Join(err, b.takeBack())
	}
	return out, err
}

// open opens the file and locks it.
func (b *mbox) open() error {
	for {
		fd, err := b.openOnce()
		if err != nil {
			return b.unfit(err)
		}
		again, err := b.lock(fd)
		if err == nil && !again {
			b.fd = fd
			return nil
		}
		_ = unix.Close(fd)
		if err != nil {
			return err
		}
	}
}

// openOnce opens the file, or makes it. Whatever it is, that does not block.
func (b *mbox) openOnce() (fd int, err error) {
	const flags = unix.O_RDWR | unix.O_APPEND | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	for {
		b.made = false
		fd, err = unix.Openat(b.dir, b.name, flags, 0)
		if err != unix.ENOENT {
			return fd, err
		}
		fd, err = unix.Openat(b.dir, b.name, flags|unix.O_CREAT|unix.O_EXCL, 0o600)
		if err != unix.EEXIST {
			b.made = err == nil
			return fd, err
		}
	}
}

// unfit says what an error of opening means.
func (b *mbox) unfit(err error) error {
	switch {
	case err == unix.ELOOP:
		return unfit(b.o.File, "%q is a symbolic link", b.o.Path)
	case err == unix.EISDIR:
		return unfit(b.o.File, "%q is a directory", b.o.Path)
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR):
		return unfit(b.o.File, "open %q: %w", b.o.Path, err)
	}
	return fmt.Errorf("open %q: %w", b.o.Path, err)
}

// lock checks what was opened and locks it. It is to be opened again if it has
// lost its name meanwhile.
func (b *mbox) lock(fd int) (again bool, err error) {
	if again, err := b.check(fd); again || err != nil {
		return again, err
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	for {
		// Of the open file, not the process: other sessions of ours are others.
		err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &lock)
		if err == nil {
			break
		}
		if err != unix.EAGAIN && err != unix.EACCES && err != unix.EINTR {
			return false, &os.PathError{Op: "lock", Path: string(b.o.Path), Err: err}
		}
		if err := b.wait(); err != nil {
			return false, err
		}
	}
	return b.check(fd)
}

// wait waits for a lock of somebody else's, or no more.
func (b *mbox) wait() error {
	left := time.Until(b.until)
	if left <= 0 {
		return &failure{ta.Deferred, "4.2.0 (mailbox is locked)", fmt.Errorf("%q is locked", b.o.Path)}
	}
	b.pause = min(max(2*b.pause, firstPause), lastPause)
	time.Sleep(min(left, b.pause))
	return nil
}

// check refuses a file that may be more, or another's, than it seems: it is
// regular, ours, and has no name but this.
func (b *mbox) check(fd int) (again bool, err error) {
	var named unix.Stat_t
	if err := unix.Fstat(fd, &b.opened); err != nil {
		return false, &os.PathError{Op: "stat", Path: string(b.o.Path), Err: err}
	}
	err = unix.Fstatat(b.dir, b.name, &named, unix.AT_SYMLINK_NOFOLLOW)
	st := &b.opened
	switch {
	case err == unix.ENOENT || err == nil && (named.Ino != st.Ino || named.Dev != st.Dev):
		return true, nil
	case err != nil:
		return false, &os.PathError{Op: "stat", Path: string(b.o.Path), Err: err}
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return false, unfit(b.o.File, "%q is no regular file", b.o.Path)
	case st.Nlink != 1:
		return false, unfit(b.o.File, "%q has %d links", b.o.Path, st.Nlink)
	case int(st.Uid) != os.Geteuid():
		return false, unfit(b.o.File, "%q belongs to user %d", b.o.Path, st.Uid)
	}
	return false, nil
}

// append writes the letter behind two newlines and returns when it is on disk.
func (b *mbox) append() (n int64, cvt string, err error) {
	gap, err := b.gap()
	if err != nil {
		return 0, "", err
	}
	if err := b.dot.note(b.opened.Size, gap+string(b.o.Letter.Separator)); err != nil {
		return 0, "", err
	}
	f := &counter{fd: b.fd, path: string(b.o.Path)}
	w := bufio.NewWriterSize(f, 64<<10)
	_, _ = w.WriteString(gap)
	if cvt, err = b.o.Letter.writeMbox(w); err != nil {
		return 0, "", err
	}
	if err := unix.Fsync(b.fd); err != nil {
		return 0, "", &os.PathError{Op: "sync", Path: f.path, Err: err}
	}
	if err := b.dot.keep(); err != nil {
		return 0, "", err
	}
	if b.made {
		_ = syncdir.At(b.dir, ".") // a directory that cannot be read cannot be synced
	} else if !b.o.TouchAccess {
		times := []unix.Timespec{b.opened.Atim, {Nsec: unix.UTIME_OMIT}}
		_ = unix.UtimesNanoAt(b.dir, b.name, times, unix.AT_SYMLINK_NOFOLLOW)
	}
	return f.n, cvt, nil
}

// gap is what is missing of the two newlines between the messages that are
// there and ours.
func (b *mbox) gap() (string, error) {
	size := b.opened.Size
	if size == 0 {
		return "", nil
	}
	var end [2]byte
	tail := end[:min(size, 2)]
	n, err := unix.Pread(b.fd, tail, size-int64(len(tail)))
	if err == nil && n != len(tail) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return "", &os.PathError{Op: "read", Path: string(b.o.Path), Err: err}
	}
	switch {
	case tail[len(tail)-1] != '\n':
		return "\n\n", nil
	case tail[0] != '\n' || len(tail) == 1:
		return "\n", nil
	}
	return "", nil
}

// takeBack removes what was appended, and the file if it was made for it. In
// one that we made others may have been before we had it locked.
func (b *mbox) takeBack() error {
	if b.made && b.opened.Size == 0 {
		if err := unix.Unlinkat(b.dir, b.name, 0); err == nil {
			return nil
		}
	}
	if err := unix.Ftruncate(b.fd, b.opened.Size); err != nil {
		return fmt.Errorf("take it back: %w", err)
	}
	return nil
}

// counter writes to a descriptor, whole or not at all as far as errors go.
type counter struct {
	fd   int
	path string
	n    int64
}

func (c *counter) Write(b []byte) (done int, err error) {
	for done < len(b) {
		n, err := eintr.Retry1(func() (int, error) { return unix.Write(c.fd, b[done:]) })
		if err == nil && n <= 0 {
			err = io.ErrShortWrite
		}
		if err != nil {
			return done, &os.PathError{Op: "write", Path: c.path, Err: err}
		}
		done += n
		c.n += int64(n)
	}
	return done, nil
}
