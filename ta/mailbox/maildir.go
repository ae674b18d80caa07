package mailbox

// This file delivers to a Maildir.

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
)

// maildir is a directory with three subdirectories: a message is written in tmp and is
// delivered when it is renamed to new; readers move it to cur.
type maildir struct {
	path     string
	root     int // descriptor of the directory
	tmp, new int // descriptors of these directories in it
}

// deliverMaildir delivers a message to a Maildir of our user, and creates the
// Maildir if it is missing. A crash leaves at most a file in tmp, which no reader
// shows and every reader may remove after 36 hours.
func deliverMaildir(req *request) (out outcome, err error) {
	box, err := openMaildir(strings.TrimRight(string(req.Path), "/"))
	if err != nil {
		return out, err
	}
	defer box.close()
	name := uniqueName(req.Host, time.Now())
	size, err := box.write(name, req.Message)
	if err != nil {
		_ = unix.Unlinkat(box.tmp, name, 0)
		return out, err
	}
	final := fmt.Sprintf("%s,S=%d", name, size)
	if err := unix.Renameat(box.tmp, name, box.new, final); err != nil {
		_ = unix.Unlinkat(box.tmp, name, 0)
		return out, &os.PathError{Op: "rename", Path: box.path + "/new/" + final, Err: err}
	}
	// A reader may have seen the message already. If its name does not reach the
	// disk, the next attempt delivers a second copy.
	if err := unix.Fsync(box.new); err != nil {
		return out, &os.PathError{Op: "sync", Path: box.path + "/new", Err: err}
	}
	out.Bytes, out.Name = size, box.path+"/new/"+final
	return out, nil
}

// uniqueName is a name that no other delivery uses, on any machine.
func uniqueName(host string, now time.Time) string {
	var random [8]byte
	_, _ = rand.Read(random[:]) // does not fail
	host = strings.NewReplacer("/", `\057`, ":", `\072`).Replace(host)
	return fmt.Sprintf("%d.M%06dP%dR%x.%s", now.Unix(), now.Nanosecond()/1000, os.Getpid(), random, host)
}

// openMaildir opens a Maildir and creates the directories that are missing.
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

// obtainDir opens a directory of our user, and creates it if there is none.
func obtainDir(at int, name string) (fd int, err error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err = unix.Openat(at, name, flags, 0)
	if err == unix.ENOENT {
		if err = unix.Mkdirat(at, name, 0o700); err == nil || err == unix.EEXIST {
			fd, err = unix.Openat(at, name, flags, 0)
			_ = postoffice.SyncDirAt(at, ".") // a directory that cannot be read cannot be synced
		}
	}
	if err == unix.ENOTDIR || err == unix.ELOOP {
		return -1, unusable(false, "Maildir: %q is not a directory", name)
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
		return -1, unusable(false, "Maildir: %q belongs to user %d", name, st.Uid)
	}
	return fd, nil
}

// openParent opens the directory that contains a path, and returns the last name
// of the path.
func openParent(path string) (fd int, name string, err error) {
	dir, name := filepath.Split(filepath.Clean(path))
	fd, err = unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, name, fmt.Errorf("its directory: %w", err)
	}
	return fd, name, nil
}

// write writes a message in tmp and syncs it.
func (box *maildir) write(name string, msg *message) (size int64, err error) {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	path := box.path + "/tmp/" + name
	fd, err := unix.Openat(box.tmp, name, flags, 0o600)
	if err != nil {
		return 0, &os.PathError{Op: "create", Path: path, Err: err}
	}
	defer unix.Close(fd)
	out := &counter{fd: fd, path: path}
	w := bufio.NewWriterSize(out, 64<<10)
	if err = msg.write(w); err == nil {
		err = w.Flush()
	}
	if err != nil {
		return 0, err
	}
	if err := unix.Fsync(fd); err != nil {
		return 0, &os.PathError{Op: "sync", Path: path, Err: err}
	}
	return out.n, nil
}

func (box *maildir) close() {
	for _, fd := range []int{box.root, box.tmp, box.new} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}
