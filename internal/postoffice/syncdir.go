package postoffice

// Names in a directory become durable. After a file is created, renamed or removed, its
// directory has to be synced before the change is sure to survive a crash (fsync(2)).

import "os"

// SyncDir syncs a directory. The process must be allowed to read it.
func SyncDir(path string) error { return SyncDirAt(WorkingDir, path) }

// SyncDirAt syncs a directory whose path is relative to the directory at. The error
// is an *os.PathError.
func SyncDirAt(at int, path string) error {
	fd, err := OpenDir(at, path)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer Close(fd)
	if err := Sync(fd); err != nil {
		return &os.PathError{Op: "sync", Path: path, Err: err}
	}
	return nil
}
