package postoffice

// Log files: other users may be able to make names in their directory, which root must not
// follow to a file of its own, and at which no program may hang.

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxLinks bounds the symbolic links that a path leads through, as the kernel does.
const maxLinks = 40

// OpenLog opens a log file to append to it. The file may be a device, and a FIFO if a program
// reads it. A symbolic link or a FIFO of a user other than root and our own is refused.
func OpenLog(path string, mode os.FileMode) (*os.File, error) {
	ours, err := checkLinks(path)
	if err != nil {
		return nil, err
	}
	// O_NONBLOCK keeps the call from waiting for the reader of a FIFO.
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NONBLOCK|unix.O_NOCTTY, mode)
	if errors.Is(err, unix.ENXIO) {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errors.New("a FIFO that no program reads, or a socket")}
	} else if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !ours && info.Mode()&fs.ModeNamedPipe != 0 && !isTrusted(info) {
		err = &fs.PathError{Op: "open", Path: path, Err: errors.New("a FIFO of another user")}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// checkLinks returns an error if a path leads through a symbolic link of another user. ours
// says that it leads to an open descriptor of this process, such as /dev/stderr.
func checkLinks(path string) (ours bool, err error) {
	for range maxLinks {
		info, err := os.Lstat(path)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			return false, nil // opening it says what is wrong
		}
		if strings.HasPrefix(path, "/proc/self/fd/") {
			return true, nil
		}
		if !isTrusted(info) {
			return false, fmt.Errorf("open %s: a symbolic link of another user", path)
		}
		to, err := os.Readlink(path)
		if err != nil {
			return false, err
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	return false, &fs.PathError{Op: "open", Path: path, Err: unix.ELOOP}
}

// isTrusted reports whether a name belongs to root or to our user.
func isTrusted(info fs.FileInfo) bool {
	uid := info.Sys().(*syscall.Stat_t).Uid
	return uid == 0 || int(uid) == os.Geteuid()
}
