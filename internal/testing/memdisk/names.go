package memdisk

// Paths, and the system calls on names: opening, creating, listing, moving and removing.

import (
	"encoding/binary"
	"maps"
	pathpkg "path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// walk returns the node that a path names, nil if there is none. A relative path begins at
// the open directory dir. parent and base are the directory that contains the node, or
// could contain it, and its name there. parent is nil for the root and for a path that
// ends with "..".
func (d *Disk) walk(dir int, path string) (parent *node, base string, n *node, err error) {
	at := d.root
	if strings.HasPrefix(path, "/") {
		path = pathpkg.Clean(path)
		if path+"/" == d.prefix {
			return nil, "", d.root, nil
		}
		path = strings.TrimPrefix(path, d.prefix)
	} else {
		h := d.open[dir]
		if h == nil {
			return nil, "", nil, unix.EBADF
		}
		at = h.node
	}
	n = at
	for word := range strings.SplitSeq(path, "/") {
		if word == "" || word == "." {
			continue
		}
		if n == nil {
			return nil, "", nil, unix.ENOENT
		}
		if !n.isDir() {
			return nil, "", nil, unix.ENOTDIR
		}
		if word == ".." {
			parent, base, n = nil, "", d.root.parentOf(n)
			continue
		}
		parent, base, n = n, word, n.names[word]
	}
	return parent, base, n, nil
}

// parentOf returns the directory that contains child: n or one below it; nil if there is
// none.
func (n *node) parentOf(child *node) *node {
	for _, is := range n.names {
		if is == child {
			return n
		}
	}
	for _, is := range n.names {
		if found := is.parentOf(child); found != nil {
			return found
		}
	}
	return nil
}

// label names a file for a list of calls.
func (d *Disk) label(dir int, path string) string {
	if strings.HasPrefix(path, "/") {
		return strings.Trim(strings.TrimPrefix(pathpkg.Clean(path)+"/", d.prefix), "/")
	}
	if h := d.open[dir]; h != nil && strings.HasPrefix(path, "../") {
		return pathpkg.Join(h.name, path)
	} else if h != nil && h.name != "" {
		return h.name + "/" + path
	}
	return path
}

func sortedNames(names map[string]*node) []string { return slices.Sorted(maps.Keys(names)) }

// Openat opens a file: open(2).
func (d *Disk) Openat(dir int, path string, flags int, mode uint32) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	kind := opening
	if flags&(unix.O_CREAT|unix.O_TRUNC) != 0 {
		kind = creating
	}
	if err := d.begin(kind, "open "+d.label(dir, path)); err != nil {
		return -1, err
	}
	parent, base, n, err := d.walk(dir, path)
	switch {
	case err != nil:
		return -1, err
	case n == nil && flags&unix.O_CREAT == 0:
		return -1, unix.ENOENT
	case n != nil && flags&unix.O_CREAT != 0 && flags&unix.O_EXCL != 0:
		return -1, unix.EEXIST
	case n != nil && flags&unix.O_DIRECTORY != 0 && !n.isDir():
		return -1, unix.ENOTDIR
	case n != nil && n.isDir() && flags&unix.O_ACCMODE != unix.O_RDONLY:
		return -1, unix.EISDIR
	case n == nil:
		n = d.newNode(unix.S_IFREG | mode&0o777)
		d.rename(n, nameSet{parent, base, n})
	case flags&unix.O_TRUNC != 0 && len(n.state.data) > 0:
		d.resize(n, 0)
	}
	d.nextFD++
	d.open[d.nextFD] = &handle{node: n, flags: flags, name: strings.TrimSuffix(d.label(dir, path), "/")}
	return d.nextFD, nil
}

// rename sets or removes names of a node, and records the change in the journal.
func (d *Disk) rename(n *node, sets ...nameSet) {
	now := time.Now()
	for _, s := range sets {
		if old := s.dir.names[s.name]; old != nil {
			if old.links--; old.links == 0 {
				d.used -= int64(len(old.state.data))
			}
		}
		if s.node == nil {
			delete(s.dir.names, s.name)
		} else {
			s.dir.names[s.name] = s.node
			s.node.links++
		}
		s.dir.state.mtime, s.dir.state.ctime = now, now
	}
	n.state.ctime = now
	d.changes++
	d.journal = append(d.journal, &change{number: d.changes, node: n, sets: sets})
}

// Mkdirat makes a directory: mkdirat(2).
func (d *Disk) Mkdirat(dir int, path string, mode uint32) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.begin(creating, "mkdir "+d.label(dir, path)); err != nil {
		return err
	}
	parent, base, n, err := d.walk(dir, path)
	switch {
	case err != nil:
		return err
	case n != nil || parent == nil:
		return unix.EEXIST
	}
	n = d.newNode(unix.S_IFDIR | mode&0o7777)
	d.rename(n, nameSet{parent, base, n})
	return nil
}

// Unlinkat removes a name: unlinkat(2).
func (d *Disk) Unlinkat(dir int, path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.begin(naming, "unlink "+d.label(dir, path)); err != nil {
		return err
	}
	parent, base, n, err := d.walk(dir, path)
	switch {
	case err != nil:
		return err
	case n == nil:
		return unix.ENOENT
	case n.isDir():
		return unix.EISDIR
	}
	d.rename(n, nameSet{parent, base, nil})
	return nil
}

// Renameat gives a file another name: renameat2(2).
func (d *Disk) Renameat(fromDir int, from string, toDir int, to string, keep bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.begin(naming, "rename "+d.label(fromDir, from)+" "+d.label(toDir, to)); err != nil {
		return err
	}
	fromParent, fromBase, n, err := d.walk(fromDir, from)
	if err != nil {
		return err
	}
	toParent, toBase, there, err := d.walk(toDir, to)
	switch {
	case err != nil:
		return err
	case n == nil:
		return unix.ENOENT
	case there != nil && keep:
		return unix.EEXIST
	case there == n:
		return nil
	case there != nil && there.isDir():
		return unix.EISDIR
	}
	d.rename(n, nameSet{toParent, toBase, n}, nameSet{fromParent, fromBase, nil})
	return nil
}

// Getdents reads entries of a directory: getdents64(2).
func (d *Disk) Getdents(fd int, b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h, err := d.beginOn(fd, reading, "list")
	if err != nil {
		return -1, err
	}
	if !h.node.isDir() {
		return -1, unix.ENOTDIR
	}
	if !h.listed {
		// The order is random, as in a hashed directory.
		h.list, h.listed = sortedNames(h.node.names), true
		d.rand.Shuffle(len(h.list), func(i, j int) { h.list[i], h.list[j] = h.list[j], h.list[i] })
	}
	const header = 19 // ino 8, off 8, reclen 2, type 1
	used := 0
	for len(h.list) > 0 {
		name := h.list[0]
		n := h.node.names[name]
		length := (header + len(name) + 1 + 7) &^ 7
		if n != nil && used+length > len(b) {
			break
		}
		h.list = h.list[1:]
		if n == nil {
			continue
		}
		entry := b[used : used+length]
		clear(entry)
		binary.NativeEndian.PutUint64(entry, n.ino)
		binary.NativeEndian.PutUint16(entry[16:], uint16(length))
		entry[18] = unix.DT_REG
		if n.isDir() {
			entry[18] = unix.DT_DIR
		}
		copy(entry[header:], name)
		used += length
	}
	return used, nil
}
