package spool

// Verbose logs, which senders ask for with a v line.

import (
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
)

// Verbose appends a line to the log that a sender asked for, with the rights
// of owner, as ctlfile.AppendVerbose does. A relative path is below
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
		ctlfile.AppendVerbose(path, owner, line)
		return
	}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		runtime.LockOSThread()
		// The call cannot fail, only do nothing; the second asks what it did.
		_ = unix.Setfsuid(int(owner))
		if now, _ := unix.SetfsuidRetUid(-1); now == int(owner) {
			ctlfile.AppendVerbose(path, owner, line)
		}
	}()
	<-finished
}
