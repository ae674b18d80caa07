package mailbox

// This file creates the dot lock of an mbox, and removes one whose process is
// gone.

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// staleAge is how old the lock file of another program must be to count as left behind.
const staleAge = 5 * time.Minute

// dotLock is the file name.lock beside an mbox. Programs that use it create it
// before they touch the mbox. Its first line is our pid, as other programs write
// and read it; the second is the name of this machine. The file stays locked with
// flock(2) as long as we have it. A nil dotLock says that the directory does not permit a
// lock file.
type dotLock struct {
	dir  int
	name string
	fd   int
}

// takeDotLock creates the lock file, after waiting for one that exists.
func (b *mbox) takeDotLock() (*dotLock, error) {
	l := &dotLock{dir: b.dir, name: b.name + ".lock"}
	for {
		err := l.create(fmt.Sprintf("%d\n%s\n", os.Getpid(), b.request.Host))
		switch err {
		case nil:
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

// create creates the lock file. A process that is killed meanwhile leaves one without a
// pid, which is stale after staleAge.
func (l *dotLock) create(text string) (err error) {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	if l.fd, err = unix.Openat(l.dir, l.name, flags, 0o600); err != nil {
		return err
	}
	_ = unix.Flock(l.fd, unix.LOCK_EX|unix.LOCK_NB) // without it, breakLock cannot remove the file
	n, err := unix.Write(l.fd, []byte(text))
	if err == nil && n < len(text) {
		err = unix.ENOSPC
	}
	if err != nil {
		l.drop()
	}
	return err
}

func (l *dotLock) drop() {
	if l != nil {
		_ = unix.Unlinkat(l.dir, l.name, 0)
		_ = unix.Close(l.fd)
	}
}

// breakLock removes a lock file that nobody has any more, and reports whether to try again at
// once. One of ours names this machine, and the flock(2) on it ends with its process. Others
// must be old. Only one process at a time may remove one: a second one could remove the new
// lock file of the first.
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
	_, host, _ := strings.Cut(string(text[:size]), "\n")
	ours := int(st.Uid) == os.Geteuid() && host == b.request.Host+"\n"
	return (ours || time.Since(time.Unix(st.Mtim.Unix())) > staleAge) && unix.Unlinkat(b.dir, name, 0) == nil
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
