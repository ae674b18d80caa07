// Package postoffice has the rules for the files below $POSTOFFICE: who may
// own them, which modes they have, and how they are opened, moved and removed.
// No other package does these things itself.
//
//	below $POSTOFFICE       owner and mode under a root scheduler   who else can reach a name in it
//	transport/, queue/      root, 0750, group of the agents         the group, to read and search
//	transport/N control     root, 0660, the same group              agents with that group
//	queue/N     message     the sender, 0440 and more               the sender through an open descriptor
//	queue/.tmp/             root, 0700                              nobody
//	hold/ postman/ corrupt/ root, 0750                              nobody
//	public/, router/        1777                                    everybody
//
// A control file says what is done with the rights of root, so nobody but root
// may be able to write it. ZMailer's router makes the sender its owner, who may change
// its mode and write into it. A scheduler that runs as root therefore takes over
// another user's control file before it reads a byte of it: the file becomes root's,
// and a lease (fcntl(2), F_SETLEASE) proves that no other process has it open for
// writing. A message belongs to the owner of its message file.
//
// A scheduler that is not root works in a postoffice of its own user. It cannot
// give files away and takes none over: whoever can write there has its rights
// anyway.
//
// Below public/ and router/ everybody can replace a name between two system
// calls. No file there is changed by its name: it is opened without following
// links, examined, and changed through its descriptor.
//
// Paths are relative to an open directory, or to the working directory if
// WorkingDir is given. Errors are those of the system calls, unless a comment
// says otherwise. Every call is repeated when a signal interrupts it.
//
// A test can replace the kernel's file system with one in memory: Mount. For that
// reason, packages that work below $POSTOFFICE use this package not only to open files
// but also to read and write them.
package postoffice

import (
	"golang.org/x/sys/unix"
)

// WorkingDir means the working directory, where a directory is expected.
const WorkingDir = unix.AT_FDCWD

// Open opens a file that child processes do not inherit. It follows no symbolic link
// at the end of path, waits for no fifo and for no lease, and does not update the
// access time, because that costs as much as reading a small file. Only the owner
// and root may ask for this (O_NOATIME), so for other users the file is opened
// without it.
func Open(dir int, path string, flags int) (fd int, err error) {
	fd, err = OpenAt(dir, path, flags|unix.O_NOATIME, 0)
	if err == unix.EPERM {
		fd, err = OpenAt(dir, path, flags, 0)
	}
	return fd, err
}

// OpenAt is like Open, but it does not preserve the access time, and its flags
// may create the file. The umask applies to mode.
func OpenAt(dir int, path string, flags int, mode uint32) (fd int, err error) {
	flags |= unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	return Retry1(func() (int, error) { return openat(dir, path, flags, mode) })
}

// OpenDir opens a directory to read it, or to use names below it. It follows a
// symbolic link, because an administrator may have put a directory elsewhere.
func OpenDir(dir int, path string) (fd int, err error) {
	return Retry1(func() (int, error) {
		return openat(dir, path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
}
