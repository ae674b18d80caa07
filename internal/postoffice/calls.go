package postoffice

// The system calls, each for the kernel or for a mounted disk. A call that a signal interrupted
// is repeated; package os does so by itself, and package unix does not. For a disk, paths
// and buffers are copied: otherwise those of every caller would escape to the
// heap.

import (
	"bytes"
	"math"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// onFile makes a call for an open file.
func onFile(fd int, disk func(d Disk, fd int) error, kernel func(fd int) error) error {
	return Retry(func() error {
		if m := of(fd); m != nil {
			return disk(m.disk, m.diskFD(fd))
		}
		return kernel(fd)
	})
}

// readInto makes a call that reads into b.
func readInto(b []byte, fd int, disk func(d Disk, fd int, b []byte) (int, error), kernel func() (int, error)) (int, error) {
	return Retry1(func() (int, error) {
		if m := of(fd); m != nil {
			buf := make([]byte, min(len(b), 4<<10))
			n, err := disk(m.disk, m.diskFD(fd), buf)
			copy(b, buf[:max(n, 0)])
			return n, err
		}
		return kernel()
	})
}

func openat(dir int, path string, flags int, mode uint32) (int, error) {
	if m := at(dir, path); m != nil {
		fd, err := m.disk.Openat(m.diskFD(dir), strings.Clone(path), flags, mode)
		if err != nil {
			return -1, err
		}
		return m.first + fd, nil
	}
	fd := -1
	err := inHashDir(dir, path, func(dir int, base string) (err error) {
		fd, err = unix.Openat(dir, base, flags, mode)
		return err
	})
	return fd, err
}

// hashed reports whether a path begins with a hash directory, which has one letter.
// Hash directories are never symbolic links: a link that another user made could lead
// out of the postoffice.
func hashed(path string) bool { return len(path) > 2 && path[1] == '/' && path[0] != '.' }

// inHashDir makes a call in the directory of a path with hash directories, if none of them is
// a symbolic link. base is the rest of the path. Other paths stay as they are.
func inHashDir(dir int, path string, call func(dir int, base string) error) error {
	if !hashed(path) {
		return call(dir, path)
	}
	path = strings.TrimRight(path, "/")
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return call(dir, path)
	}
	at, err := unix.Openat2(dir, path[:i], &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	if err == unix.ENOSYS { // Linux before 5.6
		return call(dir, path)
	} else if err != nil {
		return err
	}
	defer unix.Close(at)
	return call(at, path[i+1:])
}

// Close closes a descriptor.
func Close(fd int) error {
	if m := of(fd); m != nil {
		return m.disk.Close(m.diskFD(fd))
	}
	return unix.Close(fd)
}

// Fstat examines an open file.
func Fstat(fd int, st *unix.Stat_t) error {
	if m := of(fd); m != nil {
		return Retry(func() error { return m.fstat(fd, st) })
	}
	return Retry(func() error { return unix.Fstat(fd, st) })
}

// BirthTime returns when an open file was created. Some file systems do not know it.
func BirthTime(fd int) (at unix.Timespec, known bool) {
	if of(fd) != nil {
		return at, false
	}
	var st unix.Statx_t
	err := Retry(func() error {
		return unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &st)
	})
	return unix.Timespec{Sec: st.Btime.Sec, Nsec: int64(st.Btime.Nsec)}, err == nil && st.Mask&unix.STATX_BTIME != 0
}

func (m *mount) fstat(fd int, st *unix.Stat_t) error {
	found, err := m.disk.Fstat(m.diskFD(fd))
	*st = found
	return err
}

func fstatat(dir int, path string, st *unix.Stat_t) error {
	if m := at(dir, path); m != nil {
		found, err := m.disk.Fstatat(m.diskFD(dir), strings.Clone(path))
		*st = found
		return err
	}
	return inHashDir(dir, path, func(dir int, base string) error {
		return unix.Fstatat(dir, base, st, unix.AT_SYMLINK_NOFOLLOW)
	})
}

// Read reads at the descriptor's file offset.
func Read(fd int, b []byte) (int, error) {
	return readInto(b, fd, Disk.Read, func() (int, error) { return unix.Read(fd, b) })
}

// Pread reads at an offset. It may read less than there is.
func Pread(fd int, b []byte, offset int64) (int, error) {
	onDisk := func(d Disk, fd int, b []byte) (int, error) { return d.Pread(fd, b, offset) }
	return readInto(b, fd, onDisk, func() (int, error) { return unix.Pread(fd, b, offset) })
}

// Write writes at the descriptor's file offset. It may write less, if the disk is
// full.
func Write(fd int, b []byte) (int, error) {
	return Retry1(func() (int, error) {
		if m := of(fd); m != nil {
			return m.disk.Write(m.diskFD(fd), bytes.Clone(b))
		}
		return unix.Write(fd, b)
	})
}

// Pwrite writes at an offset. It may write less, if the disk is full.
func Pwrite(fd int, b []byte, offset int64) (int, error) {
	return Retry1(func() (int, error) {
		if m := of(fd); m != nil {
			return m.disk.Pwrite(m.diskFD(fd), bytes.Clone(b), offset)
		}
		return unix.Pwrite(fd, b, offset)
	})
}

// Append writes at the end of a file that is open without O_APPEND, in one
// write, and moves the descriptor's file offset to the new end. It may write
// less, if the disk is full.
func Append(fd int, b []byte) (n int, err error) {
	if m := of(fd); m != nil {
		return Retry1(func() (int, error) { return m.disk.Append(m.diskFD(fd), bytes.Clone(b)) })
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return 0, err
	}
	// O_APPEND is set only for this write: with it, pwrite would append as well.
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags|unix.O_APPEND); err != nil {
		return 0, err
	}
	n, err = Retry1(func() (int, error) { return unix.Write(fd, b) })
	if _, e := unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags); err == nil {
		err = e
	}
	return max(n, 0), err
}

