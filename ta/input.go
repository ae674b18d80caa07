package ta

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"syscall"
)

// Input makes the standard input of a program that runs as another user: a
// file without a name, in $TMPDIR or /tmp, with what write writes. It is whole
// before the program starts, so that nothing that happens to the agent or to
// its reading gives a program half a message. The file is at its start and
// belongs to uid and gid (-1: to us), who may open it again as /dev/stdin.
func Input(write func(*bufio.Writer) error, uid, gid int) (f *os.File, err error) {
	if f, err = scratch(); err != nil {
		return nil, fmt.Errorf("write the message: %w", err)
	}
	w := bufio.NewWriterSize(f, 32<<10)
	if err = write(w); err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Chown(uid, gid)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("write the message: %w", err)
	}
	return f, nil
}

// tmpFile is O_TMPFILE of open(2), which syscall does not know.
const tmpFile = 0o20000000 | syscall.O_DIRECTORY

func scratch() (*os.File, error) {
	dir := os.TempDir()
	if fd, err := syscall.Open(dir, tmpFile|syscall.O_RDWR|syscall.O_CLOEXEC, 0o600); err == nil {
		return os.NewFile(uintptr(fd), dir+"/message"), nil
	}
	f, err := os.CreateTemp(dir, "message-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
