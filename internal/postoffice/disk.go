package postoffice

// The disk: the system calls that this package makes below $POSTOFFICE, and the
// file system in memory that may serve them instead of the kernel.

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Disk is a file system in memory, which replaces the kernel's below one
// directory (Mount). Its methods are the system calls of those names, with the
// same errors, EINTR among them. They keep none of the slices that they are
// given. Descriptors are numbers from 0 on; dir is one of them, or WorkingDir
// with a path that begins with the directory of Mount. It has no access times,
// leases, access control lists or range locks, because no other process uses it.
type Disk interface {
	Openat(dir int, path string, flags int, mode uint32) (fd int, err error)
	Close(fd int) error
	Read(fd int, b []byte) (int, error)
	Pread(fd int, b []byte, offset int64) (int, error)
	Write(fd int, b []byte) (int, error)
	Pwrite(fd int, b []byte, offset int64) (int, error)
	// Append writes at the end of the file, wherever the descriptor is.
	Append(fd int, b []byte) (int, error)
	Seek(fd int, offset int64, whence int) (int64, error)
	Ftruncate(fd int, size int64) error
	Fsync(fd int) error // of a file or of a directory
	Syncfs(fd int) error
	Getdents(fd int, b []byte) (int, error)
	Statfs(path string) (unix.Statfs_t, error)

	Fstat(fd int) (unix.Stat_t, error)
	Fstatat(dir int, path string) (unix.Stat_t, error)
	Fchmod(fd int, mode uint32) error
	Fchown(fd, uid, gid int) error
	// SetTime sets the modification time.
	SetTime(fd int, at unix.Timespec) error

	Mkdirat(dir int, path string, mode uint32) error
	Unlinkat(dir int, path string) error
	// Renameat replaces a file that has the new name, unless keep is set.
	Renameat(fromDir int, from string, toDir int, to string, keep bool) error
}

// Descriptors of mounted disks are above all others. Each disk has a range.
const (
	firstMounted = 1 << 30
	mountedRange = 1 << 20
)

// mount is a mounted disk. Its descriptors begin at first.
type mount struct {
	disk  Disk
	dir   string // with a slash at the end
	first int
}

// mounts are the mounted disks, each at the index of its range of descriptors; an
// entry is nil once its disk is unmounted. The table is empty in every program:
// only tests mount a disk. It is state of the package, as the kernel's table of
// mounts is state of the machine, because a path or a descriptor alone has to
// identify the disk.
var (
	mounts   atomic.Pointer[[]*mount]
	mounting sync.Mutex
)

// Mount makes all paths below a directory, which must be absolute, lead to a
// disk until unmount is called.
func Mount(dir string, d Disk) (unmount func()) {
	mounting.Lock()
	defer mounting.Unlock()
	var table []*mount
	if old := mounts.Load(); old != nil {
		table = append(table, *old...)
	}
	place := slices.Index(table, nil)
	if place < 0 {
		place, table = len(table), append(table, nil)
	}
	table[place] = &mount{d, strings.TrimSuffix(dir, "/") + "/", firstMounted + place*mountedRange}
	mounts.Store(&table)
	return func() {
		mounting.Lock()
		defer mounting.Unlock()
		table := slices.Clone(*mounts.Load())
		table[place] = nil
		mounts.Store(&table)
	}
}

// of returns the disk that a descriptor belongs to; nil for the kernel's.
func of(fd int) *mount {
	if fd < firstMounted {
		return nil
	}
	return (*mounts.Load())[(fd-firstMounted)/mountedRange]
}

// at returns the disk that a path below dir leads to; nil for the kernel's.
func at(dir int, path string) *mount {
	if dir >= firstMounted {
		return of(dir)
	}
	if dir != WorkingDir || mounts.Load() == nil {
		return nil
	}
	return mountedAt(path)
}

func mountedAt(path string) *mount {
	for _, m := range *mounts.Load() {
		if m != nil && (strings.HasPrefix(path, m.dir) || path+"/" == m.dir) {
			return m
		}
	}
	return nil
}

// diskFD returns the number that the disk itself uses for a descriptor.
func (m *mount) diskFD(fd int) int {
	if fd == WorkingDir {
		return fd
	}
	return fd - m.first
}
