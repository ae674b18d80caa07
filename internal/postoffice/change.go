package postoffice

// Owner, group and mode of single files, changed through a descriptor.

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ErrReplaced says that a name is another file's by now.
var ErrReplaced = errors.New("the name is another file's by now")

// Chmod sets the mode of the regular file at path and, as root, its group. It
// changes nothing unless the file is the one that was meant, by device and
// inode. A symbolic link is not followed.
func Chmod(path string, meant os.FileInfo, mode uint32, group int) error {
	fd, err := OpenAt(unix.AT_FDCWD, path, unix.O_RDONLY, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	found, err := file.Stat()
	if err != nil {
		return err
	}
	if !found.Mode().IsRegular() || !os.SameFile(meant, found) {
		return &os.PathError{Op: "chmod", Path: path, Err: ErrReplaced}
	}
	if os.Geteuid() == 0 {
		if err := unix.Fchown(fd, -1, group); err != nil {
			return &os.PathError{Op: "chown", Path: path, Err: err}
		}
	}
	if err := unix.Fchmod(fd, mode); err != nil {
		return &os.PathError{Op: "chmod", Path: path, Err: err}
	}
	return nil
}

// TempDir is a directory below queue/ in which only our user can reach a name.
const TempDir = ".tmp"

// OpenTemp makes queue/.tmp below the open directory queue/ if it is missing,
// and opens it. What is made there becomes somebody's only when it is complete.
func OpenTemp(queue int) (fd int, err error) {
	if err := unix.Mkdirat(queue, TempDir, 0o700); err != nil && err != unix.EEXIST {
		return -1, fmt.Errorf("making queue/%s: %w", TempDir, err)
	}
	fd, err = OpenAt(queue, TempDir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return -1, fmt.Errorf("opening queue/%s: %w", TempDir, err)
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && (int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0) {
		err = fmt.Errorf("it belongs to user %d and has mode %#o", st.Uid, st.Mode&0o7777)
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("using queue/%s: %w", TempDir, err)
	}
	return fd, nil
}

// TempPath is the path of a file in queue/.tmp.
func TempPath(postoffice, name string) string { return postoffice + "/queue/" + TempDir + "/" + name }
