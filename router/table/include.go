package table

// Include: who can change a file of the table, and what its members may therefore be.

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Limits of an :include: file.
const (
	maxList        = 4 << 20 // bytes
	maxListMembers = 100000
	maxLinks       = 20 // symbolic links in a path
)

// anybody in the owners of a path says that users other than the owner can change a
// component.
const anybody = -1

// walk opens a file component by component, so that nobody can replace a directory
// between the check and the use, and finds out who can change its path.
type walk struct {
	trusted map[int]bool // users whose symbolic links are followed
	owners  map[int]bool // users who can change a component, and so choose the file
	public  bool         // everybody can read the file
	fd      int          // the directory that the walk has reached
	owner   int          // of that directory
	links   int
	// isTable says that a trusted user's directory in a sticky one is safe: nobody else can
	// rename it, and a directory has no second name. It is not set for lists, which more
	// users can change than the table.
	isTable bool
	sticky  bool // the walk has reached such a sticky directory
}

// outsiders returns a text about the users besides root and uid who can change a
// component, or "" if there are none.
func (w *walk) outsiders(uid int) string {
	for owner := range w.owners {
		if owner == anybody {
			return "others can write the file or replace it in a directory of its path"
		}
		if owner != 0 && owner != uid {
			return fmt.Sprintf("user %d can replace the file in a directory of its path", owner)
		}
	}
	return ""
}

// isTrusted reports whether only trusted users can change the components so far.
func (w *walk) isTrusted() bool {
	for owner := range w.owners {
		if !w.trusted[owner] {
			return false
		}
	}
	return true
}

// note adds a component. A sticky directory counts as one that others can change:
// they can put a link to another user's file into it.
func (w *walk) note(st *unix.Stat_t) {
	isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if w.sticky && !(isDir && w.trusted[int(st.Uid)]) {
		w.owners[anybody] = true
	}
	w.sticky = false
	w.owners[int(st.Uid)] = true
	if st.Mode&0o022 != 0 {
		if w.sticky = w.isTable && isDir && st.Mode&unix.S_ISVTX != 0; !w.sticky {
			w.owners[anybody] = true
		}
	}
	read := uint32(0o004)
	if isDir {
		read, w.owner = 0o001, int(st.Uid)
	}
	w.public = w.public && st.Mode&read != 0
}

// open opens the regular file at an absolute path. Symbolic links are followed only
// where trusted users alone can change the path that leads to them.
func (w *walk) open(path string) (*os.File, unix.Stat_t, error) {
	var st unix.Stat_t
	w.owners, w.public, w.fd = map[int]bool{}, true, unix.AT_FDCWD
	defer func() { w.leave(unix.AT_FDCWD) }()
	rest := []string{"/"}
	rest = append(rest, components(path)...)
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		fd, err := w.step(name, len(rest) > 0)
		if err != nil {
			return nil, st, err
		}
		if err := unix.Fstat(fd, &st); err != nil {
			_ = unix.Close(fd)
			return nil, st, err
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			w.note(&st)
			w.leave(fd)
		case unix.S_IFLNK:
			_ = unix.Close(fd)
			target, err := w.follow(name)
			if err != nil {
				return nil, st, err
			}
			rest = append(target, rest...)
		default:
			var file *os.File
			err := errNotRegular
			if len(rest) == 0 && st.Mode&unix.S_IFMT == unix.S_IFREG {
				file, err = w.read(fd, name, path, &st)
			}
			_ = unix.Close(fd)
			return file, st, err
		}
	}
	return nil, st, errNotRegular
}

// step opens a component. O_DIRECTORY makes the kernel mount what is mounted on demand.
func (w *walk) step(name string, isDir bool) (int, error) {
	const flags = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
	if isDir {
		if fd, err := unix.Openat(w.fd, name, flags|unix.O_DIRECTORY, 0); err != unix.ENOTDIR {
			return fd, err
		}
	}
	return unix.Openat(w.fd, name, flags, 0)
}

var errNotRegular = errors.New("not a regular file")

// leave closes the directory that the walk has reached, and goes on to another one.
func (w *walk) leave(to int) {
	if w.fd >= 0 {
		_ = unix.Close(w.fd)
	}
	w.fd = to
}

