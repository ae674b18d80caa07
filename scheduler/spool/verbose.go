package spool

import (
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Verbose appends a line to the log that a sender asked for, with the rights
// of owner, if that file exists and is the owner's. A relative path is below
// $POSTOFFICE/transport. There is no answer: nobody may be kept waiting by a
// log that is not there.
func (s *Spool) Verbose(path string, owner uint32, line string) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.options.Postoffice, "transport", path)
	}
	line = strings.ReplaceAll(line, "\n", " ") + "\n"
	s.edit(path, func() { appendAs(path, owner, line) })
}

// appendAs does what Verbose says. The rights are those of one thread, which
// ends with the goroutine that is locked to it.
func appendAs(path string, owner uint32, line string) {
	if unix.Geteuid() != 0 || owner == 0 {
		appendLine(path, owner, line)
		return
	}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		runtime.LockOSThread()
		// The call cannot fail, only do nothing; the second asks what it did.
		_ = unix.Setfsuid(int(owner))
		if now, _ := unix.SetfsuidRetUid(-1); now == int(owner) {
			appendLine(path, owner, line)
		}
	}()
	<-finished
}

func appendLine(path string, owner uint32, line string) {
	fd, err := openFile(unix.AT_FDCWD, path, unix.O_WRONLY|unix.O_APPEND, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	// A fifo, or somebody else's file by way of a link, is not what was meant.
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil && regular(&st) && st.Uid == owner {
		_, _ = unix.Write(fd, []byte(line))
	}
}
