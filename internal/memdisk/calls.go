package memdisk

// The system calls: postoffice.Disk.

import (
	"encoding/binary"
	"fmt"
	"maps"
	pathpkg "path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func sortedNames(names map[string]*node) []string { return slices.Sorted(maps.Keys(names)) }

// begin begins a call and returns the error that it fails with, if any. The lock
// must be held.
func (d *Disk) begin(kind callKind, what string) error {
	if d.off {
		return unix.EIO
	}
	d.calls++
	changes := kind != reading && kind != opening
	if changes && d.cutAt > 0 && d.cutStep(what) {
		if d.cutAt--; d.cutAt == 0 {
			d.powerOff(what)
			return unix.EIO
		}
	}
	err := d.fault(kind)
	if changes {
		if err != nil {
			what += ": " + err.Error()
		}
		d.trace = append(d.trace, what)
	}
	return err
}

// walk returns the node that a path below dir names; parent and base say where
// it is or would be. parent is nil for the root.
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
		parent, base, n = n, word, n.names[word]
	}
	return parent, base, n, nil
}

func (d *Disk) handle(fd int) (*handle, error) {
	h := d.open[fd]
	if h == nil {
		return nil, unix.EBADF
	}
	return h, nil
}

// label names a file for a list of calls.
func (d *Disk) label(dir int, path string) string {
	if strings.HasPrefix(path, "/") {
		return strings.Trim(strings.TrimPrefix(pathpkg.Clean(path)+"/", d.prefix), "/")
	}
	if name := d.labelFD(dir); name != "" {
		return name + "/" + path
	}
	return path
}

func (d *Disk) labelFD(fd int) string {
	if h := d.open[fd]; h != nil {
		return h.name
	}
	return ""
}

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
	d.journal = append(d.journal, &change{d.changes, n, sets})
}

// Close closes a descriptor: close(2). It never fails.
func (d *Disk) Close(fd int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, fd)
	return nil
}

// Read reads at the descriptor's file offset: read(2).
func (d *Disk) Read(fd int, b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h, err := d.handle(fd)
	if err == nil {
		err = d.begin(reading, "read "+d.labelFD(fd))
	}
	if err != nil {
		return -1, err
	}
	n := copy(b, h.node.state.data[min(h.offset, int64(len(h.node.state.data))):])
	h.offset += int64(n)
	return n, nil
}

// Pread reads at an offset: pread(2).
func (d *Disk) Pread(fd int, b []byte, offset int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h, err := d.handle(fd)
	if err == nil {
		err = d.begin(reading, "read "+d.labelFD(fd))
	}
	if err != nil {
		return -1, err
	}
	return copy(b, h.node.state.data[min(offset, int64(len(h.node.state.data))):]), nil
}

// Write writes at the descriptor's file offset: write(2).
func (d *Disk) Write(fd int, b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h, err := d.handle(fd)
	if err != nil {
		return -1, err
	}
	n, err := d.write(fd, h, b, h.offset)
	h.offset += int64(max(n, 0))
	return n, err
}

// Pwrite writes at an offset: pwrite(2).
func (d *Disk) Pwrite(fd int, b []byte, offset int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h, err := d.handle(fd)
	if err != nil {
		return -1, err
	}
	return d.write(fd, h, b, offset)
}

// Append writes at the end of the file.
func (d *Disk) Append(fd int, b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h, err := d.handle(fd)
	if err != nil {
		return -1, err
	}
	end := int64(len(h.node.state.data))
	n, err := d.write(fd, h, b, end)
	h.offset = end + int64(max(n, 0))
	return n, err
}

func (d *Disk) write(fd int, h *handle, b []byte, offset int64) (int, error) {
	what := fmt.Sprintf("write %s %d+%d", d.labelFD(fd), offset, len(b))
	on := !d.off
	err := d.begin(writing, what)
	if on && d.off && len(b) > 0 {
		// The power fails in the middle of the write.
		d.put(h.node, b[:d.rand.IntN(len(b)+1)], offset)
	}
	if err != nil {
		return -1, err
	}
	if h.flags&unix.O_ACCMODE == unix.O_RDONLY {
		return -1, unix.EBADF
	}
	grows := offset + int64(len(b)) - int64(len(h.node.state.data))
	if room := d.room(); grows > room {
		fits := int64(len(b)) - (grows - max(room, 0))
		if fits <= 0 {
			return -1, unix.ENOSPC
		}
		b = b[:fits]
	}
	d.put(h.node, b, offset)
	return len(b), nil
}

func (d *Disk) put(n *node, b []byte, offset int64) {
	if len(b) == 0 {
		return
	}
	data := append([]byte(nil), n.state.data...)
	data = resized(data, max(int64(len(data)), offset+int64(len(b))))
	copy(data[offset:], b)
	d.used += int64(len(data) - len(n.state.data))
	n.state.data = data
	n.state.mtime = time.Now()
	n.state.ctime = n.state.mtime
	n.writes = append(n.writes, write{offset: offset, data: b})
}

func (d *Disk) resize(n *node, size int64) {
	d.used += size - int64(len(n.state.data))
	n.state.data = resized(n.state.data, size)
	n.state.mtime = time.Now()
	n.state.ctime = n.state.mtime
	n.writes = append(n.writes, write{offset: size})
}

