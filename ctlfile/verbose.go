package ctlfile

import (
	"golang.org/x/sys/unix"

	"zsched/internal/eintr"
)

// AppendVerbose appends a line, with its LF, to the file that a v line names.
// It is the submitter's, who asked to watch, and he may name any: so it must
// belong to him, the owner of the message file, or he could have a process
// that is root write into another's. It is not made if it is gone, symbolic
// links in that public directory are not followed, a fifo is not waited for,
// and nothing that goes wrong is told: nobody may be kept waiting by a log.
func AppendVerbose(path string, owner uint32, line string) {
	const flags = unix.O_WRONLY | unix.O_APPEND | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, err := eintr.Retry1(func() (int, error) { return unix.Open(path, flags, 0) })
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Uid == owner {
		_, _ = unix.Write(fd, []byte(line))
	}
}
