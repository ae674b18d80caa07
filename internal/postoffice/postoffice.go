// Package postoffice has the rules for the files below $POSTOFFICE: who may
// own them, which modes they have, and how they are opened and moved.
//
//	below $POSTOFFICE       owner and mode under a root scheduler   who else can reach a name in it
//	transport/, queue/      root, 0750, group of the agents         the group, to read and search
//	transport/N control     root, 0660, the same group              agents with that group
//	queue/N     message     the sender, 0440 and more               the sender through an open descriptor
//	public/, router/        1777                                    everybody
//	hold/ postman/ corrupt/ root, 0750                              nobody
//
// A control file says what is done with the rights of root, so nobody but root
// may be able to write it. The old router leaves it to the sender, who may
// change its mode and write into it. A root scheduler therefore takes a control
// file of another user over before it reads a byte of it: the file becomes
// root's, and a lease (fcntl(2), F_SETLEASE) proves that nobody still has it
// open for writing. A message belongs to the owner of its message file.
//
// A scheduler that is not root works in a postoffice of its own user. It can
// give no file away and takes none over: whoever can write there has its rights
// anyway.
//
// Below public/ and router/ everybody can replace a name between two system
// calls. Nothing there is changed by name: a file is opened without following
// links, looked at, and changed through its descriptor.
package postoffice

import (
	"golang.org/x/sys/unix"

	"zsched/internal/eintr"
)

// OpenAt opens a file for the calling process alone. It follows no symbolic
// link at the end of path, waits for no fifo and for nobody's lease, and tries
// again when a signal interrupts it.
func OpenAt(dir int, path string, flags int, mode uint32) (int, error) {
	return eintr.Retry1(func() (int, error) {
		return unix.Openat(dir, path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, mode)
	})
}

// openQuietly is OpenAt that leaves the access time alone, which costs as much
// again as reading a small file. Only the owner and root may (O_NOATIME).
func openQuietly(dir int, path string, flags int) (int, error) {
	fd, err := OpenAt(dir, path, flags|unix.O_NOATIME, 0)
	if err == unix.EPERM {
		return OpenAt(dir, path, flags, 0)
	}
	return fd, err
}
