package spool

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// narrower makes the watch deaf to what agents and we ourselves do to files
// all day. fsnotify asks the kernel for every kind of event and offers no way
// to ask for fewer; but each tag that is written and each file that is
// unlinked is then an event to make, read and drop, which costs a sixth of all
// processor time in a busy queue. The kernel lets anyone who has the inotify
// descriptor change what is watched for. Where we cannot get at it, all events
// come, and are dropped.
type narrower struct {
	fd int // a duplicate of fsnotify's descriptor, or -1
}

// narrowEvents are the events that say that a name is new, and those by which
// fsnotify knows that a directory is gone.
const narrowEvents = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR

// newNarrower finds the inotify descriptor of this process that watches a
// directory, by what /proc says of each.
func newNarrower(dir string) narrower {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return narrower{-1}
	}
	list, _ := os.ReadDir("/proc/self/fd")
	for _, entry := range list {
		if what, _ := os.Readlink("/proc/self/fd/" + entry.Name()); what != "anon_inode:inotify" {
			continue
		}
		text, _ := os.ReadFile("/proc/self/fdinfo/" + entry.Name())
		if !strings.Contains(string(text), fmt.Sprintf(" ino:%x sdev:", st.Ino)) {
			continue
		}
		n, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if fd, err := unix.FcntlInt(uintptr(n), unix.F_DUPFD_CLOEXEC, 0); err == nil {
			return narrower{fd}
		}
	}
	return narrower{-1}
}

// narrow cuts down what a directory is watched for that fsnotify watches.
func (n narrower) narrow(dir string) {
	if n.fd >= 0 {
		_, _ = unix.InotifyAddWatch(n.fd, dir, narrowEvents)
	}
}

func (n narrower) close() {
	if n.fd >= 0 {
		unix.Close(n.fd)
	}
}
