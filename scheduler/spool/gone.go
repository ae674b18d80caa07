package spool

// What is gone from its hash directory, and what is only away with it.

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
)

// errGone says that there is no regular file of this name in its directory, which is there.
var errGone = errors.New("no such file")

// errOtherDir says that a hash directory was moved away, and that there is a new one in its place.
// It is an error of the system: trying again may succeed.
var errOtherDir = fmt.Errorf("%w: another one is in its place; if that is to stay, restart the scheduler", unix.ESTALE)

// hashDirs are the hash directories in which messages were found, each as it was at the first.
type hashDirs struct {
	mu  sync.Mutex
	was map[dirName]inode
}

// dirName is a directory below one of the open directories of the places.
type dirName struct {
	at   int // descriptor
	path string
}

type inode struct{ dev, ino uint64 }

// foundIn remembers the directories of a message that was found.
func (at *places) foundIn(path string) {
	place, path := placeOf(path)
	dir := filepath.Dir(path)
	if dir == "." {
		return // open since the start
	}
	at.found.mu.Lock()
	defer at.found.mu.Unlock()
	if at.found.was == nil {
		at.found.was = map[dirName]inode{}
	}
	for _, root := range []int{at.pairs[place].transport, at.pairs[place].queue} {
		name := dirName{root, dir}
		if _, known := at.found.was[name]; known {
			continue
		}
		if fd, id, err := openHashDir(root, dir); err == nil {
			postoffice.Close(fd)
			at.found.was[name] = id
		}
	}
}

func openHashDir(root int, dir string) (fd int, id inode, err error) {
	if fd, err = postoffice.OpenAt(root, dir, unix.O_RDONLY|unix.O_DIRECTORY, 0); err != nil {
		return fd, id, err
	}
	var st unix.Stat_t
	if err = postoffice.Fstat(fd, &st); err != nil {
		postoffice.Close(fd)
	}
	return fd, inode{st.Dev, st.Ino}, err
}

// gone returns the error for a path below root, an open directory, at which a call has found no
// regular file: errGone if its directory has none. A hash directory that is missing, is no
// directory, or is another one than before may come back with its files, so that is an ordinary
// error: nothing is dropped or removed because of it.
func (at *places) gone(root int, path string) error {
	dir, base := filepath.Split(path)
	dir = filepath.Clean(dir)
	in, id, err := openHashDir(root, dir)
	if err != nil {
		return fmt.Errorf("its directory: %w", err)
	}
	defer postoffice.Close(in)
	var st unix.Stat_t
	err = postoffice.Stat(in, base, &st)
	switch {
	case err == unix.ENOENT, err == nil && !postoffice.IsRegular(&st):
	case err == nil: // the directory has come back since that call
		return errChanged
	default:
		return fmt.Errorf("stat: %w", err)
	}
	at.found.mu.Lock()
	was, known := at.found.was[dirName{root, dir}]
	at.found.mu.Unlock()
	if known && id != was {
		return fmt.Errorf("its directory: %w", errOtherDir)
	}
	return errGone
}
