package mailbox

// This file delivers to an mbox file: opening, locking, appending.

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
	"zsched/ta"
)

// While another process holds a lock, we look again after a pause that doubles
// each time, from firstPause to lastPause.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// mbox is one delivery to a file of messages. Other programs read and write it
// under the same two locks: a file beside it (dotLock) and an fcntl(2) lock.
//
//	dot lock ─► open, check ─► fcntl lock ─► append, sync ─► unlock
//
// If appending fails, what was begun is removed. If the process is killed meanwhile, the
// beginning of the message stays, and the next attempt appends the whole; a Maildir does
// not have this fault.
type mbox struct {
	request *request
	dir     int // descriptor of its directory
	name    string
	until   time.Time // when waiting for locks ends
	pause   time.Duration
	dot     *dotLock // nil: the directory does not allow one
	fd      int
	opened  unix.Stat_t // its state before the delivery
	made    bool        // we created it
}

// appendMbox appends a message to an mbox of our user, and creates the mbox if it
// is missing. After an error the file is as it was.
func appendMbox(req *request) (out outcome, err error) {
	b := &mbox{request: req, fd: -1, until: time.Now().Add(req.LockWait)}
	if b.dir, b.name, err = openParent(string(req.Path)); err != nil {
		return out, b.openError(err)
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
	out.Before, out.Name = b.opened.Size, string(req.Path)
	out.Bytes, err = b.append()
	if err != nil {
		err = errors.Join(err, b.undo())
	}
	return out, err
}

// open opens the file and locks it.
func (b *mbox) open() error {
	for {
		fd, err := b.openOnce()
		if err != nil {
			return b.openError(err)
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

// errNotRegular says that the mbox is no regular file.
var errNotRegular = errors.New("not a regular file")

// openOnce opens or creates the file. It never blocks, whatever the file is, and opens no
// special file that has the name already, because opening a device can have an effect.
func (b *mbox) openOnce() (fd int, err error) {
	const flags = unix.O_RDWR | unix.O_APPEND | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	for {
		b.made = false
		var st unix.Stat_t
		if unix.Fstatat(b.dir, b.name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			switch st.Mode & unix.S_IFMT {
			case unix.S_IFREG, unix.S_IFLNK, unix.S_IFDIR: // for the last two, the error of open says more
			default:
				return -1, errNotRegular
			}
		}
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

// openError says what an error of opening means.
func (b *mbox) openError(err error) error {
	switch {
	case err == unix.ELOOP:
		return unusable(b.request.File, "%q is a symbolic link", b.request.Path)
	case err == errNotRegular:
		return unusable(b.request.File, "%q is not a regular file", b.request.Path)
	case err == unix.EISDIR:
		return unusable(b.request.File, "%q is a directory", b.request.Path)
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR):
		return unusable(b.request.File, "open %q: %w", b.request.Path, err)
	}
	return fmt.Errorf("open %q: %w", b.request.Path, err)
}

// lock checks and locks the opened file. again means that the name no
// longer refers to this file, so the caller must open it again.
func (b *mbox) lock(fd int) (again bool, err error) {
	if again, err := b.check(fd); again || err != nil {
		return again, err
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	for {
		// The lock belongs to the open file, not to the process, so that it keeps
		// out other sessions of this process too.
		err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &lock)
		if err == nil {
			break
		}
		if err != unix.EAGAIN && err != unix.EACCES && err != unix.EINTR {
			return false, &os.PathError{Op: "lock", Path: string(b.request.Path), Err: err}
		}
		if err := b.wait(); err != nil {
			return false, err
		}
	}
	return b.check(fd)
}

// wait pauses while another process holds a lock. The error says that the time
// for that is up.
func (b *mbox) wait() error {
	left := time.Until(b.until)
	if left <= 0 {
		return &failure{ta.Deferred, "4.2.0 (mailbox is locked)", fmt.Errorf("%q is locked", b.request.Path)}
	}
	b.pause = min(max(2*b.pause, firstPause), lastPause)
	time.Sleep(min(left, b.pause))
	return nil
}

// check refuses a file that is not what it seems: it must be regular, belong to
// us and have no other name. again is as for lock.
func (b *mbox) check(fd int) (again bool, err error) {
	var named unix.Stat_t
	if err := unix.Fstat(fd, &b.opened); err != nil {
		return false, &os.PathError{Op: "stat", Path: string(b.request.Path), Err: err}
	}
	err = unix.Fstatat(b.dir, b.name, &named, unix.AT_SYMLINK_NOFOLLOW)
	st := &b.opened
	switch {
	case err == unix.ENOENT || err == nil && (named.Ino != st.Ino || named.Dev != st.Dev):
		return true, nil
	case err != nil:
		return false, &os.PathError{Op: "stat", Path: string(b.request.Path), Err: err}
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return false, unusable(b.request.File, "%q is not a regular file", b.request.Path)
	case st.Nlink != 1:
		return false, unusable(b.request.File, "%q has %d links", b.request.Path, st.Nlink)
	case int(st.Uid) != os.Geteuid():
		return false, unusable(b.request.File, "%q belongs to user %d", b.request.Path, st.Uid)
	}
	return false, nil
}

// append appends the message after two newlines and syncs the file.
func (b *mbox) append() (n int64, err error) {
	gap, err := b.gap()
	if err != nil {
		return 0, err
	}
	f := &counter{fd: b.fd, path: string(b.request.Path)}
	w := bufio.NewWriterSize(f, 64<<10)
	_, _ = w.WriteString(gap)
	if err = b.request.Message.writeMbox(w); err != nil {
		return 0, err
	}
	if err := unix.Fsync(b.fd); err != nil {
		return 0, &os.PathError{Op: "sync", Path: f.path, Err: err}
	}
	if b.made {
		_ = postoffice.SyncDirAt(b.dir, ".") // a directory that cannot be read cannot be synced
	} else if !b.request.TouchAccess {
		times := []unix.Timespec{b.opened.Atim, {Nsec: unix.UTIME_OMIT}}
		_ = unix.UtimesNanoAt(b.dir, b.name, times, unix.AT_SYMLINK_NOFOLLOW)
	}
	return f.n, nil
}

// gap returns the newlines that are missing: there must be two between the
// existing messages and ours.
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
		return "", &os.PathError{Op: "read", Path: string(b.request.Path), Err: err}
	}
	switch {
	case tail[len(tail)-1] != '\n':
		return "\n\n", nil
	case tail[0] != '\n' || len(tail) == 1:
		return "\n", nil
	}
	return "", nil
}

// undo removes what was appended, and the file if we created it. Another
// process may have written to a file that we created, before we locked it; such
// a file stays.
func (b *mbox) undo() error {
	if b.made && b.opened.Size == 0 {
		if err := unix.Unlinkat(b.dir, b.name, 0); err == nil {
			return nil
		}
	}
	if err := unix.Ftruncate(b.fd, b.opened.Size); err != nil {
		return fmt.Errorf("remove what was appended: %w", err)
	}
	return nil
}

// counter writes to a descriptor and counts the bytes.
type counter struct {
	fd   int
	path string
	n    int64
}

func (c *counter) Write(b []byte) (done int, err error) {
	for done < len(b) {
		n, err := postoffice.Retry1(func() (int, error) { return unix.Write(c.fd, b[done:]) })
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
