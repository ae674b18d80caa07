package ctlfile

// Submitting: putting a message and its control file into the queue.

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
	"zsched/internal/syncdir"
)

// Submit stores a message and its control file in a postoffice, under the number
// of the message file's inode, and returns the path of the control file below
// transport/. It ignores c.Name. After an error the message is not queued and no
// file of it is left. The exception is an error together with a path: the
// message is queued, but may not survive a crash of the machine.
func Submit(office string, levels int, c *Contents, message io.Reader) (path string, err error) {
	file, err := postoffice.CreateTemp(office, "submit-")
	if err != nil {
		return "", fmt.Errorf("submit: %w", err)
	}
	defer func() {
		_ = file.Close()
		if path == "" {
			_ = postoffice.RemovePath(file.Name())
		}
	}()
	size, err := io.Copy(file, message)
	if err == nil {
		err = file.Sync()
	}
	if err == nil && c.Body > size {
		err = fmt.Errorf("body offset %d in a message of %d bytes", c.Body, size)
	}
	if err != nil {
		return "", fmt.Errorf("submit: %w", err)
	}
	return Enqueue(office, levels, c, file.Name())
}

// Enqueue does the last steps of a router for a message file that is complete
// and on disk in the postoffice: it writes the control file under a name that
// starts with a dot, moves the message file into queue/, and renames the control
// file to its own name. If a step fails, the message file is where it was. An
// error together with a path means the same as for Submit. Nothing is
// overwritten: if a file of that name exists, the error is fs.ErrExist.
func Enqueue(office string, levels int, c *Contents, file string) (path string, err error) {
	path, err = enqueue(office, levels, c, file)
	if err != nil {
		return path, fmt.Errorf("enqueue %s: %w", file, err)
	}
	return path, nil
}

func enqueue(office string, levels int, c *Contents, file string) (string, error) {
	in, err := postoffice.Lstat(file)
	if err != nil {
		return "", err
	}
	if !in.Mode().IsRegular() {
		return "", errors.New("not a regular file")
	}
	st := in.Sys().(*syscall.Stat_t)
	named := *c
	named.Name = strconv.FormatUint(st.Ino, 10)
	text, err := named.Encode()
	if err != nil {
		return "", err
	}
	hash := HashDir(st.Ino, levels)
	transport, err := postoffice.MakeQueueDir(office, "transport", hash)
	if err != nil {
		return "", err
	}
	queue, err := postoffice.MakeQueueDir(office, "queue", hash)
	if err != nil {
		return "", err
	}
	final, temp := filepath.Join(transport, named.Name), filepath.Join(transport, "."+named.Name)
	if postoffice.Exists(postoffice.WorkingDir, final) {
		// A power cut has left the control file of an earlier message that had this
		// inode. It must never lie beside our message.
		return "", &fs.PathError{Op: "create", Path: final, Err: fs.ErrExist}
	}
	group, err := postoffice.Group(filepath.Join(office, "transport"))
	if err != nil {
		return "", err
	}
	if err := postoffice.WriteControl(temp, text, group); err != nil {
		return "", err
	}
	// If such a control file was removed, it must not reappear after a power cut.
	if err := syncdir.Sync(transport); err != nil {
		_ = postoffice.RemovePath(temp)
		return "", err
	}
	queued := filepath.Join(queue, named.Name)
	if err := moveMessage(file, queued, in, group); err != nil {
		_ = postoffice.RemovePath(temp)
		return "", err
	}
	if err := postoffice.Publish(temp, final); err != nil {
		_ = postoffice.RemovePath(temp)
		return "", errors.Join(err, moveBack(queued, file, in))
	}
	// The scheduler may have the message by now, so an error cannot undo this.
	return hash + named.Name, syncdir.Sync(transport)
}

// moveMessage moves a message file into queue/ and lets agents read it. After an
// error the file is as it was.
func moveMessage(file, queued string, was fs.FileInfo, group int) error {
	if err := postoffice.Publish(file, queued); err != nil {
		return err
	}
	err := postoffice.Chmod(queued, was, uint32(was.Mode().Perm()|0o440)&0o660, group)
	if err == nil {
		err = syncdir.Sync(filepath.Dir(queued))
	}
	if err != nil {
		return errors.Join(err, moveBack(queued, file, was))
	}
	return nil
}

// moveBack undoes moveMessage.
func moveBack(queued, file string, was fs.FileInfo) error {
	err := postoffice.Chmod(queued, was, uint32(was.Mode().Perm()), int(was.Sys().(*syscall.Stat_t).Gid))
	if e := postoffice.Publish(queued, file); e != nil {
		return fmt.Errorf("the message stays in %s: %w", queued, e)
	}
	return err
}

// Announce sends the datagram "NEW path" to a notify socket: the scheduler's for
// a new control file, or the router's. It does not wait: a sweep finds the file
// if the datagram is lost.
func Announce(socket, path string) error {
	if err := announce(strings.TrimPrefix(socket, "UNIX:"), path); err != nil {
		return fmt.Errorf("announce %q to %s: %w", path, socket, err)
	}
	return nil
}

func announce(socket, path string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	return unix.Sendto(fd, []byte("NEW "+path), 0, &unix.SockaddrUnix{Name: socket})
}
