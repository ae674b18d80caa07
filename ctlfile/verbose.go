package ctlfile

// Verbose logs: writing to the file that a v line names.

import (
	"strconv"

	"golang.org/x/sys/unix"

	"zsched/internal/eintr"
)

// AppendVerbose appends a line, with its LF, to the file that a v line names.
// The submitter chose that name and may name any file. The line is therefore
// written only if the file is a regular one that belongs to owner, who owns the
// message file too: otherwise a process run by root would write into other
// users' files. This is checked before the file is opened, because opening alone
// can have an effect, on a device for example. The file is not created, a
// symbolic link is not followed, and AppendVerbose waits neither for a fifo nor
// for a lease. Errors are ignored: the log must not delay the delivery.
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
	// This opens the file that was checked, whatever path now names.
	const flags = unix.O_WRONLY | unix.O_APPEND | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, err := eintr.Retry1(func() (int, error) {
		return unix.Open("/proc/self/fd/"+strconv.Itoa(found), flags, 0)
	})
	if err == nil {
		_, _ = unix.Write(fd, []byte(line))
		_ = unix.Close(fd)
	}
}
