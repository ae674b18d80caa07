package admin

import (
	"path"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/scheduler"
)

// numberOf returns the number in a spoolid, a control file's name or its path.
func numberOf(text string) (scheduler.MessageID, bool) {
	n, ok := ctlfile.Number(strings.TrimPrefix(path.Base(text), "S"))
	return scheduler.MessageID(n), ok
}

// isCalled reports whether a message with that number is meant: inodes are
// reused, spoolids are not.
func isCalled(text string, id scheduler.MessageID, modifiedAt time.Time) bool {
	return !strings.HasPrefix(text, "S") || ctlfile.SpoolID(uint64(id), modifiedAt) == text
}