// Seek moves the descriptor's file offset: lseek(2).
func Seek(fd int, offset int64, whence int) (int64, error) {
	if m := of(fd); m != nil {
		return m.disk.Seek(m.diskFD(fd), offset, whence)
	}
	return unix.Seek(fd, offset, whence)
}

// Truncate changes the size of an open file.
func Truncate(fd int, size int64) error {
	return onFile(fd, func(d Disk, fd int) error { return d.Ftruncate(fd, size) }, func(fd int) error { return unix.Ftruncate(fd, size) })
}

// Sync makes an open file, or the names in an open directory, durable.
func Sync(fd int) error { return onFile(fd, Disk.Fsync, unix.Fsync) }

// SyncData makes the content of an open file durable, with its size.
func SyncData(fd int) error { return onFile(fd, Disk.Fsync, unix.Fdatasync) }

// SyncAll makes the whole file system of an open file durable.
func SyncAll(fd int) error { return onFile(fd, Disk.Syncfs, unix.Syncfs) }

// Getdents reads the next entries of an open directory, as getdents64(2) writes
// them.
func Getdents(fd int, b []byte) (int, error) {
	return readInto(b, fd, Disk.Getdents, func() (int, error) { return unix.Getdents(fd, b) })
}

// Statfs reads how much space the file system of a path has.
func Statfs(path string) (unix.Statfs_t, error) {
	return Retry1(func() (st unix.Statfs_t, err error) {
		if m := at(WorkingDir, path); m != nil {
			return m.disk.Statfs(strings.Clone(path))
		}
		err = unix.Statfs(path, &st)
		return st, err
	})
}

// FreeSpace returns how many bytes and inodes users other than root may still use on the
// file system of a path. One without a fixed number of inodes has math.MaxUint64.
func FreeSpace(path string) (free int64, inodes uint64, err error) {
	st, err := Statfs(path)
	if err != nil {
		return 0, 0, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	inodes = st.Ffree
	if st.Files == 0 {
		inodes = math.MaxUint64
	}
	return int64(st.Bavail) * max(st.Frsize, 1), inodes, nil
}

func removeACL(fd int) error {
	if of(fd) != nil {
		return nil
	}
	err := unix.Fremovexattr(fd, "system.posix_acl_access")
	if err == unix.ENODATA || err == unix.EOPNOTSUPP {
		return nil
	}
	return err
}

func fchmod(fd int, mode uint32) error {
	return onFile(fd, func(d Disk, fd int) error { return d.Fchmod(fd, mode) }, func(fd int) error { return unix.Fchmod(fd, mode) })
}

func fchown(fd, uid, gid int) error {
	return onFile(fd, func(d Disk, fd int) error { return d.Fchown(fd, uid, gid) }, func(fd int) error { return unix.Fchown(fd, uid, gid) })
}

// setTime sets the modification time of an open file.
func setTime(fd int, at unix.Timespec) error {
	return onFile(fd, func(d Disk, fd int) error { return d.SetTime(fd, at) }, func(fd int) error {
		return unix.UtimesNanoAt(WorkingDir, "/proc/self/fd/"+strconv.Itoa(fd), []unix.Timespec{at, at}, 0)
	})
}

func mkdirat(dir int, path string, mode uint32) error {
	return Retry(func() error {
		if m := at(dir, path); m != nil {
			return m.disk.Mkdirat(m.diskFD(dir), strings.Clone(path), mode)
		}
		return inHashDir(dir, path, func(dir int, base string) error { return unix.Mkdirat(dir, base, mode) })
	})
}

func unlinkat(dir int, path string) error {
	return Retry(func() error {
		if m := at(dir, path); m != nil {
			return m.disk.Unlinkat(m.diskFD(dir), strings.Clone(path))
		}
		return inHashDir(dir, path, func(dir int, base string) error { return unix.Unlinkat(dir, base, 0) })
	})
}

func renameat(fromDir int, from string, toDir int, to string, flags uint) error {
	return Retry(func() error {
		m, other := at(fromDir, from), at(toDir, to)
		switch {
		case m != other:
			return unix.EXDEV
		case m != nil:
			keep := flags&unix.RENAME_NOREPLACE != 0
			return m.disk.Renameat(m.diskFD(fromDir), strings.Clone(from), m.diskFD(toDir), strings.Clone(to), keep)
		}
		return inHashDir(fromDir, from, func(fromDir int, from string) error {
			return inHashDir(toDir, to, func(toDir int, to string) error {
				return unix.Renameat2(fromDir, from, toDir, to, flags)
			})
		})
	})
}

// MaxTries bounds the repetitions. Signals do not interrupt a call that often in a row.
// A file system that returns EINTR more often is at fault, and repeating the call for
// ever would keep a processor busy and its worker from all other files.
const MaxTries = 1000

// Retry calls f until its error is not EINTR, at most MaxTries times.
func Retry(f func() error) error {
	_, err := Retry1(func() (struct{}, error) { return struct{}{}, f() })
	return err
}

// Retry1 is Retry for a call with a result, such as a descriptor or a number
// of bytes.
func Retry1[T any](f func() (T, error)) (v T, err error) {
	for range MaxTries {
		if v, err = f(); err != unix.EINTR {
			return v, err
		}
	}
	return v, err
}
