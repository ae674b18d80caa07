package postoffice

// This file finds, renames, removes, reads and writes single files.

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Stat examines a name itself: it does not follow a symbolic link.
func Stat(dir int, path string, st *unix.Stat_t) error {
	return Retry(func() error { return fstatat(dir, path, st) })
}

// Exists reports whether a name exists. If that is unknown because of an error,
// it returns true, because callers act on the absence of a name.
func Exists(dir int, path string) bool {
	var st unix.Stat_t
	return Stat(dir, path, &st) != unix.ENOENT
}

// IsRegular reports whether a file is a regular one.
func IsRegular(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFREG }

// ErrTooLarge says that a message file is larger than the router takes.
var ErrTooLarge = errors.New("the message file is larger than ROUTERMAXSIZE: its owner may have written into it after the router took it")

// CheckSize returns ErrTooLarge for a message file of a user that has more than limit bytes
// after its offset body; limit 0: no limit. Its owner may have kept it open since he
// submitted it, and make it as large as a file may be. What is before the body does not
// count: the envelope and the header, which the router has read. Files of root and of our
// own user have no limit: mail that another node moved here may be larger.
func CheckSize(st *unix.Stat_t, body, limit int64) error {
	size := st.Size - max(body, 0)
	if limit == 0 || size <= limit || IsOurs(st.Uid) {
		return nil
	}
	return fmt.Errorf("%w (%d bytes of user %d, and the limit is %d)", ErrTooLarge, size, st.Uid, limit)
}

// IsOurs reports whether the owner of a file is root or our own user: no other user changes it.
func IsOurs(uid uint32) bool { return uid == 0 || int(uid) == os.Geteuid() }

// Unlink unlinks a file.
func Unlink(dir int, path string) error { return unlinkat(dir, path) }

// Remove unlinks a file. A file that does not exist is not an error, even if its directory does
// not exist.
func Remove(dir int, path string) error {
	err := unlinkat(dir, path)
	if err == unix.ENOENT {
		return nil
	}
	return err
}

// Rename renames a file and overwrites nothing: the error is EEXIST if the new
// name exists. It is for directories in which no other process creates names;
// Publish is for the others.
func Rename(fromDir int, from string, toDir int, to string) error {
	err := renameNoReplace(fromDir, from, toDir, to)
	if err != unix.EINVAL && err != unix.ENOSYS {
		return err
	}
	// This file system has no such call.
	if Exists(toDir, to) {
		return unix.EEXIST
	}
	return Replace(fromDir, from, toDir, to)
}

func renameNoReplace(fromDir int, from string, toDir int, to string) error {
	return renameat(fromDir, from, toDir, to, unix.RENAME_NOREPLACE)
}

// Replace renames a file and replaces the file that has the new name.
func Replace(fromDir int, from string, toDir int, to string) error {
	return renameat(fromDir, from, toDir, to, 0)
}

// ReplaceFile replaces a small file, or creates it. The contents are on disk before they have
// its name; the caller syncs the directory. temp is the name until then, and is removed after
// an error.
func ReplaceFile(dir int, temp, path string, text []byte) error {
	err := WriteFile(dir, temp, text, true)
	if err == nil {
		err = Replace(dir, temp, dir, path)
	}
	if err != nil {
		_ = Remove(dir, temp)
	}
	return err
}

