package postoffice

import "golang.org/x/sys/unix"

// Locks and leases of open files. A mounted disk has none.

// LockRange takes a lock on bytes of an open file, which ends with unlock or when fd is
// closed (F_OFD_SETLK). free is false if another process has a lock there; there is no
// unlock then. A file system without such locks counts as free.
func LockRange(fd int, start, length int64) (unlock func(), free bool) {
	if of(fd) != nil {
		return func() {}, true
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: unix.SEEK_SET, Start: start, Len: length}
	switch unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &lock) {
	case nil:
		return func() {
			lock.Type = unix.F_UNLCK
			_ = unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &lock)
		}, true
	case unix.EAGAIN, unix.EACCES:
		return nil, false
	}
	return func() {}, true
}

// lease takes a read lease on an open file, which ends when fd is closed. The error
// is ErrInUse if another process has it open for writing or is waiting to open it.
func lease(fd int) error {
	if of(fd) != nil {
		return nil
	}
	switch _, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK); err {
	case nil:
	case unix.EAGAIN:
		return ErrInUse
	default:
		return err
	}
	// A process that passed the permission check before the file was ours, but
	// opens it only now, waits for the lease.
	if lease, err := unix.FcntlInt(uintptr(fd), unix.F_GETLEASE, 0); err != nil || lease != unix.F_RDLCK {
		return ErrInUse
	}
	return nil
}
