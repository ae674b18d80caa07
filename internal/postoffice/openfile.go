package postoffice

// This file has the type File, an open file that can be read and written as a
// stream.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// File is an open file or directory, as *os.File is. Its errors are
// *os.PathError.
type File struct {
	name string
	fd   atomic.Int64 // -1: closed
}

// NewFile returns a File for a descriptor, which it closes.
func NewFile(fd int, name string) *File {
	f := &File{name: name}
	f.fd.Store(int64(fd))
	return f
}

// OpenFile opens a file with the flags of OpenAt. A new one gets the mode 0600.
func OpenFile(path string, flags int) (*File, error) {
	fd, err := OpenAt(WorkingDir, path, flags, 0o600)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return NewFile(fd, path), nil
}

// OpenOwn is OpenFile for a file that is only read if it is a regular one of root or of
// our user, and returns its state.
func OpenOwn(path string, flags int) (*File, os.FileInfo, error) {
	f, err := OpenFile(path, flags)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || !isTrusted(info)) {
		err = &os.PathError{Op: "open", Path: path, Err: errNotOwn}
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// errNotOwn says that a file cannot be trusted.
var errNotOwn = errors.New("not a regular file of root or of this process's user")

// OpenDirFile opens a directory.
func OpenDirFile(path string) (*File, error) {
	fd, err := OpenDir(WorkingDir, path)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return NewFile(fd, path), nil
}

// Name returns the name under which the file was opened.
func (f *File) Name() string { return f.name }

// FD returns the descriptor.
func (f *File) FD() int { return int(f.fd.Load()) }

func (f *File) wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	if f.fd.Load() < 0 {
		err = fs.ErrClosed
	}
	return &os.PathError{Op: op, Path: f.name, Err: err}
}

func (f *File) Read(b []byte) (int, error) {
	n, err := Read(f.FD(), b)
	if err == nil && n == 0 && len(b) > 0 {
		return 0, io.EOF
	}
	return max(n, 0), f.wrap("read", err)
}

// ReadAt reads len(b) bytes at an offset, or returns an error: io.ReaderAt.
func (f *File) ReadAt(b []byte, offset int64) (n int, err error) {
	if n, err = PreadFull(f.FD(), b, offset); err == nil && n < len(b) {
		return n, io.EOF
	}
	return n, f.wrap("read", err)
}

func (f *File) Write(b []byte) (n int, err error) {
	n, err = writeFull(f.FD(), b)
	return n, f.wrap("write", err)
}

// writeFull writes all of b at the descriptor's file offset.
func writeFull(fd int, b []byte) (n int, err error) {
	for n < len(b) {
		more, err := Write(fd, b[n:])
		if err != nil {
			return n, err
		}
		n += more
	}
	return n, nil
}

// Stat examines the file.
func (f *File) Stat() (os.FileInfo, error) {
	info := &fileInfo{name: filepath.Base(f.name)}
	if err := Fstat(f.FD(), &info.st); err != nil {
		return nil, f.wrap("stat", err)
	}
	return info, nil
}

// Sync makes the file durable.
func (f *File) Sync() error { return f.wrap("sync", Sync(f.FD())) }

// SyncAll makes its whole file system durable.
func (f *File) SyncAll() error { return f.wrap("sync", SyncAll(f.FD())) }

// Chmod sets the mode.
func (f *File) Chmod(mode uint32) error { return f.wrap("chmod", fchmod(f.FD(), mode)) }

// Chown sets the owner and the group; -1 leaves one as it is.
func (f *File) Chown(uid, gid int) error { return f.wrap("chown", fchown(f.FD(), uid, gid)) }

// Share sets the mode and, if group is not -1, the group, unless they are so already.
func (f *File) Share(group int, mode uint32) error {
	var st unix.Stat_t
	err := Fstat(f.FD(), &st)
	if err == nil && group >= 0 && int(st.Gid) != group {
		err = fchown(f.FD(), -1, group)
	}
	if err == nil && st.Mode&0o7777 != mode {
		err = fchmod(f.FD(), mode)
	}
	return f.wrap("chmod", err)
}

