package ta

// This file works on one job line: it opens the control file, locks its open
// recipients and finds the message file.

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
)

// errNoRecipient says that the control file has no recipient for this job line now.
var errNoRecipient = errors.New("no open recipient")

// errOthersWrite says that users other than ours could have written recipients
// into the control file.
var errOthersWrite = errors.New("others can write the control file")

// errQueueGone says that a message file is missing because its directory is.
var errQueueGone = errors.New("the directory of the message file cannot be opened")

// session works on one job line at a time.
type session struct {
	server *Server
	out    *output
	number int
	pid    int
	agent  string // the Agent of notary fields: "smtp[4711]"
}

func newSession(s *Server, out *output, number int) *session {
	ss := &session{server: s, out: out, number: number, pid: cmp.Or(s.PID, os.Getpid())}
	if s.Name != "" {
		ss.agent = s.Name + "[" + strconv.Itoa(ss.pid) + "]"
	}
	return ss
}

// work does one job line, except for the #hungry that answers it.
func (ss *session) work(job JobLine) {
	m, err := ss.open(job)
	if err != nil {
		// Without a control file there is no mail: an order has removed it, or else the
		// scheduler logs that it is gone.
		if err != errNoRecipient && !errors.Is(err, fs.ErrNotExist) {
			ss.server.warn("%v", err)
		}
		ss.out.line(resyncWord, " ", job.Path)
		return
	}
	defer m.close()
	if !m.enter() {
		return
	}
	defer m.exit()
	switch err := m.findMessage(); {
	case errors.Is(err, errQueueGone), errors.Is(err, fs.ErrNotExist) && m.moved():
		// It is not the message's fault; the scheduler knows what to do.
		if errors.Is(err, errQueueGone) {
			ss.server.warn("%v", err)
		}
		m.release()
		ss.out.line(resyncWord, " ", job.Path)
		return
	case errors.Is(err, fs.ErrNotExist):
		m.reportRest(Failed("5.3.0", "message file is missing; perhaps it should be sent again"))
		ss.out.line(resyncWord, " ", job.Path)
		return
	case err != nil:
		code := "4.3.0"
		if errors.Is(err, postoffice.ErrTooLarge) {
			code = "4.3.4"
		}
		m.reportRest(Failed(code, err.Error()))
		return
	}
	ss.server.Deliver(m)
	m.reportRest(Failed("4.3.0", "the agent reported no result for this address"))
}

// open reads the control file and takes the open recipients of the job line.
// The error is errNoRecipient if there are none.
func (ss *session) open(job JobLine) (*Message, error) {
	s := ss.server
	flags := unix.O_RDWR
	if s.Marking == SchedulerMarks {
		flags = unix.O_RDONLY
	}
	path := ss.server.path(job.Path)
	fd, err := postoffice.Open(postoffice.WorkingDir, path, flags)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	m := &Message{Job: job, Session: ss.number, session: ss, fd: fd}
	if s.Syslog != nil {
		m.openedAt = time.Now()
	}
	err = m.checkOwner()
	number, ok := ctlfile.Number(filepath.Base(job.Path))
	if !ok {
		err = fmt.Errorf("control file %q has no number", job.Path)
	}
	m.ID = number
	if err == nil {
		host := cmp.Or(job.Host, s.Host)
		if err = m.read(path, host); err == nil {
			m.take(host)
		}
	}
	if err == nil && len(m.Recipients) == 0 {
		err = errNoRecipient
	}
	if err != nil {
		m.close()
		return nil, err
	}
	return m, nil
}

// checkOwner refuses a control file that others could have written recipients into:
// one that everybody may write to and, if we are root, one that is not root's.
func (m *Message) checkOwner() error {
	st := &m.opened
	err := postoffice.Fstat(m.fd, st)
	switch {
	case err != nil:
		return fmt.Errorf("stat %s: %w", m.Job.Path, err)
	case st.Mode&unix.S_IWOTH != 0,
		st.Uid != 0 && os.Geteuid() == 0 && !m.session.server.SenderOwned:
		return fmt.Errorf("%s: %w: its owner is %d, its mode %04o", m.Job.Path, errOthersWrite, st.Uid, st.Mode&0o7777)
	}
	return nil
}

