package postoffice

// This file opens control files, and takes over those of other users.

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNotRegular says that a name is not that of a regular file.
var ErrNotRegular = errors.New("not a regular file")

// ErrInUse says that a control file belonged to another user and that a process
// still has it open for writing. The file is root's now, and can be used when
// that process has closed it.
var ErrInUse = errors.New("another process has it open for writing")

// ErrNoLease says that a control file belongs to another user and cannot be taken
// over: the file system of transport/ has no leases, as is the case with NFS. The
// file is left as it is.
var ErrNoLease = errors.New("it belongs to another user, and without leases nothing proves that the user does not have it open")

// ErrForeign says that a control file outside the queue belongs to another user, or
// that others may write it. The scheduler does not put such files there.
var ErrForeign = errors.New("it belongs to another user, or others may write it; only root's files are used here")

// ErrLinked says that a control file belongs to another user and has a second name (a
// hard link), which may be that of somebody else's file. The file is left as it is.
var ErrLinked = errors.New("it belongs to another user and has a second name (a hard link)")

const (
	// controlMode lets agents that have the group of transport/ write.
	controlMode = 0o660
	// messageMode lets agents that have the group of transport/ read a message.
	messageMode = 0o440
	// unprovenMode marks a file that is root's but that another process may
	// still have open. The mark survives a restart.
	unprovenMode = 0
)

// Control opens control files to act on them. It is immutable, so many goroutines
// may use it. The zero value takes nothing over.
type Control struct {
	takesOver bool
	group     int // of files that were taken over
	// kept refuses files of other users, in place of taking them over.
	kept bool
	// noLease is why there are no leases below transport/; nil: there are.
	noLease error
}

// NewControl returns the Control for the open directory transport/. Control files
// that it takes over get the group of that directory.
func NewControl(transport int) (Control, error) {
	var st unix.Stat_t
	if err := Fstat(transport, &st); err != nil {
		return Control{}, fmt.Errorf("examining transport: %w", err)
	}
	c := Control{takesOver: os.Geteuid() == 0, group: int(st.Gid)}
	if c.takesOver {
		c.noLease = tryLease(transport)
	}
	return c, nil
}

// CannotTakeOver returns why no file of another user can be taken over; nil if they
// can.
func (c Control) CannotTakeOver() error { return c.noLease }

// Kept returns the Control for hold/ and corrupt/. Control files get there
// from the queue, after they were taken over. Others are not used: Open returns
// ErrForeign.
func (c Control) Kept() Control {
	c.kept = true
	return c
}

const (
	leaseTries = 50
	leasePause = 10 * time.Millisecond
)

// leaseName begins with a dot, so that it is not taken for a control file.
const leaseName = ".scheduler.lease"

// tryLease returns why a file of our own below a directory gets no lease. It also
// returns nil if that cannot be tried: an NFS server may refuse a lease with the
// error that otherwise means that a file is in use.
func tryLease(dir int) error {
	if WriteFile(dir, leaseName, nil, false) != nil {
		return nil
	}
	defer func() { _ = Remove(dir, leaseName) }()
	fd, err := Open(dir, leaseName, unix.O_RDONLY)
	if err != nil {
		return nil
	}
	defer Close(fd)
	// A child that our process is just starting has our descriptors until it execs.
	for try := 0; try < leaseTries; try++ {
		if err = lease(fd); err != ErrInUse {
			return err
		}
		time.Sleep(leasePause)
	}
	return unix.EAGAIN
}

// Open opens the control file at path below dir and returns its fstat(2) state.
// As root it first takes over a file that another user owns, or that anybody may
// write; the error is ErrInUse while another process has that file open. A file of
// root's that has one name gets the group of transport/ and its mode if that group is
// not root's. Other errors are ErrNoLease, ErrLinked, ErrNotRegular and the system's.
func (c Control) Open(dir int, path string, flags int) (fd int, st unix.Stat_t, err error) {
	if fd, st, err = open(dir, path, flags); err != nil || !c.takesOver {
		return fd, st, err
	}
	if !foreign(&st) {
		c.share(fd, &st, controlMode)
		return fd, st, nil
	}
	Close(fd)
	if c.kept {
		return -1, st, ErrForeign
	}
	if err := c.takeOver(dir, path); err != nil {
		return -1, st, err
	}
	fd, st, err = open(dir, path, flags)
	if err == nil && foreign(&st) {
		Close(fd)
		return -1, st, ErrInUse
	}
	return fd, st, err
}

