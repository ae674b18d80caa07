package spool

// What is gone from its hash directory, and what is only away with it.

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
	"zsched/queue"
)

// errGone says that there is no regular file of this name in its directory, which is there.
var errGone = errors.New("no such file")

// errOtherDir says that a hash directory was moved away, and that there is a new one in its place.
// It is an error of the system: trying again may succeed.
var errOtherDir = fmt.Errorf("%w: another one is in its place", unix.ESTALE)

// hashDirs are the hash directories in which messages were found, or looked for in vain.
type hashDirs struct {
	mu  sync.Mutex
	was map[dirName]*hashDir
	now func() time.Duration // process.SinceBoot; tests replace it
}

// hashDir is a hash directory as it was when mail was first found there.
type hashDir struct {
	inode                    // zero: it was away when it was looked for
	replacedAt time.Duration // when another one was first seen in its place; 0: it is there
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
	for _, root := range []int{at.pairs[place].transport, at.pairs[place].queue} {
		name := dirName{root, dir}
		if _, known := at.found.was[name]; known {
			continue
		}
		if fd, id, err := openHashDir(root, dir); err == nil {
			postoffice.Close(fd)
			at.found.was[name] = &hashDir{inode: id}
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
// directory, or has been another one for less than queue.AwayTime may come back with its files, so that
// is an ordinary error: nothing is dropped or removed because of it.
func (at *places) gone(root int, path string) error {
	dir, base := filepath.Split(path)
	dir = filepath.Clean(dir)
	in, id, err := openHashDir(root, dir)
	if err != nil {
		at.found.isAway(dirName{root, dir})
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
	if at.found.isReplaced(dirName{root, dir}, id) {
		return fmt.Errorf("its directory: %w", errOtherDir)
	}
	return errGone
}

// isAway remembers that a directory is away: what is made in its place is another one.
func (h *hashDirs) isAway(name dirName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.was[name] == nil {
		h.was[name] = &hashDir{}
	}
}

// isReplaced reports whether a directory that is there now has been in the place of another one
// for less than queue.AwayTime. After that it counts as the only one.
func (h *hashDirs) isReplaced(name dirName, id inode) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	dir := h.was[name]
	switch {
	case dir == nil:
		return false
	case dir.inode == id:
		dir.replacedAt = 0
		return false
	case dir.replacedAt == 0:
		dir.replacedAt = h.now()
	case h.now()-dir.replacedAt >= queue.AwayTime:
		*dir = hashDir{inode: id}
		return false
	}
	return true
}
