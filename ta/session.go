package ta

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"zsched/ctlfile"
	"zsched/internal/eintr"
)

// errNothing: the control file holds nothing for this job line now.
var errNothing = errors.New("no open recipient")

// session is where one job line is worked on. What it keeps from message to
// message is memory only.
type session struct {
	server *Server
	out    *output
	number int
	pid    int
	agent  string // who reports, in notary fields: "smtp[4711]"
	buf    []byte // control file
}

// usualFile is the size up to which a control file is read in one call. The
// memory for larger ones is given back.
const usualFile = 8 << 10

func newSession(s *Server, out *output, number int) *session {
	at := &session{server: s, out: out, number: number, pid: os.Getpid(), buf: make([]byte, usualFile)}
	if s.Name != "" {
		at.agent = s.Name + "[" + strconv.Itoa(at.pid) + "]"
	}
	return at
}

// work does one job line, all but the #hungry that answers it.
func (at *session) work(job Job) {
	m, err := at.open(job)
	if len(at.buf) > 128*usualFile {
		at.buf = make([]byte, usualFile)
	}
	if err != nil {
		if err != errNothing {
			at.server.warn("%v", err)
		}
		at.out.line(resyncWord, " ", job.Path)
		return
	}
	defer m.close()
	switch err := m.findMessage(); {
	case errors.Is(err, fs.ErrNotExist) && m.moved():
		m.releaseRest()
		at.out.line(resyncWord, " ", job.Path)
		return
	case errors.Is(err, fs.ErrNotExist):
		m.ReportRest(func(*Recipient) Result {
			return Result{
				Status: Error,
				Fields: Fields{Code: "5.3.0 (message file is missing)", Diagnostic: "x-local; 500 (message file is missing)"},
				Text:   "message file is missing; perhaps it should be sent again",
			}
		})
		at.out.line(resyncWord, " ", job.Path)
		return
	case err != nil:
		m.ReportRest(func(*Recipient) Result {
			return Result{
				Status: Deferred,
				Fields: Fields{Code: "4.3.0", Diagnostic: "x-local; 430 (message file cannot be read)"},
				Text:   err.Error(),
			}
		})
		return
	}
	at.server.Deliver(m)
	m.ReportRest(func(*Recipient) Result {
		return Result{
			Status: Deferred,
			Fields: Fields{Code: "4.3.0", Diagnostic: "x-local; 430 (agent said nothing)"},
			Text:   "the agent came to no result for this address",
		}
	})
}

// open reads the control file and takes the open recipients that the job line
// is about. It is errNothing if there are none.
func (at *session) open(job Job) (*Message, error) {
	s := at.server
	flags := syscall.O_RDWR
	if s.Marking == SchedulerMarks {
		flags = syscall.O_RDONLY
	}
	path := at.path(job.Path)
	fd, err := ctlfile.OpenQuietly(flags, func(flags int) (int, error) { return openFile(path, flags) })
	if err != nil {
		return nil, err
	}
	m := &Message{Job: job, Session: at.number, at: at, fd: fd, owner: -1}
	if s.Syslog != nil {
		m.openedAt = time.Now()
	}
	number, ok := ctlfile.Number(filepath.Base(job.Path))
	if !ok {
		err = fmt.Errorf("control file %q has no number", job.Path)
	}
	m.ID = number
	if err == nil {
		err = m.read(path)
	}
	if err == nil {
		m.take()
		if len(m.Recipients) == 0 {
			err = errNothing
		}
	}
	if err != nil {
		m.close()
		return nil, err
	}
	return m, nil
}

// path finds a file that is named relative to the transport directory.
func (at *session) path(name string) string {
	if at.server.Dir == "" {
		return name
	}
	return at.server.Dir + "/" + name
}