// ShareMessage gives the message file at path below dir to the group of transport/,
// so that agents which are not root can read it. st is its state. It does nothing
// unless we run as root and the group is not root's.
func (c Control) ShareMessage(dir int, path string, st *unix.Stat_t) {
	if !c.unshared(st, messageMode) {
		return
	}
	fd, now, err := open(dir, path, unix.O_RDONLY)
	if err != nil {
		return
	}
	defer Close(fd)
	c.share(fd, &now, messageMode)
}

// share gives an open file to the group of transport/ and adds bits to its mode: the
// file may have been written before that directory got its group. A file with a second
// name stays as it is, because that may be the name of a file elsewhere. share ignores
// errors, because only agents that are not root need the group, and these report that they
// cannot open the file.
func (c Control) share(fd int, st *unix.Stat_t, bits uint32) {
	if c.unshared(st, bits) && fchown(fd, -1, c.group) == nil && fchmod(fd, st.Mode&0o777|bits) == nil {
		_ = Fstat(fd, st)
	}
}

// unshared reports whether the agents' group may lack a right to the file.
func (c Control) unshared(st *unix.Stat_t, bits uint32) bool {
	return c.takesOver && c.group != 0 && st.Nlink == 1 && (int(st.Gid) != c.group || st.Mode&bits != bits)
}

// open opens a regular file.
func open(dir int, path string, flags int) (fd int, st unix.Stat_t, err error) {
	if fd, err = Open(dir, path, flags); err != nil {
		return -1, st, err
	}
	err = Fstat(fd, &st)
	if err == nil && !IsRegular(&st) {
		err = ErrNotRegular
	}
	if err != nil {
		Close(fd)
		return -1, st, err
	}
	return fd, st, nil
}

// foreign reports whether users other than root may have the file open for
// writing, or may open it.
func foreign(st *unix.Stat_t) bool {
	return st.Uid != 0 || st.Mode&0o777 == unprovenMode || st.Mode&unix.S_IWOTH != 0
}

// takeOver makes a control file root's.
func (c Control) takeOver(dir int, path string) error {
	fd, st, err := open(dir, path, unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer Close(fd) // and with it the lease
	if c.noLease != nil {
		return fmt.Errorf("%w: %w", ErrNoLease, c.noLease)
	}
	if st.Nlink > 1 {
		return ErrLinked
	}
	if st.Uid != 0 || st.Mode&0o777 != unprovenMode {
		if err := c.own(fd); err != nil {
			return fmt.Errorf("taking it over from user %d: %w", st.Uid, err)
		}
	}
	// A read lease is given when no descriptor of the file, and no mapping, can
	// write. A reader cannot become a writer: its mode lets nobody open it again.
	switch err := lease(fd); err {
	case nil:
	case ErrInUse:
		return err
	default:
		return fmt.Errorf("proving that nobody has it open (a lease): %w", err)
	}
	if err := fchmod(fd, controlMode); err != nil {
		return fmt.Errorf("setting its mode: %w", err)
	}
	return nil
}

// own gives the file to root and lets nobody else open it. It sets the mode a
// second time because the old owner could have changed it in between. It removes
// the access control list, because the mode that the file gets later could make
// an entry for the old owner effective again. A crash leaves a file that still
// belongs to another user, or one that is marked.
func (c Control) own(fd int) error {
	if err := fchmod(fd, unprovenMode); err != nil {
		return err
	}
	if err := fchown(fd, 0, c.group); err != nil {
		return err
	}
	if err := removeACL(fd); err != nil {
		return err
	}
	return fchmod(fd, unprovenMode)
}

// WriteControl writes a new control file under its temporary name. The caller syncs it.
// The file belongs to our user, never to the sender. If that user is root, the
// file gets the group, which is that of transport/.
func WriteControl(temp string, text []byte, group int) error {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL
	fd, err := OpenAt(WorkingDir, temp, flags, controlMode)
	if err == unix.EEXIST {
		// The number is that of our message file's inode, so a crash has left
		// this file, and it belongs to an earlier message.
		if err = Remove(WorkingDir, temp); err == nil {
			fd, err = OpenAt(WorkingDir, temp, flags, controlMode)
		}
	}
	if err != nil {
		return &os.PathError{Op: "create", Path: temp, Err: err}
	}
	file := NewFile(fd, temp)
	_, err = file.Write(text)
	if os.Geteuid() != 0 {
		group = -1
	}
	if err == nil {
		err = file.Share(group, controlMode)
	}
	if e := file.Close(); err == nil {
		err = e
	}
	if err != nil {
		_ = Remove(WorkingDir, temp)
	}
	return err
}
