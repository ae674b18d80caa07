// Package syncdir makes the names in a directory durable. After a file is
// created, renamed or removed, its directory has to be synced before the change
// is sure to survive a crash (fsync(2)).
package syncdir

import (
	"os"

	"golang.org/x/sys/unix"

	"zsched/internal/eintr"
)

// Sync syncs a directory. The process must be allowed to read it.
func Sync(path string) error { return At(unix.AT_FDCWD, path) }

// At syncs a directory whose path is relative to the directory at. The error
// is an *os.PathError.
func At(at int, path string) error {
	fd, err := eintr.Retry1(func() (int, error) {
		return unix.Openat(at, path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	if err := eintr.Retry(func() error { return unix.Fsync(fd) }); err != nil {
		return &os.PathError{Op: "sync", Path: path, Err: err}
	}
	return nil
}
