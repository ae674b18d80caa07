package postoffice

// This file changes the owner, group, mode and times of single files through a
// descriptor.

import (
	"errors"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrReplaced says that a name belongs to another file now.
var ErrReplaced = errors.New("it was replaced by another file")

// TimeOfCopy returns the modification time for a copy of a message file with the
// modification time at: a random time in the second before that. A spoolid is the inode
// number and this time, and file systems use inode numbers again. With the same time, a
// copy could have the spoolid of an earlier copy of that message.
func TimeOfCopy(at time.Time) time.Time {
	return at.Add(-1 - time.Duration(rand.Int64N(int64(time.Second))))
}

// clockTolerance is how far in the future a modification time may be: clocks are adjusted.
const clockTolerance = time.Minute

// EndFuture sets the modification time of the message file at path below dir to now if somebody
// has set it to a time in the future: a sender can do so while the file is open, and mail without
// an age would never expire. A time that is not after the last change of the file is in the future
// because the clock was set back, and stays: it is part of the spoolid. st is the file's state. A file
// with a second name, and one that cannot be changed, stays as it is, too.
func EndFuture(dir int, path string, st *unix.Stat_t) {
	now := time.Now()
	ahead := func(of time.Time) bool { return time.Unix(st.Mtim.Unix()).After(of.Add(clockTolerance)) }
	if !ahead(now) || !ahead(time.Unix(st.Ctim.Unix())) {
		return
	}
	fd, opened, err := open(dir, path, unix.O_RDONLY)
	if err != nil {
		return
	}
	defer Close(fd)
	if at, err := unix.TimeToTimespec(now); err == nil && opened.Nlink == 1 && setTime(fd, at) == nil {
		_ = Fstat(fd, st)
	}
}

// CopyMetadata gives a copy of a message file its modification time (TimeOfCopy), the
// mode of the original and, as root, its owner and group.
func CopyMetadata(to, from *File) error {
	var st unix.Stat_t
	if err := Fstat(from.FD(), &st); err != nil {
		return err
	}
	fd := to.FD()
	at, err := unix.TimeToTimespec(TimeOfCopy(time.Unix(st.Mtim.Unix())))
	if err == nil {
		err = setTime(fd, at)
	}
	if err != nil {
		return err
	}
	if err := fchmod(fd, st.Mode&0o777); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return nil
	}
	return fchown(fd, int(st.Uid), int(st.Gid))
}
