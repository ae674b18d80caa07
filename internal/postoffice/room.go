package postoffice

// Room: who stops first when the disk is full.

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Room is how much of a file system a program leaves free for those after it. The programs
// that bring mail stop first, and those that end it last: so a disk that mail has filled
// becomes empty by itself.
//
//	who writes                            stops when less is free than
//	smtpserver                            min-free, and 1000 inodes
//	sendmail, xferd                       ForArrivals
//	router, but for notices               ForQueueing
//	scheduler, notices                    ForNotices
//	router, mail with a null sender       nothing: it leads to no further mail
type Room struct {
	Bytes  int64
	Inodes uint64
}

// What programs leave free.
var (
	ForArrivals = Room{2 << 20, 256}
	ForQueueing = Room{1 << 20, 128}
	ForNotices  = Room{256 << 10, 8} // less than half of the reserve of package spool
)

// IsNoRoom reports whether an error says that a file system, or what a user may have of it, is full.
func IsNoRoom(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// Plus returns the room that is needed if some more files are written.
func (r Room) Plus(bytes int64, files int) Room {
	return Room{r.Bytes + bytes, r.Inodes + uint64(files)}
}

// Check returns an error that wraps ENOSPC if the file system of a path has less room. If that
// cannot be found out, it returns nil, and the write itself will tell.
func (r Room) Check(path string) error {
	free, inodes, err := FreeSpace(path)
	if err != nil || free >= r.Bytes && inodes >= r.Inodes {
		return nil
	}
	return fmt.Errorf("%d bytes and %d inodes are free, and %d and %d are kept: %w", free, inodes, r.Bytes, r.Inodes, unix.ENOSPC)
}
