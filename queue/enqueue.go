// Package queue is how mail comes into a postoffice: submissions (the message and its
// envelope, for the router), their way into router/, and messages with control files, which
// come into the queue in an order that a crash can interrupt anywhere.
package queue

// Submitting: putting a message and its control file into the queue.

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/internal/syncdir"
)

// Submit stores a message and its control file in a postoffice, under the number
// of the message file's inode, and returns the path of the control file below
// transport/. It ignores c.Name. After an error the message is not queued and no
// file of it is left. The exception is an error together with a path: the
// message is queued, but may not survive a crash of the machine.
func Submit(office string, levels int, c *ctlfile.Contents, message io.Reader) (path string, err error) {
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
func Enqueue(office string, levels int, c *ctlfile.Contents, file string) (path string, err error) {
	return enqueue(office, levels, &Queued{Contents: c, File: file})
}

// CopiesDir is the directory of control files of copies that are not in the queue yet,
// below transport/. Each has the spoolid of its message as its name. Other schedulers do
// not look into a directory of that name.
const CopiesDir = ".scheduler"

// EnqueueCopy is Enqueue for a copy of a message that is still in the queue. If a crash
// comes before the copy has its name, the copy is to be removed: until then its control
// file is in CopiesDir. A held copy goes to hold/, whose directories exist; the path is
// then below hold/transport/.
func EnqueueCopy(office string, levels int, q *Queued) (path string, err error) {
	q.copy = true
	return enqueue(office, levels, q)
}

func enqueue(office string, levels int, q *Queued) (path string, err error) {
	if path, err = enqueueOne(office, levels, q); err != nil {
		return path, fmt.Errorf("enqueue %s: %w", q.File, err)
	}
	return path, nil
}

func enqueueOne(office string, levels int, q *Queued) (string, error) {
	e, err := newEnqueuing(office, levels, q)
	if err != nil {
		return "", err
	}
	if err := postoffice.WriteControl(e.temp, e.text, e.group); err != nil {
		return "", err
	}
	// If an earlier control file of this name was removed, it must not reappear after
	// a power cut.
	err = syncdir.Sync(e.transport)
	if err == nil && q.copy {
		err = syncdir.Sync(filepath.Dir(e.temp))
	}
	if err != nil {
		_ = postoffice.RemovePath(e.temp)
		return "", err
	}
	if err := e.moveMessage(); err != nil {
		_ = postoffice.RemovePath(e.temp)
		return "", err
	}
	if err := syncdir.Sync(e.queue); err != nil {
		return "", errors.Join(err, e.undo())
	}
	if err := e.publish(); err != nil {
		return "", err
	}
	// The scheduler may have the message by now, so an error cannot undo this.
	return e.path, syncdir.Sync(e.transport)
}

// enqueuing is a message on its way into the queue.
type enqueuing struct {
	file                string // the message file
	was                 fs.FileInfo
	text                []byte // of the control file
	group               int    // of transport/
	path                string // of the control file below transport/
	transport, queue    string // the directories of both files
	temp, final, queued string // the control file under both names; the message file in queue/
}

// newEnqueuing makes the hash directories and finds out the names.
func newEnqueuing(office string, levels int, q *Queued) (*enqueuing, error) {
	in, err := postoffice.Lstat(q.File)
	if err != nil {
		return nil, err
	}
	if !in.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	st := in.Sys().(*syscall.Stat_t)
	named := *q.Contents
	named.Name = strconv.FormatUint(st.Ino, 10)
	e := &enqueuing{file: q.File, was: in}
	place := office
	if q.Held {
		place = filepath.Join(office, "hold")
	}
	if e.text, err = named.Encode(); err != nil {
		return nil, err
	}
	hash := ctlfile.HashDir(st.Ino, levels)
	e.path = hash + named.Name
	if e.transport, err = postoffice.MakeQueueDir(place, "transport", hash); err != nil {
		return nil, err
	}
	if e.queue, err = postoffice.MakeQueueDir(place, "queue", hash); err != nil {
		return nil, err
	}
	e.final, e.temp = filepath.Join(e.transport, named.Name), filepath.Join(e.transport, "."+named.Name)
	e.queued = filepath.Join(e.queue, named.Name)
	if q.copy {
		dir := filepath.Join(office, "transport", CopiesDir)
		if err := postoffice.MakeDir(postoffice.WorkingDir, dir, 0o700); err != nil {
			return nil, &fs.PathError{Op: "make", Path: dir, Err: err}
		}
		e.temp = filepath.Join(dir, ctlfile.SpoolID(st.Ino, in.ModTime()))
	}
	if postoffice.Exists(postoffice.WorkingDir, e.final) {
		// A power cut has left the control file of an earlier message that had this
		// inode. It must never lie beside our message.
		return nil, &fs.PathError{Op: "create", Path: e.final, Err: fs.ErrExist}
	}
	e.group, err = postoffice.Group(filepath.Join(office, "transport"))
	return e, err
}

// publish gives the control file its name. After an error nothing is queued.
func (e *enqueuing) publish() error {
	if err := postoffice.Publish(e.temp, e.final); err != nil {
		return errors.Join(err, e.undo())
	}
	return nil
}

// undo removes the control file and moves the message file back.
func (e *enqueuing) undo() error {
	_ = postoffice.RemovePath(e.temp)
	return moveBack(e.queued, e.file, e.was)
}

// Queued is a message for EnqueueCopy and EnqueueAll.
type Queued struct {
	Contents *ctlfile.Contents
	File     string // the message file; it need not be on disk yet
	// Held puts the message into hold/, whose directories exist, instead of the queue.
	Held bool
	// Path and Err are the results of EnqueueAll, as for Enqueue.
	Path string
	Err  error

	copy bool // of another message
	*enqueuing
}

// EnqueueAll does for several copies what EnqueueCopy does for one, and waits for the disk
// three times in all. sync makes everything in queue/ and transport/ durable.
func EnqueueAll(office string, levels int, list []*Queued, sync func() error) {
	each := func(do func(q *Queued) error) {
		for _, q := range list {
			if q.Err != nil {
				continue
			}
			if err := do(q); err != nil {
				q.Err = fmt.Errorf("enqueue %s: %w", q.File, err)
			}
		}
	}
	each(func(q *Queued) (err error) {
		q.copy = true
		if q.enqueuing, err = newEnqueuing(office, levels, q); err != nil {
			return err
		}
		return postoffice.WriteControlUnsynced(q.temp, q.text, q.group)
	})
	if err := sync(); err != nil {
		each(func(q *Queued) error { return errors.Join(err, postoffice.RemovePath(q.temp)) })
	}
	each(func(q *Queued) error {
		err := q.moveMessage()
		if err != nil {
			_ = postoffice.RemovePath(q.temp)
		}
		return err
	})
	if err := sync(); err != nil {
		each(func(q *Queued) error { return errors.Join(err, q.undo()) })
	}
	each(func(q *Queued) error {
		err := q.publish()
		if err == nil {
			q.Path = q.path
		}
		return err
	})
	if err := sync(); err != nil {
		each(func(*Queued) error { return err })
	}
}

// moveMessage moves a message file into queue/ and lets agents read it. After an
// error the file is as it was.
func (e *enqueuing) moveMessage() error {
	if err := postoffice.Publish(e.file, e.queued); err != nil {
		return err
	}
	err := postoffice.Chmod(e.queued, e.was, uint32(e.was.Mode().Perm()|0o440)&0o660, e.group)
	if err != nil {
		return errors.Join(err, moveBack(e.queued, e.file, e.was))
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
	a := NewAnnouncer(socket)
	defer a.Close()
	return a.Announce(path)
}

// Announcer announces many files to one notify socket. It keeps its connection from one
// datagram to the next, and connects again when the program that listens has changed.
type Announcer struct {
	socket string
	mu     sync.Mutex
	fd     int // connected; -1: not now
}

// NewAnnouncer returns an Announcer for a notify socket, which need not exist yet.
// Close releases its connection.
func NewAnnouncer(socket string) *Announcer { return &Announcer{socket: socket, fd: -1} }

// Announce is the function Announce for this socket.
func (a *Announcer) Announce(path string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.send([]byte("NEW " + path)); err != nil {
		return fmt.Errorf("announce %q to %s: %w", path, a.socket, err)
	}
	return nil
}

func (a *Announcer) send(datagram []byte) error {
	if a.fd >= 0 {
		err := unix.Send(a.fd, datagram, 0)
		if err == nil || err == unix.EAGAIN {
			return err
		}
		a.disconnect()
	}
	if err := a.connect(); err != nil {
		return err
	}
	return unix.Send(a.fd, datagram, 0)
}

func (a *Announcer) connect() (err error) {
	a.fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		a.fd = -1
		return err
	}
	if err = unix.Connect(a.fd, &unix.SockaddrUnix{Name: strings.TrimPrefix(a.socket, "UNIX:")}); err != nil {
		a.disconnect()
	}
	return err
}

func (a *Announcer) disconnect() {
	if a.fd >= 0 {
		_ = unix.Close(a.fd)
		a.fd = -1
	}
}

// Close closes the connection. A later Announce connects again.
func (a *Announcer) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.disconnect()
}