// Seek moves the descriptor's file offset: lseek(2).
func (d *Disk) Seek(fd int, offset int64, whence int) (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h, err := d.handle(fd)
	if err != nil {
		return -1, err
	}
	switch whence {
	case unix.SEEK_SET:
		h.offset = offset
	case unix.SEEK_CUR:
		h.offset += offset
	default:
		h.offset = int64(len(h.node.state.data)) + offset
	}
	h.listed, h.list = false, nil
	return h.offset, nil
}

// Ftruncate changes the size of a file: ftruncate(2).
func (d *Disk) Ftruncate(fd int, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	h, err := d.handle(fd)
	if err == nil {
		err = d.begin(writing, "truncate "+d.labelFD(fd))
	}
	if err == nil {
		d.resize(h.node, size)
	}
	return err
}

// Fsync makes a file, or the names in a directory, durable: fsync(2).
func (d *Disk) Fsync(fd int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	h, err := d.handle(fd)
	if err != nil {
		return err
	}
	if err := d.begin(syncing, "sync "+d.labelFD(fd)); err != nil {
		if err != unix.EINTR && !d.off {
			for i := range h.node.writes {
				h.node.writes[i].abandoned = true
			}
		}
		return err
	}
	d.syncNode(h.node)
	if h.node.isDir() {
		d.syncNames(h.node)
	}
	return nil
}

// Syncfs makes everything durable: syncfs(2).
func (d *Disk) Syncfs(fd int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.handle(fd); err != nil {
		return err
	}
	if err := d.begin(syncing, "sync everything"); err != nil {
		return err
	}
	done := d.journal
	d.journal = nil
	for _, c := range done {
		c.apply()
	}
	for _, c := range done {
		d.reuse(c.node)
	}
	d.syncTree(d.root)
	return nil
}

func (d *Disk) syncTree(n *node) {
	d.syncNode(n)
	for _, child := range n.names {
		d.syncTree(child)
	}
}

// Getdents reads entries of a directory: getdents64(2).
func (d *Disk) Getdents(fd int, b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h, err := d.handle(fd)
	if err == nil {
		err = d.begin(reading, "list "+d.labelFD(fd))
	}
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

// Statfs returns how much space the disk has: statfs(2).
func (d *Disk) Statfs(path string) (st unix.Statfs_t, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.begin(reading, "statfs"); err != nil {
		return st, err
	}
	room := uint64(max(d.room(), 0)) / sector
	st.Bsize, st.Frsize = sector, sector
	st.Blocks, st.Bfree, st.Bavail = 1<<32, room, room
	st.Files, st.Ffree = 1<<30, 1<<29
	return st, nil
}

// Fstat examines an open file: fstat(2).
func (d *Disk) Fstat(fd int) (st unix.Stat_t, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h, err := d.handle(fd)
	if err == nil {
		err = d.begin(reading, "stat "+d.labelFD(fd))
	}
	if err != nil {
		return st, err
	}
	return h.node.stat(), nil
}

// Fstatat examines a name: fstatat(2).
func (d *Disk) Fstatat(dir int, path string) (st unix.Stat_t, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.begin(reading, "stat "+d.label(dir, path)); err != nil {
		return st, err
	}
	_, _, n, err := d.walk(dir, path)
	switch {
	case err != nil:
		return st, err
	case n == nil:
		return st, unix.ENOENT
	}
	return n.stat(), nil
}

func (n *node) stat() unix.Stat_t {
	mtime, _ := unix.TimeToTimespec(n.state.mtime)
	ctime, _ := unix.TimeToTimespec(n.state.ctime)
	return unix.Stat_t{
		Dev: 1, Ino: n.ino, Nlink: uint64(n.links), Mode: n.state.mode, Uid: n.state.uid, Gid: n.state.gid,
		Size: int64(len(n.state.data)), Atim: mtime, Mtim: mtime, Ctim: ctime,
	}
}

// Fchmod sets the mode of an open file: fchmod(2).
func (d *Disk) Fchmod(fd int, mode uint32) error {
	return d.setAttributes(fd, "chmod", func(s *state) { s.mode = s.mode&unix.S_IFMT | mode&0o7777 })
}

// Fchown sets the owner and the group of an open file: fchown(2).
func (d *Disk) Fchown(fd, uid, gid int) error {
	return d.setAttributes(fd, "chown", func(s *state) {
		if uid >= 0 {
			s.uid = uint32(uid)
		}
		if gid >= 0 {
			s.gid = uint32(gid)
		}
	})
}

// SetTime sets the modification time of an open file.
func (d *Disk) SetTime(fd int, at unix.Timespec) error {
	return d.setAttributes(fd, "utimes", func(s *state) { s.mtime = time.Unix(at.Unix()) })
}

func (d *Disk) setAttributes(fd int, call string, set func(*state)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	h, err := d.handle(fd)
	if err == nil {
		err = d.begin(writing, call+" "+d.labelFD(fd))
	}
	if err == nil {
		set(&h.node.state)
		h.node.state.ctime = time.Now()
	}
	return err
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
