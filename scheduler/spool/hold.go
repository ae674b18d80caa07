package spool

// Held messages: their files lie under hold/, where ZMailer's scheduler does not see them.

import (
	"strings"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
)

// underHold begins the Path of a control file below hold/transport/, in names and in
// operations. Any other path is below transport/.
const underHold = "hold/"

// placeOf returns the place of a control file, and its path there.
func placeOf(path string) (p Place, inPlace string) {
	if rest, found := strings.CutPrefix(path, underHold); found {
		return Hold, rest
	}
	return Queue, path
}

// PathInPlace returns the path of a control file without "hold/".
func PathInPlace(path string) string {
	_, path = placeOf(path)
	return path
}

// Hold moves a message from the queue to hold/. Only Release brings it back. The
// result is Moved.
func (s *Spool) Hold(op uint64, path string) { s.Move(op, path, Queue, Hold) }

// Release moves a message from hold/ back to the queue, message file first. The result is
// Moved.
func (s *Spool) Release(op uint64, path string) { s.Move(op, path, Hold, Queue) }

// prepareReleased gives the message file of a message that was released, and that another
// program may have put under hold/, the owner and the time that messages in the queue have.
func (at *places) prepareReleased(path string) {
	queue := at.pairs[Queue].queue
	var st unix.Stat_t
	if postoffice.Stat(queue, path, &st) == nil && postoffice.IsRegular(&st) {
		at.control.ShareMessage(queue, path, &st)
		postoffice.EndFuture(queue, path, &st)
	}
}
