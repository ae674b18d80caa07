package mailbox

// This file creates the dot lock of an mbox, and removes one whose process is
// gone.

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

// staleAge is how old a lock file must be to count as stale if it names no
// process, or if another program or machine wrote it.
const staleAge = 5 * time.Minute

// dotLock is the file name.lock beside an mbox. Programs that use it create it
// before they touch the mbox. Its first line is our pid, as other programs write
// and read it; the other lines are our own:
//
//	4711
//	mail.example.org
//	started 81730000000 1f2e0d6c-5c1c-4b3b-9c0e-0a4c1f6f2b11
//	20480 "\nFrom alice@example.org Sat Nov 21 10:00:00 2026\n"
//
// The second line is the machine. The third is when the process started, in nanoseconds
// since the boot of the machine, and which boot that was: with them, no setting of the
// clock makes a process seem to be another one. The last line, written once the mbox is
// locked, is its size and the text that will begin at that offset. A nil dotLock says that
// the directory does not permit a lock file.
type dotLock struct {
	dir   int
	name  string
	fd    int
	front int64 // bytes before the last line
}

// takeDotLock creates the lock file, after waiting for one that exists.
func (b *mbox) takeDotLock() (*dotLock, error) {
	l := &dotLock{dir: b.dir, name: b.name + ".lock"}
	text := fmt.Sprintf("%d\n%s\n", os.Getpid(), b.request.Host)
	if p, _ := process.Find(os.Getpid()); p.PID != 0 {
		text += fmt.Sprintf("%s%d %s\n", startedWord, p.Started.Nanoseconds(), process.BootID())
	}
	for {
		err := l.create(text)
		switch err {
		case nil:
			l.front = int64(len(text))
			return l, nil
		case unix.EEXIST:
			if b.breakLock(l.name) {
				continue
			}
			if b.isForeign(l.name) {
				return nil, nil
			}
			if err := b.wait(); err != nil {
				return nil, err
			}
		case unix.EACCES, unix.EPERM, unix.EROFS:
			return nil, nil // the fcntl lock alone must suffice
		default:
			return nil, &os.PathError{Op: "create", Path: string(b.request.Path) + ".lock", Err: err}
		}
	}
}

// create creates the lock file with its first lines. If the file system has files
// without a name, it gets its name last: a process that is killed leaves either no lock
// file or one that names it. One without a pid counts as stale only after staleAge.
func (l *dotLock) create(text string) error {
	const flags = unix.O_WRONLY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	var st unix.Stat_t
	if unix.Fstatat(l.dir, l.name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
		return unix.EEXIST
	}
	if fd, err := unix.Openat(l.dir, ".", flags|unix.O_TMPFILE, 0o644); err == nil {
		l.fd = fd
		if err = l.writeFirst(text); err == nil {
			err = unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), l.dir, l.name, unix.AT_SYMLINK_FOLLOW)
		}
		if err == nil {
			return nil
		}
		_ = unix.Close(fd)
		if err == unix.EEXIST {
			return err
		}
	}
	fd, err := unix.Openat(l.dir, l.name, flags|unix.O_CREAT|unix.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	l.fd = fd
	if err := l.writeFirst(text); err != nil {
		l.drop()
		return err
	}
	return nil
}

// writeFirst locks the file with flock(2) and writes the first lines. Its error is that of
// write(2).
func (l *dotLock) writeFirst(text string) error {
	_ = unix.Flock(l.fd, unix.LOCK_EX|unix.LOCK_NB) // without it, breakLock cannot remove the file
	n, err := unix.Write(l.fd, []byte(text))
	if err == nil && n < len(text) {
		err = unix.ENOSPC
	}
	return err
}

func (l *dotLock) write(text string) error {
	if _, err := unix.Write(l.fd, []byte(text)); err != nil {
		return fmt.Errorf("write lock file: %w", err)
	}
	return nil
}

// note writes the last line, and syncs it: the size of the mbox and the text
// that will begin there.
func (l *dotLock) note(size int64, begin string) error {
	if l == nil {
		return nil
	}
	if err := l.write(fmt.Sprintf("%d %q\n", size, begin)); err != nil {
		return err
	}
	return l.sync()
}

// keep removes the last line, and syncs that. Afterwards the message may be
// reported: if the machine stops before the removal of the lock file is on disk,
// no later delivery removes the message.
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

// startedWord begins the line of a lock file that says when its process started.
const startedWord = "started "

// note is the content of a lock file.
type note struct {
	pid  int    // 0: there is none
	host string // "": another program wrote the file
	// started is when the process started, since that boot; boot "": not known.
	started time.Duration
	boot    string
	size    int64  // of the mbox before the delivery; -1: nothing was appended yet
	next    string // text that begins at size
}

