package mailbox

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"zsched/internal/process"
)

// lockAge is how old a lock file must be that does not say whose it is, or
// says so for another machine, before it is thought forgotten.
const lockAge = 5 * time.Minute

// dotLock is the file name.lock beside an mbox, which all who know it make
// before they touch the mbox. Its first line is our pid, as others write and
// read it; the rest is for ourselves:
//
//	4711
//	mail.example.org
//	20480 "\nFrom alice@example.org Sat Nov 21 10:00:00 2026\n"
//
// : the machine, and once the mbox is locked its size and what comes next. A
// nil dotLock is one that the directory did not allow.
type dotLock struct {
	dir   int
	name  string
	fd    int
	front int64 // bytes before the note of what comes next
}

// takeDotLock makes the lock file, or waits for the one that is there.
func (b *mbox) takeDotLock() (*dotLock, error) {
	l := &dotLock{dir: b.dir, name: b.name + ".lock"}
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	for {
		fd, err := unix.Openat(b.dir, l.name, flags, 0o644)
		switch err {
		case nil:
			l.fd = fd
			text := fmt.Sprintf("%d\n%s\n", os.Getpid(), b.o.Host)
			if err := l.write(text); err != nil {
				l.drop()
				return nil, err
			}
			l.front = int64(len(text))
			return l, nil
		case unix.EEXIST:
			if b.breakLock(l.name) {
				continue
			}
			if err := b.wait(); err != nil {
				return nil, err
			}
		case unix.EACCES, unix.EPERM, unix.EROFS:
			return nil, nil // there, the other lock must do
		default:
			return nil, &os.PathError{Op: "create", Path: string(b.o.Path) + ".lock", Err: err}
		}
	}
}

func (l *dotLock) write(text string) error {
	if _, err := unix.Write(l.fd, []byte(text)); err != nil {
		return fmt.Errorf("write lock file: %w", err)
	}
	return nil
}

// note writes down, on disk, where the mbox ends and what will begin there.
func (l *dotLock) note(size int64, begin string) error {
	if l == nil {
		return nil
	}
	if err := l.write(fmt.Sprintf("%d %q\n", size, begin)); err != nil {
		return err
	}
	return l.sync()
}

// keep takes the note back, on disk. The message may be reported from then on,
// and if the machine stops before the lock's removal is on disk, too, nobody
// may cut the message off.
func (l *dotLock) keep() error {
	if l == nil {
		return nil
	}
	if err := unix.Ftruncate(l.fd, l.front); err != nil {
		return fmt.Errorf("write lock file: %w", err)
	}
	return l.sync()
}

func (l *dotLock) sync() error {
	if err := unix.Fsync(l.fd); err != nil {
		return fmt.Errorf("sync lock file: %w", err)
	}
	return nil
}

func (l *dotLock) drop() {
	if l != nil {
		_ = unix.Unlinkat(l.dir, l.name, 0)
		_ = unix.Close(l.fd)
	}
}

// note is what a lock file says.
type note struct {
	pid  int    // 0: none that can be read
	host string // "": another program's
	size int64  // -1: nothing was appended yet
	next string
}

func parseNote(text []byte) note {
	lines := strings.SplitN(string(text), "\n", 4)
	n := note{size: -1}
	n.pid, _ = strconv.Atoi(strings.TrimSpace(lines[0]))
	if len(lines) > 2 {
		n.host = lines[1]
	}
	if len(lines) > 3 {
		size, quoted, _ := strings.Cut(lines[2], " ")
		next, err := strconv.Unquote(quoted)
		at, err2 := strconv.ParseInt(size, 10, 64)
		if errors.Join(err, err2) == nil && at >= 0 {
			n.size, n.next = at, next
		}
	}
	return n
}

// breakLock removes a lock file whose maker is gone, with the half message it
// may have left, and says whether it is worth while to try again. The lock of
// flock on the file itself keeps two from doing it, and the second from
// removing the first one's new lock.
func (b *mbox) breakLock(name string) bool {
	fd, err := unix.Openat(b.dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err == unix.ENOENT
	}
	defer unix.Close(fd)
	if unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) != nil {
		return false
	}
	var st, named unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return false
	}
	if err := unix.Fstatat(b.dir, name, &named, unix.AT_SYMLINK_NOFOLLOW); err != nil || named.Ino != st.Ino {
		return err == unix.ENOENT
	}
	text := make([]byte, 4096)
	size, err := unix.Pread(fd, text, 0)
	if err != nil {
		return false
	}
	n := parseNote(text[:size])
	ours := int(st.Uid) == os.Geteuid() && n.host == b.o.Host
	if !forgotten(n, ours, time.Unix(st.Mtim.Unix())) {
		return false
	}
	// Anybody may have made a lock file in a public directory, and what is at
	// work on another machine cannot be known: only ours is believed.
	if ours && n.size >= 0 && b.restore(n) != nil {
		return false
	}
	return unix.Unlinkat(b.dir, name, 0) == nil
}

// forgotten says that the maker of a lock is gone. Of our own locks on this
// machine that is known; other machines' processes cannot be asked after.
func forgotten(n note, ours bool, madeAt time.Time) bool {
	if n.pid <= 0 {
		return time.Since(madeAt) > lockAge
	}
	if !ours {
		return !process.Exists(n.pid) && time.Since(madeAt) > lockAge
	}
	// A process of another user has the pid by chance.
	return unix.Kill(n.pid, 0) != nil || !process.RunningSince(n.pid, madeAt)
}

// restore cuts the mbox back to where a delivery began that did not end. It
// does so only if what follows is that delivery and nothing else.
func (b *mbox) restore(n note) error {
	old := &mbox{o: b.o, dir: b.dir, name: b.name, until: b.until}
	var named unix.Stat_t
	if unix.Fstatat(b.dir, b.name, &named, unix.AT_SYMLINK_NOFOLLOW) == unix.ENOENT {
		return nil
	}
	if err := old.open(); err != nil {
		return err
	}
	f := os.NewFile(uintptr(old.fd), b.name)
	defer f.Close()
	if old.opened.Size <= n.size {
		return nil
	}
	rest := io.NewSectionReader(f, n.size, old.opened.Size-n.size)
	if alone, err := begins(rest, n.next); err != nil || !alone {
		return err
	}
	if err := f.Truncate(n.size); err != nil {
		return err
	}
	return f.Sync()
}

// begins says that a text begins with the separator next, as far as it goes,
// and has no other message behind that.
func begins(text io.Reader, next string) (bool, error) {
	front := make([]byte, len(next))
	n, err := io.ReadFull(text, front)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return string(front[:n]) == next[:n], nil
	}
	if err != nil || string(front) != next {
		return false, err
	}
	const mark = "\nFrom "
	buf := make([]byte, 64<<10)
	buf[0] = '\n'
	held := 1
	for {
		n, err := text.Read(buf[held:])
		if bytes.Contains(buf[:held+n], []byte(mark)) {
			return false, nil
		}
		if err == io.EOF {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		keep := min(held+n, len(mark)-1)
		copy(buf, buf[held+n-keep:held+n])
		held = keep
	}
}