// path completes a name that is relative to the transport directory.
func (s *Server) path(name string) string {
	if s.Dir == "" {
		return name
	}
	return s.Dir + "/" + name
}

// read reads the control file. Of a large one it has perhaps only the recipients of the job line.
func (m *Message) read(path, host string) (err error) {
	if m.File, err = m.session.server.recent.Read(m.fd, m.opened.Size, host); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// take selects the recipients of the job line and, with AgentMarks, locks them.
// It selects before it locks, so that only the first of alternative recipients
// is taken.
func (m *Message) take(host string) {
	s, f := m.session.server, m.File
	var few [4]int
	list := f.AppendAtHost(few[:0], host)
	list = slices.DeleteFunc(list, func(i int) bool {
		return s.Channel != "" && f.Recipients[i].Channel != s.Channel || !f.Open(i)
	})
	m.Recipients = make([]Recipient, 0, len(list))
	for _, i := range list {
		r := &f.Recipients[i]
		if s.Marking != AgentMarks || m.swap(r, ctlfile.Open, ctlfile.Locked) {
			m.Recipients = append(m.Recipients, Recipient{Recipient: r, From: f.Senders[r.Sender].Address, message: m, index: i})
		}
	}
}

// findMessage looks for the message file in queue/, in the directory that
// corresponds to the control file's.
func (m *Message) findMessage() error {
	dir := m.session.server.path("../queue/" + m.Job.Path[:strings.LastIndexByte(m.Job.Path, '/')+1])
	m.path = dir + m.File.Name
	var st unix.Stat_t
	err := postoffice.Stat(postoffice.WorkingDir, m.path, &st)
	if err == unix.ENOENT {
		err = m.session.find(dir, m.File.Name, &st)
	}
	tooLarge := postoffice.CheckSize(&st, m.File.Body, m.session.server.MaxSize)
	switch {
	case err != nil:
		return &fs.PathError{Op: "find", Path: m.path, Err: err}
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return &fs.PathError{Op: "find", Path: m.path, Err: fs.ErrNotExist}
	case tooLarge != nil:
		return tooLarge
	case st.Size < m.File.Body:
		return fmt.Errorf("the message file is damaged: it has %d bytes, and its body begins after %d", st.Size, m.File.Body)
	}
	m.Size = st.Size
	m.ModifiedAt = time.Unix(st.Mtim.Unix())
	return nil
}

// openQueue opens the directory queue/ and says which it is.
func openQueue(path string, st *unix.Stat_t) (fd int, err error) {
	if fd, err = postoffice.OpenDir(postoffice.WorkingDir, path); err != nil {
		return fd, err
	}
	if err = postoffice.Fstat(fd, st); err != nil {
		_ = postoffice.Close(fd)
	}
	return fd, err
}

// find is Stat for a name in a directory below queue/. The error is errQueueGone if there
// is no such directory, or if queue/ is not the one of the agent's start: a volume may have
// been mounted over the postoffice.
func (ss *session) find(dir, name string, st *unix.Stat_t) error {
	root := ss.server.path("../queue/")
	var now unix.Stat_t
	queue, err := openQueue(root, &now)
	if err != nil {
		return fmt.Errorf("%w: %w", errQueueGone, err)
	}
	defer postoffice.Close(queue)
	if was := &ss.server.queue; was.Ino != 0 && (now.Ino != was.Ino || now.Dev != was.Dev) {
		return fmt.Errorf("%w: queue/ is not the directory that it was when the agent started", errQueueGone)
	}
	below, err := postoffice.OpenDir(queue, "./"+strings.TrimPrefix(dir, root))
	if err != nil {
		return fmt.Errorf("%w: %w", errQueueGone, err)
	}
	defer postoffice.Close(below)
	return postoffice.Stat(below, name, st)
}

// moved reports whether the control file is no longer where it was opened. If
// so, the message file was moved with it and is not missing.
func (m *Message) moved() bool {
	var there unix.Stat_t
	err := postoffice.Stat(postoffice.WorkingDir, m.session.server.path(m.Job.Path), &there)
	return err != nil || there.Ino != m.opened.Ino || there.Dev != m.opened.Dev
}
