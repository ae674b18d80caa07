package spool

// Verbose logs, for which senders ask with a v line.

import (
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
)

// Verbose appends a line to the log that a v line names, with the rights of owner,
// as ctlfile.AppendVerbose does. A relative path is below $POSTOFFICE/transport.
// There is no result: a log that does not work must not delay anything.
func (s *Spool) Verbose(path string, owner uint32, line string) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.options.Postoffice, "transport", path)
	}
	line = strings.ReplaceAll(line, "\n", " ") + "\n"
	s.edit(path, func() { appendAs(path, owner, line) })
}

// appendAs does the work of Verbose. It changes the rights of one thread of the
// process, which ends with the goroutine that is locked to it.
func appendAs(path string, owner uint32, line string) {
	if unix.Geteuid() != 0 || owner == 0 {
		ctlfile.AppendVerbose(path, owner, line)
		return
	}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		runtime.LockOSThread()
		// The call returns no error; the second call returns the uid now in force.
		_ = unix.Setfsuid(int(owner))
		if now, _ := unix.SetfsuidRetUid(-1); now == int(owner) {
			ctlfile.AppendVerbose(path, owner, line)
		}
	}()
	<-finished
}
