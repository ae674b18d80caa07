package ctlfile

// Opening control files and message files, and writing to a v line's file.

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"

	"zsched/internal/eintr"
)

// OpenQuietly calls open with these flags so that reading the file leaves its
// access time alone, which would cost as much again as the reading. The system
// permits that only to the file's owner and to root (open(2), O_NOATIME); for
// others the file is opened without it.
func OpenQuietly(flags int, open func(flags int) (fd int, err error)) (fd int, err error) {
	fd, err = open(flags | unix.O_NOATIME)
	if errors.Is(err, unix.EPERM) {
		return open(flags)
	}
	return fd, err
}

// AppendVerbose appends a line, with its LF, to the file that a v line names.
// The submitter chose that name and may name any file. The line is therefore
// written only if the file is a regular one that belongs to owner, who owns the
// message file too: otherwise a process of root would write into the files of
// others. That is found out before the file is opened, because opening alone can
// have an effect, on a device for example. The file is not created, a symbolic
// link is not followed, and neither a fifo nor a lease is waited for. Errors are
// ignored: the log must not delay the delivery.
func AppendVerbose(path string, owner uint32, line string) {
	found, err := eintr.Retry1(func() (int, error) {
		return unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return
	}
	defer unix.Close(found)
	var st unix.Stat_t
	if unix.Fstat(found, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Uid != owner {
		return
	}
	// This opens the file that was looked at, whatever path names by now.
	const flags = unix.O_WRONLY | unix.O_APPEND | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, err := eintr.Retry1(func() (int, error) {
		return unix.Open("/proc/self/fd/"+strconv.Itoa(found), flags, 0)
	})
	if err == nil {
		_, _ = unix.Write(fd, []byte(line))
		_ = unix.Close(fd)
	}
}
