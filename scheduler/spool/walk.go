package spool

// Walks: reading a directory and its hash directories for the names of control files.

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
)

// maxDepth is how many levels of hash directories there are.
const maxDepth = 2

// walker reads directories as a stream, so that the first names of a large directory are used
// before the rest is read. enter may be nil, and visit returns false to end
// the walk.
type walker struct {
	visit func(n Name) bool   // a numbered file, or something else of such a name
	enter func(prefix string) // a hash directory, before it is read
	fail  func(doing, prefix string, err error)
}

// walkBelow walks through a directory below $POSTOFFICE and its hash directories.
func (at *places) walkBelow(dir string, w *walker) bool {
	fd, err := postoffice.OpenDir(at.office, dir)
	if err != nil {
		w.fail("opening", "", err)
		return true
	}
	defer postoffice.Close(fd)
	return w.walk(fd, "", maxDepth)
}

// walk reads an open directory, and the hash directories in it down to depth. prefix begins
// the paths of its names. It returns false if visit has ended the walk.
func (w *walker) walk(fd int, prefix string, depth int) (more bool) {
	more = true
	err := postoffice.EachName(fd, func(name string, _ uint8) bool {
		if depth > 0 && postoffice.IsHashDir(name) {
			more = w.hashDir(fd, prefix, name, depth)
		} else if id, ok := numbered(name); ok {
			more = w.visit(Name{prefix + name, id})
		}
		return more
	})
	if err != nil && err != unix.ENOENT { // it was removed
		w.fail("reading", prefix, err)
	}
	return more
}

// hashDir walks through what may be a hash directory.
func (w *walker) hashDir(dir int, prefix, name string, depth int) bool {
	sub := prefix + name + "/"
	fd, err := postoffice.OpenAt(dir, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	switch err {
	case nil:
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP:
		return true
	default:
		w.fail("opening", sub, err)
		return true
	}
	defer postoffice.Close(fd)
	if w.enter != nil {
		w.enter(sub)
	}
	return w.walk(fd, sub, depth-1)
}

// slowWalk visits the numbered files below a directory of the postoffice. It works only a
// twentieth of the time. It ends when the spool is closed.
func (j *janitor) slowWalk(dir string, visit func(path string)) {
	const together = 500 // names between two pauses
	startedAt, visited := time.Now(), 0
	w := &walker{visit: func(n Name) bool {
		if visited++; visited%together == 0 {
			if !j.s.pause(restFactor * time.Since(startedAt)) {
				return false
			}
			startedAt = time.Now()
		}
		visit(n.Path)
		return true
	}, fail: func(doing, prefix string, err error) {
		j.s.warn(fmt.Sprintf("%s %s/%s: %v", doing, dir, prefix, err))
	}}
	j.s.places.walkBelow(dir, w)
}

// numbered returns the number of a control file's base name. A name with control
// characters has none: it could not be sent to an agent in a job line.
func numbered(base string) (uint64, bool) {
	for i := range len(base) {
		if c := base[i]; c < ' ' || c == 0x7f || c == '/' {
			return 0, false
		}
	}
	return ctlfile.Number(base)
}

// nameOf returns the name of the control file at a path, which is that of a message.
func nameOf(path string) Name {
	_, base := split(path)
	id, _ := ctlfile.Number(base)
	return Name{path, id}
}

// isHashPrefix reports whether a prefix is that of a path below transport/: "", "F/" or "F/F/".
func isHashPrefix(prefix string) bool {
	for i := 0; i < len(prefix); i += 2 {
		if !postoffice.IsHashDir(prefix[i:i+1]) || len(prefix) == i+1 || prefix[i+1] != '/' {
			return false
		}
	}
	return len(prefix) <= 2*maxDepth
}