// read reads the whole control file and parses it.
func (m *Message) read(path string) error {
	at := m.at
	n := 0
	for {
		got, err := readAt(m.fd, at.buf[n:], int64(n))
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		if n += got; n < len(at.buf) {
			break // a short read of a file is its end
		}
		grown := make([]byte, 4*len(at.buf))
		copy(grown, at.buf)
		at.buf = grown
	}
	f, err := ctlfile.Parse(at.buf[:n])
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	m.File = f
	return nil
}

// take selects the recipients of the job line and, with AgentMarks, locks
// them. The choice is made before any lock, so that of alternatives only the
// first is taken.
func (m *Message) take() {
	s, f := m.at.server, m.File
	host := m.Job.Host
	if host == "" {
		host = s.Host
	}
	var chosen [4]int
	list := chosen[:0]
	for i := range f.Recipients {
		if r := &f.Recipients[i]; r.Tag == ctlfile.Open &&
			(s.Channel == "" || r.Channel == s.Channel) &&
			(host == "" || sameHost(r, host)) && f.Open(i) {
			list = append(list, i)
		}
	}
	if len(list) == 0 {
		return
	}
	all := make([]Recipient, 0, len(list))
	for _, i := range list {
		r := &f.Recipients[i]
		if s.Marking == AgentMarks && !m.swap(r, ctlfile.Open, ctlfile.Locked) {
			continue
		}
		all = append(all, Recipient{Recipient: r, From: f.Senders[r.Sender].Address, message: m, index: i})
	}
	m.Recipients = all
}

// sameHost compares as the scheduler groups: without regard to case, and of a
// list of hosts by its first.
func sameHost(r *ctlfile.Recipient, host string) bool {
	return strings.EqualFold(r.Host, host) ||
		strings.HasPrefix(r.Host, "(") && strings.EqualFold(r.RouteHost(), host)
}

// swap changes a recipient's tag and says whether it was what we thought.
func (m *Message) swap(r *ctlfile.Recipient, from, to ctlfile.Tag) bool {
	done, err := ctlfile.Swap(m.fd, r.Offset, from, to, m.at.pid)
	switch {
	case err != nil:
		m.at.server.warn("%s: %v", m.Job.Path, err)
	case !done && from == ctlfile.Locked:
		m.at.server.warn("%s: the lock at %d was taken away", m.Job.Path, r.Offset)
	}
	return done
}

// findMessage looks for the message file beside the control file.
func (m *Message) findMessage() error {
	dir := m.Job.Path[:strings.LastIndexByte(m.Job.Path, '/')+1]
	m.path = m.at.path("../queue/" + dir + m.File.Name)
	var st syscall.Stat_t
	err := eintr.Retry(func() error { return syscall.Stat(m.path, &st) })
	switch {
	case err != nil:
		return &fs.PathError{Op: "find", Path: m.path, Err: err}
	case st.Mode&syscall.S_IFMT != syscall.S_IFREG:
		return &fs.PathError{Op: "find", Path: m.path, Err: fs.ErrNotExist}
	}
	m.Size, m.owner = st.Size, int64(st.Uid)
	m.ModifiedAt = time.Unix(st.Mtim.Unix())
	return nil
}

// moved says that the control file is no longer where it was opened. Then it
// is no wonder that the message file is not there either.
func (m *Message) moved() bool {
	var opened, there syscall.Stat_t
	if eintr.Retry(func() error { return syscall.Fstat(m.fd, &opened) }) != nil {
		return false
	}
	err := eintr.Retry(func() error { return syscall.Stat(m.at.path(m.Job.Path), &there) })
	return err != nil || there.Ino != opened.Ino || there.Dev != opened.Dev
}

// The system is called directly: the runtime would offer each file to its
// poller first, which takes as long as delivering it.

func openFile(path string, flags int) (fd int, err error) {
	fd, err = eintr.Retry1(func() (int, error) {
		return syscall.Open(path, flags|syscall.O_CLOEXEC|syscall.O_NOCTTY, 0)
	})
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

func readAt(fd int, b []byte, offset int64) (n int, err error) {
	n, err = eintr.Retry1(func() (int, error) { return syscall.Pread(fd, b, offset) })
	return max(n, 0), err
}