// SetTime sets the modification time.
func (f *File) SetTime(at time.Time) error {
	ts, err := unix.TimeToTimespec(at)
	if err == nil {
		err = setTime(f.FD(), ts)
	}
	return f.wrap("set the time of", err)
}

// Close closes the file. Closing it again is an error.
func (f *File) Close() error {
	fd := f.fd.Swap(-1)
	if fd < 0 {
		return f.wrap("close", fs.ErrClosed)
	}
	return f.wrap("close", Close(int(fd)))
}

// Lstat examines a name itself: it does not follow a symbolic link. Its Sys is a
// *syscall.Stat_t.
func Lstat(path string) (os.FileInfo, error) {
	info := &fileInfo{name: filepath.Base(path)}
	if err := Stat(WorkingDir, path, &info.st); err != nil {
		return nil, &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	return info, nil
}

// ReadNames returns the names in a directory, sorted. Together with an error, it
// returns those that it could read.
func ReadNames(path string) (names []string, err error) { return ReadNamesAt(WorkingDir, path) }

// ReadNamesAt is ReadNames for a path that is relative to the directory at.
func ReadNamesAt(at int, path string) (names []string, err error) {
	err = eachName(at, path, func(name string, _ uint8) bool {
		names = append(names, name)
		return true
	})
	slices.Sort(names)
	return names, err
}

// eachName is EachName for the directory at path below the directory at.
func eachName(at int, path string, f func(name string, kind uint8) bool) error {
	fd, err := OpenDir(at, path)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer Close(fd)
	if err := EachName(fd, f); err != nil {
		return &os.PathError{Op: "read", Path: path, Err: err}
	}
	return nil
}

// EachName calls f with the names in an open directory until it returns false. kind is the
// d_type of readdir(3): unix.DT_REG and its like, or unix.DT_UNKNOWN if the file system does not
// say. It reads a part of the directory, of about 200 names, only when f has had the part
// before it.
func EachName(fd int, f func(name string, kind uint8) bool) error {
	const lengthAt, kindAt, nameAt = 16, 18, 19 // in an entry of getdents64(2)
	buf := make([]byte, 8<<10)
	for {
		n, err := Getdents(fd, buf)
		if err != nil || n <= 0 {
			return err
		}
		for rest := buf[:n]; len(rest) > nameAt; {
			entry := rest[:binary.NativeEndian.Uint16(rest[lengthAt:])]
			rest = rest[len(entry):]
			name := unix.ByteSliceToString(entry[nameAt:])
			if name != "." && name != ".." && !f(name, entry[kindAt]) {
				return nil
			}
		}
	}
}

// fileInfo is an os.FileInfo.
type fileInfo struct {
	name string
	st   unix.Stat_t
}

func (i *fileInfo) Name() string       { return i.name }
func (i *fileInfo) Size() int64        { return i.st.Size }
func (i *fileInfo) ModTime() time.Time { return time.Unix(i.st.Mtim.Unix()) }
func (i *fileInfo) IsDir() bool        { return i.Mode().IsDir() }

func (i *fileInfo) Mode() os.FileMode {
	mode := os.FileMode(i.st.Mode & 0o777)
	switch i.st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		mode |= os.ModeDir
	case unix.S_IFLNK:
		mode |= os.ModeSymlink
	case unix.S_IFSOCK:
		mode |= os.ModeSocket
	case unix.S_IFIFO:
		mode |= os.ModeNamedPipe
	default:
		mode |= os.ModeDevice
	}
	return mode
}

// Sys returns a *syscall.Stat_t with the fields that callers need.
func (i *fileInfo) Sys() any {
	s := &i.st
	return &syscall.Stat_t{
		Dev: s.Dev, Ino: s.Ino, Nlink: s.Nlink, Mode: s.Mode, Uid: s.Uid, Gid: s.Gid, Size: s.Size,
		Mtim: syscall.Timespec(s.Mtim), Ctim: syscall.Timespec(s.Ctim),
	}
}

// Group returns the group of a directory.
func Group(dir string) (int, error) {
	info, err := Lstat(dir + "/") // the slash leads through a link
	if err != nil {
		return 0, fmt.Errorf("examining %q: %w", dir, err)
	}
	return int(info.Sys().(*syscall.Stat_t).Gid), nil
}
