package spool

// Walks: reading a directory and its hash directories for numbered files.

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
)

const (
	// direntBytes is how much of a directory is read at once.
	direntBytes = 32 << 10
	// maxDepth is how many levels of hash directories there are.
	maxDepth = 2
)

// walker reads directories as a stream: it visits the names that one system call has found
// before it makes the next, so that the first names of a large directory are used while the
// rest is read. Its functions may be nil, except visit; those that return false end the walk.
type walker struct {
	visit func(n Name) bool   // a numbered file
	enter func(prefix string) // a hash directory, before it is read
	after func() bool         // the names of one system call were visited
	fail  func(doing, prefix string, err error)

	buffers [maxDepth + 1][]byte
}

// walkBelow walks through a directory below $POSTOFFICE and its hash directories.
func (at *places) walkBelow(dir string, w *walker) bool {
	fd, err := postoffice.OpenDir(at.office, dir)
	if err != nil {
		w.failed("opening", "", err)
		return true
	}
	defer postoffice.Close(fd)
	return w.walk(fd, "", maxDepth)
}

// walk reads an open directory, and the hash directories in it down to depth. prefix begins
// the paths of its names. It returns false if a function has ended the walk.
func (w *walker) walk(fd int, prefix string, depth int) bool {
	if w.buffers[depth] == nil {
		w.buffers[depth] = make([]byte, direntBytes)
	}
	for {
		read, err := getdents(fd, w.buffers[depth])
		if err != nil {
			w.failed("reading", prefix, err)
			return true
		}
		if len(read) == 0 {
			return true
		}
		for e := range read.all() {
			if !w.entry(fd, prefix, depth, e) {
				return false
			}
		}
		if w.after != nil && !w.after() {
			return false
		}
	}
}

func (w *walker) entry(dir int, prefix string, depth int, e dirent) bool {
	if depth == 0 || !isHashDir(e.name) || !isKind(dir, e, unix.DT_DIR) {
		n, ok := named(dir, prefix, e)
		return !ok || w.visit(n)
	}
	sub := prefix + string(e.name) + "/"
	fd, err := postoffice.OpenAt(dir, string(e.name), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		if err != unix.ENOENT { // it was removed
			w.failed("opening", sub, err)
		}
		return true
	}
	defer postoffice.Close(fd)
	if w.enter != nil {
		w.enter(sub)
	}
	return w.walk(fd, sub, depth-1)
}

func (w *walker) failed(doing, prefix string, err error) {
	if w.fail != nil {
		w.fail(doing, prefix, err)
	}
}

// slowWalk visits the numbered files below a directory of the postoffice. It works only a
// twentieth of the time. It ends when visit returns false, or the spool is closed.
func (j *janitor) slowWalk(dir string, visit func(path string) bool) {
	w := &walker{visit: func(n Name) bool { return visit(n.Path) }, fail: func(doing, prefix string, err error) {
		if err != unix.ENOENT {
			j.s.warn(fmt.Sprintf("%s %s/%s: %v", doing, dir, prefix, err))
		}
	}}
	startedAt := time.Now()
	w.after = func() bool {
		open := j.s.pause(restFactor * time.Since(startedAt))
		startedAt = time.Now()
		return open
	}
	j.s.places.walkBelow(dir, w)
}