// Publish is Rename into a directory in which other processes may create names at
// any moment. A crash on a file system without renameat2(2) can leave the file
// with both names. The error is an *os.LinkError.
func Publish(from, to string) error {
	err := renameNoReplace(WorkingDir, from, WorkingDir, to)
	if err == unix.EINVAL || err == unix.ENOSYS {
		if err = unix.Link(from, to); err == nil {
			err = Remove(WorkingDir, from)
		}
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// PreadFull reads at an offset until b is full or the file ends.
func PreadFull(fd int, b []byte, offset int64) (n int, err error) {
	for n < len(b) {
		more, err := Pread(fd, b[n:], offset+int64(n))
		if err != nil {
			return n, err
		}
		if more <= 0 {
			break
		}
		n += more
	}
	return n, nil
}

// ReadFull reads the first size bytes of an open file into buf, or into a new
// buffer if buf is too small. It returns what it read: fewer bytes if the file is
// shorter.
func ReadFull(fd int, size int64, buf []byte) ([]byte, error) {
	if int64(cap(buf)) < size {
		buf = make([]byte, size, size+size/4)
	}
	n, err := PreadFull(fd, buf[:size], 0)
	if err != nil {
		return nil, err
	}
	return buf[:n], nil
}

// ReadFile reads at most limit bytes of a file.
func ReadFile(dir int, path string, limit int64) ([]byte, error) {
	fd, err := Open(dir, path, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer Close(fd)
	var st unix.Stat_t
	if err := Fstat(fd, &st); err != nil {
		return nil, err
	}
	return ReadFull(fd, min(st.Size, limit), nil)
}

// WriteFile creates or overwrites a small file, and syncs it if durable is set.
func WriteFile(dir int, path string, text []byte, durable bool) (err error) {
	fd, err := OpenAt(dir, path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC, 0o640)
	if err != nil {
		return err
	}
	defer func() {
		if e := Close(fd); err == nil {
			err = e
		}
	}()
	if _, err := writeFull(fd, text); err != nil {
		return err
	}
	if durable {
		return Sync(fd)
	}
	return nil
}

// IsTrustedDir reports whether a path names a directory, not a symbolic link to
// one, that belongs to root or to our user. Any user can create names in router/. A name that
// is gone is no error.
func IsTrustedDir(path string) (bool, error) {
	info, err := Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.IsDir() && isTrusted(info), err
}

// unfinished marks a directory whose name may not be on disk yet: the sticky bit, which none of ours
// has otherwise.
const unfinished = unix.S_ISVTX

// IsUnfinished reports whether a directory may have to be finished by MakeDir.
func IsUnfinished(info os.FileInfo) bool { return info.Mode()&os.ModeSticky != 0 }

// MakeDir makes a directory with exactly this mode, whatever the umask is, and
// waits until its name is on disk: if the name were lost, everything below it
// would be lost too. So it finishes one that another call has begun and not finished, because of an
// error or because it runs at the same time. Any other directory that exists stays as it is.
func MakeDir(dir int, path string, mode uint32) error {
	if err := mkdirat(dir, path, mode&0o777|unfinished); err != nil {
		var st unix.Stat_t
		if err == unix.EEXIST {
			err = Stat(dir, path, &st)
		}
		// A sticky directory that others have made has bits that ours have not.
		if err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Mode&0o7777&^(mode&0o777|unix.S_ISGID) != unfinished {
			return err
		}
	}
	parent, err := OpenDir(dir, filepath.Dir(strings.TrimSuffix(path, "/")))
	if err != nil {
		return err
	}
	defer Close(parent)
	if err := Sync(parent); err != nil {
		return err
	}
	fd, err := OpenAt(dir, path, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer Close(fd)
	return fchmod(fd, mode)
}

// MakeHashDirs makes the hash directories of a prefix such as "B/I/". The error is
// ENOTDIR if the name of one is in use for something else, such as a symbolic link,
// which might lead out of the postoffice.
func MakeHashDirs(dir int, prefix string, mode uint32) error {
	for i := range len(prefix) {
		if prefix[i] != '/' {
			continue
		}
		if err := MakeDir(dir, prefix[:i], mode); err != nil {
			return err
		}
		var st unix.Stat_t
		if err := Stat(dir, prefix[:i], &st); err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return unix.ENOTDIR
		}
	}
	return nil
}

// HashDirMode is the mode of hash directories in transport/ and queue/. Agents
// and routers, which run under other groups, can enter them.
const HashDirMode = 0o2755

// MakeQueueDir makes the hash directories of a prefix below transport/ or queue/
// of a postoffice, and returns the path of the last.
func MakeQueueDir(postoffice, name, prefix string) (path string, err error) {
	top := filepath.Join(postoffice, name)
	fd, err := OpenDir(WorkingDir, top)
	if err == nil {
		err = MakeHashDirs(fd, prefix, HashDirMode)
		Close(fd)
	}
	if err != nil {
		return "", &fs.PathError{Op: "make hash directories", Path: top + "/" + prefix, Err: err}
	}
	return filepath.Join(top, strings.TrimSuffix(prefix, "/")), nil
}

// RemovePath is Remove for callers without an open directory.
func RemovePath(path string) error {
	if err := Remove(WorkingDir, path); err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

// SyncDir syncs a directory. The process must be allowed to read it.
func SyncDir(path string) error { return SyncDirAt(WorkingDir, path) }

// SyncDirAt syncs a directory whose path is relative to the directory at. The error
// is an *os.PathError.
func SyncDirAt(at int, path string) error {
	fd, err := OpenDir(at, path)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer Close(fd)
	if err := Sync(fd); err != nil {
		return &os.PathError{Op: "sync", Path: path, Err: err}
	}
	return nil
}