func parseNote(text []byte) note {
	lines := strings.SplitN(string(text), "\n", 5)
	n := note{size: -1}
	n.pid, _ = strconv.Atoi(strings.TrimSpace(lines[0]))
	if len(lines) > 2 {
		n.host = lines[1]
		lines = lines[2:]
	}
	if started, ok := strings.CutPrefix(lines[0], startedWord); ok && len(lines) > 1 {
		at, boot, _ := strings.Cut(started, " ")
		if ns, err := strconv.ParseInt(at, 10, 64); err == nil {
			n.started, n.boot = time.Duration(ns), boot
		}
		lines = lines[1:]
	}
	if len(lines) > 1 {
		size, quoted, _ := strings.Cut(lines[0], " ")
		next, err := strconv.Unquote(quoted)
		at, err2 := strconv.ParseInt(size, 10, 64)
		if errors.Join(err, err2) == nil && at >= 0 {
			n.size, n.next = at, next
		}
	}
	return n
}

// breakLock removes a lock file that is stale, or that this process could not remove, and
// the incomplete message that its process may have left. It reports whether to try again at
// once. Only one process at a time may do this (flock(2) on the lock file). Otherwise a
// second one could remove the new lock file of the first.
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
	ours := int(st.Uid) == os.Geteuid() && n.host == b.request.Host
	letGo := ours && n.pid == os.Getpid()
	if !letGo && !stale(n, ours, time.Unix(st.Mtim.Unix()), b.request.bootClock()) {
		return false
	}
	// In a public directory anybody can create a lock file, and we cannot know
	// about processes on another machine. So we trust only our own note.
	if ours && n.size >= 0 && b.restore(n) != nil {
		return false
	}
	return unix.Unlinkat(b.dir, name, 0) == nil
}

// isForeign reports whether a lock file belongs to somebody who has nothing to do with the
// mbox: neither to root nor to our user. In a sticky directory that everybody may write to,
// any user can create one for any mbox, and only its owner and root can remove it.
func (b *mbox) isForeign(name string) bool {
	var dir, lock unix.Stat_t
	const public = unix.S_ISVTX | unix.S_IWOTH
	return unix.Fstat(b.dir, &dir) == nil && dir.Mode&public == public &&
		unix.Fstatat(b.dir, name, &lock, unix.AT_SYMLINK_NOFOLLOW) == nil &&
		lock.Uid != 0 && int(lock.Uid) != os.Geteuid()
}

// bootClock compares times of files with the time since the boot of the machine, which no
// setting of the clock changes.
type bootClock struct {
	// bootedAt is the earliest time of the boot that this program has seen: if the clock was
	// set forward since, files that were written before are not taken for older ones.
	bootedAt  time.Time
	sinceBoot time.Duration
	boot      string
}

func (req *request) bootClock() bootClock {
	var c process.Clock
	c.Read()
	c.See(req.BootedAt)
	return bootClock{c.Read(), process.SinceBoot(), process.BootID()}
}

// old reports whether a file is older than staleAge. No file counts as old while the machine
// has run for less than that, because the clock may have been set since the boot.
func (c bootClock) old(madeAt time.Time) bool {
	if c.sinceBoot == 0 {
		return time.Since(madeAt) > staleAge
	}
	return c.sinceBoot > staleAge && c.bootedAt.Add(c.sinceBoot).Sub(madeAt) > staleAge
}

// stale reports whether the process of a lock file is gone. For our own lock
// files on this machine that is certain; others must also be old.
func stale(n note, ours bool, madeAt time.Time, c bootClock) bool {
	switch {
	case n.pid <= 0:
		return c.old(madeAt)
	case !ours:
		return !process.Exists(n.pid) && c.old(madeAt)
	case unix.Kill(n.pid, 0) != nil:
		// If another user's process has the pid, the pid was reused.
		return true
	case n.boot == "" || c.boot == "":
		clock := new(process.Clock)
		clock.See(c.bootedAt)
		return !clock.RunningSince(n.pid, madeAt)
	case n.boot != c.boot:
		return true
	}
	p, known := process.Find(n.pid)
	return known && (p.PID == 0 || p.Started != n.started)
}

// restore cuts the mbox back to where an unfinished delivery began, if nothing
// but that delivery follows there.
func (b *mbox) restore(n note) error {
	old := &mbox{request: b.request, dir: b.dir, name: b.name, until: b.until}
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

// begins reports whether text is a single message that begins with next, or is
// itself a prefix of next.
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
