package ctlfile

// Verbose logs: writing to the file that a v line names.

import (
	"strconv"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
)

// AppendVerbose appends a line, with its LF, to the file that a v line names. The
// submitter of the message can name any file. So AppendVerbose writes only to a regular
// file that belongs to owner, who must be the owner of the message file: otherwise root
// would write into other users' files. It checks this before it opens the file, because
// opening alone can have an effect, on a device for example. It does not create the
// file, does not follow a symbolic link, and does not wait for a fifo or a lease. It
// ignores errors, because the log must not delay the delivery.
func AppendVerbose(path string, owner uint32, line string) {
	found, err := postoffice.Retry1(func() (int, error) {
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
	fd, err := postoffice.Retry1(func() (int, error) {
		return unix.Open("/proc/self/fd/"+strconv.Itoa(found), flags, 0)
	})
	if err == nil {
		_, _ = unix.Write(fd, []byte(line))
		_ = unix.Close(fd)
	}
}
