package postoffice

// This file creates files in queue/.tmp, where only our user can reach a name.
// They are published when they are complete.

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// TempDir is the directory of temporary files below queue/.
const TempDir = ".tmp"

// TempPath returns the path of a file in queue/.tmp.
func TempPath(postoffice, name string) string { return postoffice + "/queue/" + TempDir + "/" + name }

// OpenTemp opens queue/.tmp below the open directory queue/, and creates it
// if it is missing. If other users can reach names in it, that is an error.
func OpenTemp(queue int) (fd int, err error) {
	if err := mkdirat(queue, TempDir, 0o700); err != nil && err != unix.EEXIST {
		return -1, fmt.Errorf("making queue/%s: %w", TempDir, err)
	}
	fd, err = Open(queue, TempDir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return -1, fmt.Errorf("opening queue/%s: %w", TempDir, err)
	}
	var st unix.Stat_t
	if err = Fstat(fd, &st); err == nil && !private(&st) {
		err = fmt.Errorf("it belongs to user %d and has mode %#o", st.Uid, st.Mode&0o7777)
	}
	if err != nil {
		Close(fd)
		return -1, fmt.Errorf("using queue/%s: %w", TempDir, err)
	}
	return fd, nil
}

// private reports whether only our user can reach a name in a directory.
func private(st *unix.Stat_t) bool { return int(st.Uid) == os.Geteuid() && st.Mode&0o077 == 0 }

// CreateTemp makes a new file with mode 0600 in queue/.tmp, whose name begins
// with prefix. An agent that is not root may not create files below queue/: its
// file is in public/, where nobody but its own user can replace it while that
// directory has the sticky bit.
func CreateTemp(postoffice, prefix string) (*File, error) {
	f, err := createTempInQueue(postoffice, prefix)
	if os.Geteuid() != 0 && errors.Is(err, unix.EACCES) {
		return createIn(WorkingDir, postoffice+"/public/", prefix)
	}
	return f, err
}

func createTempInQueue(postoffice, prefix string) (*File, error) {
	queue, err := OpenDir(WorkingDir, postoffice+"/queue")
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: postoffice + "/queue", Err: err}
	}
	defer Close(queue)
	temp, err := OpenTemp(queue)
	if err != nil {
		return nil, err
	}
	defer Close(temp)
	return createIn(temp, TempPath(postoffice, ""), prefix)
}

// CreateIn makes a new file with mode 0600 in a directory. Its name begins with
// prefix.
func CreateIn(dir, prefix string) (*File, error) { return createIn(WorkingDir, dir+"/", prefix) }

// createIn creates a new file with a random name in the open directory dir or,
// if that is WorkingDir, in the directory path.
func createIn(dir int, path, prefix string) (*File, error) {
	name := prefix + strconv.FormatUint(rand.Uint64(), 36)
	below := name
	if dir == WorkingDir {
		below = path + name
	}
	fd, err := OpenAt(dir, below, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return nil, &os.PathError{Op: "create", Path: path + name, Err: err}
	}
	return NewFile(fd, path+name), nil
}
