// Package syncdir makes the names in a directory durable. After a file is
// created, renamed or removed, its directory has to be synced before the change
// is sure to survive a crash (fsync(2)).
package syncdir

import (
	"os"

	"zsched/internal/postoffice"
)

// Sync syncs a directory. The process must be allowed to read it.
func Sync(path string) error { return At(postoffice.WorkingDir, path) }

// At syncs a directory whose path is relative to the directory at. The error
// is an *os.PathError.
func At(at int, path string) error {
	fd, err := postoffice.OpenDir(at, path)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer postoffice.Close(fd)
	if err := postoffice.Sync(fd); err != nil {
		return &os.PathError{Op: "sync", Path: path, Err: err}
	}
	return nil
}
