package mailbox

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"zsched/internal/syncdir"
)

// maildir is a directory of three: a message is written in tmp, and is there
// when it has a name in new; readers move it to cur.
type maildir struct {
	path     string
	root     int // descriptor of the directory
	tmp, new int // and of these two in it
}

// deliverMaildir stores a letter in a Maildir of ours, which is made if it is
// missing. A crash leaves at most a file in tmp, which no reader shows and
// every reader may remove after 36 hours.
func deliverMaildir(o *order) (out outcome, err error) {
	box, err := openMaildir(strings.TrimRight(string(o.Path), "/"))
	if err != nil {
		return out, err
	}
	defer box.close()
	name := uniqueName(o.Host, time.Now())
	size, cvt, err := box.write(name, o.Letter)
	if err != nil {
		_ = unix.Unlinkat(box.tmp, name, 0)
		return out, err
	}
	final := fmt.Sprintf("%s,S=%d", name, size)
	if err := unix.Renameat(box.tmp, name, box.new, final); err != nil {
		_ = unix.Unlinkat(box.tmp, name, 0)
		return out, &os.PathError{Op: "rename", Path: box.path + "/new/" + final, Err: err}
	}
	// From here on a reader may have it. If the name does not get to the disk,
	// that is for the next attempt, and costs a second copy.
	if err := unix.Fsync(box.new); err != nil {
		return out, &os.PathError{Op: "sync", Path: box.path + "/new", Err: err}
	}
	out.Cvt, out.Bytes, out.Name = cvt, size, box.path+"/new/"+final
	return out, nil
}

// uniqueName is a name that no other delivery has, on any machine.
func uniqueName(host string, now time.Time) string {
	var chance [8]byte
	_, _ = rand.Read(chance[:]) // does not fail
	host = strings.NewReplacer("/", `\057`, ":", `\072`).Replace(host)
	return fmt.Sprintf("%d.M%06dP%dR%x.%s", now.Unix(), now.Nanosecond()/1000, os.Getpid(), chance, host)
}

// openMaildir opens a Maildir and makes what is missing of it.
func openMaildir(path string) (*maildir, error) {
	box := &maildir{path: path, root: -1, tmp: -1, new: -1}
	parent, name, err := openParent(path)
	if err != nil {
		return nil, fmt.Errorf("open Maildir %q: %w", path, err)
	}
	defer unix.Close(parent)
	if box.root, err = obtainDir(parent, name); err != nil {
		return nil, err
	}
	cur := -1
	for _, d := range []struct {
		name string
		fd   *int
	}{{"tmp", &box.tmp}, {"new", &box.new}, {"cur", &cur}} {
		if *d.fd, err = obtainDir(box.root, d.name); err != nil {
			box.close()
			return nil, err
		}
	}
	_ = unix.Close(cur)
	return box, nil
}

// obtainDir opens a directory that is ours, and makes it if there is none.
func obtainDir(at int, name string) (fd int, err error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err = unix.Openat(at, name, flags, 0)
	if err == unix.ENOENT {
		if err = unix.Mkdirat(at, name, 0o700); err == nil || err == unix.EEXIST {
			fd, err = unix.Openat(at, name, flags, 0)
			_ = syncdir.At(at, ".") // a directory that cannot be read cannot be synced
		}
	}
	if err == unix.ENOTDIR || err == unix.ELOOP {
		return -1, unfit(false, "Maildir: %q is no directory", name)
	}
	if err != nil {
		return -1, &os.PathError{Op: "open Maildir", Path: name, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return -1, &os.PathError{Op: "stat", Path: name, Err: err}
	}
	if int(st.Uid) != os.Geteuid() {
		_ = unix.Close(fd)
		return -1, unfit(false, "Maildir: %q belongs to user %d", name, st.Uid)
	}
	return fd, nil
}

// openParent opens the directory that a path is in, for use with names in it.
func openParent(path string) (fd int, name string, err error) {
	dir, name := filepath.Split(filepath.Clean(path))
	fd, err = unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, name, fmt.Errorf("its directory: %w", err)
	}
	return fd, name, nil
}

// write writes a letter in tmp and returns when it is on disk.
func (box *maildir) write(name string, l *letter) (size int64, cvt string, err error) {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	path := box.path + "/tmp/" + name
	fd, err := unix.Openat(box.tmp, name, flags, 0o600)
	if err != nil {
		return 0, "", &os.PathError{Op: "create", Path: path, Err: err}
	}
	defer unix.Close(fd)
	out := &counter{fd: fd, path: path}
	w := bufio.NewWriterSize(out, 64<<10)
	if cvt, err = l.write(w); err == nil {
		err = w.Flush()
	}
	if err != nil {
		return 0, "", err
	}
	if err := unix.Fsync(fd); err != nil {
		return 0, "", &os.PathError{Op: "sync", Path: path, Err: err}
	}
	return out.n, cvt, nil
}

func (box *maildir) close() {
	for _, fd := range []int{box.root, box.tmp, box.new} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}
