package spool

// System calls on single files.

import (
	"golang.org/x/sys/unix"

	"zsched/internal/eintr"
)

// The calls below are the plain ones, tried again when a signal interrupts
// them, as the runtime's own do on slow file systems.

func openFile(at int, path string, flags int, mode uint32) (int, error) {
	return eintr.Retry1(func() (int, error) {
		return unix.Openat(at, path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, mode)
	})
}

func openDir(at int, path string) (int, error) {
	return eintr.Retry1(func() (int, error) {
		return unix.Openat(at, path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
}

// stat is that of a name itself; a symbolic link is not followed.
func stat(at int, path string, st *unix.Stat_t) error {
	return eintr.Retry(func() error { return unix.Fstatat(at, path, st, unix.AT_SYMLINK_NOFOLLOW) })
}

// exists reports whether there is anything of that name. When the system does
// not say, the answer is yes: nothing may be built on its absence.
func exists(at int, path string) bool {
	var st unix.Stat_t
	return stat(at, path, &st) != unix.ENOENT
}

func regular(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFREG }

// remove unlinks a file. That it is gone already is no error.
func remove(at int, path string) error {
	err := eintr.Retry(func() error { return unix.Unlinkat(at, path, 0) })
	if err == unix.ENOENT {
		return nil
	}
	return err
}

// rename moves a file to a name that does not exist: EEXIST when it does.
func rename(fromDir int, from string, toDir int, to string) error {
	err := eintr.Retry(func() error { return unix.Renameat2(fromDir, from, toDir, to, unix.RENAME_NOREPLACE) })
	if err != unix.EINVAL && err != unix.ENOSYS {
		return err
	}
	// Some file systems cannot promise it. Only this daemon makes names in
	// these directories that are anyone else's to take.
	if exists(toDir, to) {
		return unix.EEXIST
	}
	return eintr.Retry(func() error { return unix.Renameat(fromDir, from, toDir, to) })
}

// readWhole reads a file of the size that st says into buf, which it grows as
// needed and returns cut to what was read.
func readWhole(fd int, size int64, buf []byte) ([]byte, error) {
	if int64(cap(buf)) < size {
		buf = make([]byte, size, size+size/4)
	}
	buf = buf[:size]
	for have := 0; have < len(buf); {
		n, err := eintr.Retry1(func() (int, error) { return unix.Pread(fd, buf[have:], int64(have)) })
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return buf[:have], nil
		}
		have += n
	}
	return buf, nil
}

// writeFile makes a small file, durably when asked to.
func writeFile(at int, path string, text []byte, sync bool) (err error) {
	fd, err := openFile(at, path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC, 0o640)
	if err != nil {
		return err
	}
	defer func() {
		if closing := unix.Close(fd); err == nil {
			err = closing
		}
	}()
	for len(text) > 0 {
		n, err := eintr.Retry1(func() (int, error) { return unix.Write(fd, text) })
		if err != nil {
			return err
		}
		text = text[n:]
	}
	if sync {
		return unix.Fsync(fd)
	}
	return nil
}
