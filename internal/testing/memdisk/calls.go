package memdisk

// The system calls on open files, and what all system calls share.

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

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
	err := d.fault(kind, what)
	if changes {
		if err != nil {
			what += ": " + err.Error()
		}
		d.trace = append(d.trace, what)
	}
	return err
}

// beginOn begins a call on a descriptor. The lock must be held.
func (d *Disk) beginOn(fd int, kind callKind, call string) (*handle, error) {
	h, err := d.handle(fd)
	if err == nil {
		err = d.begin(kind, call+" "+h.name)
	}
	return h, err
}

func (d *Disk) handle(fd int) (*handle, error) {
	h := d.open[fd]
	if h == nil {
		return nil, unix.EBADF
	}
	return h, nil
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
	h, err := d.beginOn(fd, reading, "read")
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
	h, err := d.beginOn(fd, reading, "read")
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
	n, err := d.write(h, b, h.offset)
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
	return d.write(h, b, offset)
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
	n, err := d.write(h, b, end)
	h.offset = end + int64(max(n, 0))
	return n, err
}

func (d *Disk) write(h *handle, b []byte, offset int64) (int, error) {
	what := fmt.Sprintf("write %s %d+%d", h.name, offset, len(b))
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
	// Files may have had more than Faults.Space when it was set. A write that does not
	// grow its file succeeds even then.
	if room := max(d.room(), 0); grows > room {
		fits := int64(len(b)) - (grows - room)
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
	data := overwritten(append([]byte(nil), n.state.data...), b, offset)
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
	h, err := d.beginOn(fd, writing, "truncate")
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
	if err := d.begin(syncing, "sync "+h.name); err != nil {
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
	h, err := d.beginOn(fd, reading, "stat")
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
	h, err := d.beginOn(fd, writing, call)
	if err == nil {
		set(&h.node.state)
		h.node.state.ctime = time.Now()
	}
	return err
}