// components splits a path at its slashes.
func components(path string) []string {
	return strings.FieldsFunc(path, func(c rune) bool { return c == '/' })
}

// follow returns the components that a symbolic link stands for.
func (w *walk) follow(name string) ([]string, error) {
	if !w.isTrusted() || w.sticky {
		return nil, errors.New("a symbolic link in a path that users other than root can change")
	}
	if w.links++; w.links > maxLinks {
		return nil, unix.ELOOP
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(w.fd, name, buf)
	if err != nil {
		return nil, err
	}
	target := string(buf[:n])
	list := components(target)
	if filepath.IsAbs(target) {
		list = append([]string{"/"}, list...)
	}
	return list, nil
}

// kernelFiles are file systems whose files the kernel generates: their owner has not
// written them.
var kernelFiles = []int64{
	unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC,
	unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.BPF_FS_MAGIC, unix.DEVPTS_SUPER_MAGIC,
	unix.PSTOREFS_MAGIC, unix.SELINUX_MAGIC, unix.SMACK_MAGIC, unix.EFIVARFS_MAGIC,
}

// read opens the file that fd refers to for reading. O_NONBLOCK keeps a FIFO or a lease
// from blocking the caller.
func (w *walk) read(fd int, name, path string, st *unix.Stat_t) (*os.File, error) {
	var system unix.Statfs_t
	if err := unix.Fstatfs(fd, &system); err != nil {
		return nil, err
	}
	for _, magic := range kernelFiles {
		if int64(system.Type) == magic {
			return nil, errors.New("a file that the kernel generates")
		}
	}
	if int64(system.Type) == unix.FUSE_SUPER_MAGIC && !w.isTrusted() {
		return nil, errors.New("a file that a user's program generates (FUSE)")
	}
	opened, err := unix.Openat(w.fd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	var is unix.Stat_t
	if err := unix.Fstat(opened, &is); err != nil || is.Dev != st.Dev || is.Ino != st.Ino {
		_ = unix.Close(opened)
		return nil, errors.Join(err, errors.New("the file was replaced while it was opened"))
	}
	w.note(&is)
	*st = is
	return os.NewFile(uintptr(opened), path), nil
}

// mayRead reports whether everybody who can choose the file by changing its path, or
// the table that names it, could read it too. A user's file in the user's own directory
// is accepted even if a group can write the directory.
func (w *walk) mayRead(owner, table int) bool {
	if w.public {
		return true
	}
	if table != 0 && table != owner {
		return false
	}
	if owner != 0 && owner == w.owner {
		return true
	}
	for user := range w.owners {
		if user != 0 && user != owner {
			return false
		}
	}
	return true
}

// isPassing reports whether a file may be readable soon although nobody changes it: a
// lease was not yet given up, there were too many open files, or the disk had an error.
func isPassing(err error) bool {
	for _, errno := range []unix.Errno{unix.EAGAIN, unix.EINTR, unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EIO, unix.ESTALE, unix.ETIMEDOUT, unix.EHOSTDOWN} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// readSource reads a file and finds out who can change it. table is the owner of the
// table that names the file, or anybody for the table itself. Errors do not begin with
// the path. untrusted is true if users besides root and the owner of the table can
// change the file; it is set after an error, too.
func readSource(path string, table int) (text string, src source, untrusted bool, err error) {
	src.path = path
	w := walk{trusted: map[int]bool{0: true, os.Geteuid(): true}, isTable: table == anybody}
	limit := maxTable
	if table != anybody {
		w.trusted, limit = map[int]bool{0: true, table: true}, maxList
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", src, false, err
	}
	f, st, err := w.open(absolute)
	untrusted = table != anybody && !w.isTrusted()
	if err != nil {
		return "", src, untrusted, err
	}
	defer f.Close()
	src.uid = int(st.Uid)
	if table != anybody && !w.mayRead(src.uid, table) {
		return "", src, untrusted, errors.New("somebody who cannot read the file can make the path lead to it")
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err == nil && len(data) > limit {
		err = fmt.Errorf("longer than %d bytes", limit)
	}
	if err != nil {
		return "", src, untrusted, err
	}
	src.why = w.outsiders(src.uid)
	src.closed = src.why == ""
	return string(data), src, untrusted, nil
}
