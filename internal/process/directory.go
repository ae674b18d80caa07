package process

// Directories in which a daemon works: it notices that another one is at their names.

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
)

// ErrReplaced says that a directory of the postoffice is not the one in which the daemon
// began its work: another one was moved or mounted there, or it was removed.
var ErrReplaced = errors.New("not the directory that it was at the start")

// Directory is a directory as it was at the start of a daemon.
type Directory struct {
	path     string
	dev, ino uint64
}

// FindDirectory returns the directory at a path. It follows a symbolic link, because an
// administrator may have put a directory elsewhere.
func FindDirectory(path string) (Directory, error) {
	var st unix.Stat_t
	// With the slash, the path is that of a directory, also through a link.
	if err := postoffice.Stat(postoffice.WorkingDir, path+"/", &st); err != nil {
		return Directory{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return Directory{path, st.Dev, st.Ino}, nil
}

// Check returns an error that wraps ErrReplaced if another directory is at the path now.
// Any other error says that the path cannot be examined: IsMissing tells why.
func (d Directory) Check() error {
	now, err := FindDirectory(d.path)
	if err == nil && now != d {
		err = fmt.Errorf("%s is %w", d.path, ErrReplaced)
	}
	return err
}

// IsMissing reports whether an error says that there is no directory at the path.
func IsMissing(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR)
}

// Identity returns device and inode of a directory, "2049:131073", which two programs on one
// machine can compare, or "-" if it cannot be looked at.
func Identity(dir string) string {
	d, err := FindDirectory(dir)
	if err != nil {
		return "-"
	}
	return fmt.Sprintf("%d:%d", d.dev, d.ino)
}
