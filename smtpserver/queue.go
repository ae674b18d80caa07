package smtpserver

// The queue: writing messages into router/, on disk before the client gets 250.

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/header"
	"zsched/internal/logs"
	"zsched/internal/postoffice"
	"zsched/queue"
)

// tempPrefix begins the name of an incomplete message in public/. The pid of
// its writer follows.
const tempPrefix = ".smtpserver-"

// inbox gives complete messages to the router. Messages that are complete at
// the same time share their waits for the disk.
type inbox struct {
	office string // $POSTOFFICE
	notify string // the scheduler's socket, for ETRN
	group  *queue.GroupCommit
	log    zerolog.Logger
	faults logs.Throttle              // one line about each directory that fails
	down   atomic.Pointer[storeFault] // of the last message; nil: it was stored

	headers sync.Mutex // held while the rest of a large header is read, which takes some megabytes at most
}

// storeFault is why a message could not be stored, and when.
type storeFault struct {
	err error
	at  time.Time
}

// incoming is a message that is being received.
type incoming struct {
	file *postoffice.File
	w    *bufio.Writer
	size int64  // of the file
	id   string // spoolid that the message will have, when it is complete
}

// Write writes to the file. It is for the buffer w.
func (m *incoming) Write(p []byte) (int, error) {
	n, err := m.file.Write(p)
	m.size += int64(n)
	return n, err
}

func openQueue(router queue.Router, notify string, log zerolog.Logger) (*inbox, error) {
	group, err := queue.NewGroupCommit(router)
	if err != nil {
		return nil, err
	}
	q := &inbox{office: router.Postoffice, notify: notify, group: group, log: log, faults: logs.Throttle{Period: faultPeriod}}
	var st unix.Stat_t
	if err := postoffice.Stat(postoffice.WorkingDir, q.public()+"/", &st); err != nil {
		_ = group.Close()
		return nil, &os.PathError{Op: "stat", Path: q.public(), Err: err}
	}
	// Any user can make a million names in public/, so nobody waits for this.
	go q.removeAbandoned()
	return q, nil
}

// public is the directory of incomplete messages.
func (q *inbox) public() string { return filepath.Join(q.office, "public") }

// removeAbandoned removes the files of dead processes in public/. None of these
// messages was acknowledged.
func (q *inbox) removeAbandoned() {
	names, _ := postoffice.ReadNames(q.public())
	for _, name := range names {
		rest, ours := strings.CutPrefix(name, tempPrefix)
		if !ours {
			continue
		}
		word, _, _ := strings.Cut(rest, "-")
		pid, err := strconv.Atoi(word)
		if err == nil && pid > 0 && pid != os.Getpid() && errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			_ = postoffice.RemovePath(filepath.Join(q.public(), name))
		}
	}
}

// faultPeriod is how often an error of storing messages is logged, beside the line about each
// message, and how long the server is unhealthy after one, because the next message may not come
// before it is healthy.
const faultPeriod = time.Minute

// fault logs an error of storing a message, and returns it.
func (q *inbox) fault(where string, err error) error {
	q.down.Store(&storeFault{err, time.Now()})
	if q.faults.Allow(where, time.Now()) {
		q.log.Error().Err(err).Msg("mail cannot be stored, and clients are told to try again later")
	}
	return err
}

// create opens a file for a message.
func (q *inbox) create() (*incoming, error) {
	f, err := postoffice.CreateIn(q.public(), fmt.Sprintf("%s%d-", tempPrefix, os.Getpid()))
	if err != nil {
		return nil, q.fault("public", fmt.Errorf("create message: %w", err))
	}
	m := &incoming{file: f}
	m.w = bufio.NewWriterSize(m, 16<<10)
	return m, nil
}

// checkHeader reads the header of a complete message, which begins at an offset, as the
// router will read it.
func (q *inbox) checkHeader(m *incoming, offset int64) error {
	if err := m.w.Flush(); err != nil {
		return err
	}
	r := headerReader{Reader: io.NewSectionReader(m.file, offset, m.size-offset), left: usualHeader, lock: &q.headers}
	defer r.unlock()
	text, _, _, err := header.Read(&r)
	if err == nil && header.Split(text).Count("Received") > header.MaxHops {
		return errHopCount
	}
	return err
}

// usualHeader is how long a header may be, in bytes, without waiting for other headers. Clients that
// send long ones wait for each other only.
const usualHeader = 64 << 10

// headerReader takes a lock when more of a message than a usual header is read.
type headerReader struct {
	io.Reader
	left   int // to be read without the lock
	lock   *sync.Mutex
	locked bool
}

func (r *headerReader) Read(b []byte) (int, error) {
	if r.left <= 0 && !r.locked {
		r.lock.Lock()
		r.locked = true
	}
	n, err := r.Reader.Read(b)
	r.left -= n
	return n, err
}

func (r *headerReader) unlock() {
	if r.locked {
		r.lock.Unlock()
	}
}

// discard removes a message that is not committed.
func (m *incoming) discard() {
	_ = m.file.Close()
	_ = postoffice.RemovePath(m.file.Name())
}

// commit gives a complete message to the router. When it returns nil, the
// message and its name are on disk. After an error the message is not in the
// queue, or it is there but may not survive a crash of the machine.
func (q *inbox) commit(m *incoming) error {
	err := m.w.Flush()
	info, e := m.file.Stat()
	if err = errors.Join(err, e); err != nil {
		m.discard()
		return fmt.Errorf("write message: %w", err)
	}
	// The router moves the file into the queue as it is.
	m.id = ctlfile.SpoolID(info.Sys().(*syscall.Stat_t).Ino, info.ModTime())
	m.w = nil
	if _, err = q.group.Commit(m.file); err != nil {
		return q.fault("router", err)
	}
	q.down.Store(nil)
	return nil
}

// trigger writes a control file with only a T line, which makes the scheduler try a
// host's mail now. The file need not survive a crash.
func (q *inbox) trigger(host, from string) error {
	transport := filepath.Join(q.office, "transport")
	f, err := postoffice.CreateIn(transport, ".etrn-")
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, "T "+host+" "+from+"\n")
	info, e := f.Stat()
	if err = errors.Join(err, e, f.Close()); err == nil {
		name := strconv.FormatUint(info.Sys().(*syscall.Stat_t).Ino, 10) + "-etrn"
		if err = postoffice.Replace(postoffice.WorkingDir, f.Name(), postoffice.WorkingDir, filepath.Join(transport, name)); err == nil {
			// After an error, the scheduler still finds the file, but later.
			_ = queue.Announce(q.notify, name)
			return nil
		}
	}
	_ = postoffice.RemovePath(f.Name())
	return err
}
