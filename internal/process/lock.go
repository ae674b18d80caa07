package process

// The locks of pid files: one daemon of a kind at a time in a postoffice.

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
)

// Lock makes sure that only one daemon named name works in a postoffice. The error is
// unix.EWOULDBLOCK if another one does. The lock ends with the process, or when the file
// is closed. The pid in the file is for people; Daemon tells who has the lock.
func Lock(pidFile, name string) (*os.File, error) {
	fd, err := postoffice.OpenAt(postoffice.WorkingDir, pidFile, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: pidFile, Err: err}
	}
	file := os.NewFile(uintptr(fd), pidFile)
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("another %s is running in this postoffice: lock %s: %w", name, pidFile, err)
	}
	// The disk may be full. The lock counts without the pid.
	if file.Truncate(0) == nil {
		_, _ = fmt.Fprintf(file, "%d\n", os.Getpid())
	}
	return file, nil
}
