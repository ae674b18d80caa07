package ta

// This file has what an agent does when its scheduler stops or dies: it drops what may be
// tried again, locks the rest and marks it itself.

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
)

// A recipient of an agent that only reports (SchedulerMarks) is not locked while the agent
// works on it. The scheduler knows whose it is, and no other scheduler feeds anything as
// long as an agent of the former one holds its lock on transport/, the barrier:
//
//	start     takes a shared flock(2) on transport/, then says #reports and #hungry
//	Commit    the recipients may be delivered from now on: the final dot is next
//	Report    says the result; the scheduler marks
//	end of file on the socket: the scheduler stops, or is dead, or all our mail is killed
//	          recipients without Commit are dropped, as if they had never been read;
//	          those with it and without a result are locked with our pid;
//	          those that were reported a moment ago are marked, if nobody has;
//	          then the barrier is given up, and if a recipient is locked, #locked is said
//	Report    after that marks the recipient itself; the last one ends the agent
//
// The scheduler waits for the end or the #locked of each agent. The next one waits until
// no agent has the barrier, which takes milliseconds whatever hangs, before it reads a
// control file; then it respects the locks.

// leaving is the state of that.
type leaving struct {
	// gate is held by those who commit or report, for reading, and by the end of file.
	gate    sync.RWMutex
	once    sync.Once
	left    bool
	forced  bool          // mail was dropped or locked: do not wait for sessions
	settled chan struct{} // closed when no locked recipient is left
	locked  atomic.Int64  // locked recipients without a result
	barrier int           // descriptor of transport/, locked; 0: none

	mu     sync.Mutex
	active map[*Message]struct{} // that sessions work on; nil: the scheduler need not mark
	recent []success             // of the messages that ended last, in order
}

// success is a control file with recipients that were reported as delivered. It stays open, so
// that no other file gets its inode.
type success struct {
	path    string
	fd      int
	offsets []int64
	at      time.Time
}

const (
	// recentTime is how long a report may take to be marked by a scheduler that works.
	recentTime = 5 * time.Second
	maxRecent  = 500 // control files
)

// begin takes the barrier and watches the scheduler's end of the socket.
func (s *Server) begin(socket int) {
	l := &s.leaving
	l.settled, l.active = make(chan struct{}), map[*Message]struct{}{}
	dir := s.path(".")
	fd, err := postoffice.OpenDir(postoffice.WorkingDir, dir)
	if err == nil {
		if err = unix.Flock(fd, unix.LOCK_SH); err == nil {
			l.barrier = fd
		}
	}
	if err != nil {
		s.warn("lock %s: %v: a scheduler that starts after a crash cannot wait for this agent", dir, err)
	}
	go func() {
		poll := []unix.PollFd{{Fd: int32(socket), Events: unix.POLLRDHUP}}
		for poll[0].Revents == 0 {
			if _, err := unix.Poll(poll, -1); err != nil && err != unix.EINTR {
				return
			}
		}
		s.leave()
	}()
}

// enter adds a message to those that a session works on. It returns false if the agent
// is leaving.
func (m *Message) enter() bool {
	s := m.session.server
	if s.leaving.active == nil {
		return true
	}
	l := &s.leaving
	l.gate.RLock()
	defer l.gate.RUnlock()
	if l.left {
		return false
	}
	l.mu.Lock()
	l.active[m] = struct{}{}
	l.mu.Unlock()
	for i := range m.Recipients {
		m.Recipients[i].committed = !s.Commits
	}
	return true
}

// exit removes it, and keeps its successes until the scheduler must have marked them.
func (m *Message) exit() {
	l := &m.session.server.leaving
	l.gate.RLock()
	defer l.gate.RUnlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.active, m)
	if l.active == nil || l.left || len(m.delivered) == 0 {
		return
	}
	now := time.Now()
	l.recent = append(l.recent, success{m.Job.Path, m.fd, m.delivered, now})
	m.fd = -1
	old := 0
	for len(l.recent)-old > maxRecent || now.Sub(l.recent[old].at) > recentTime {
		_ = postoffice.Close(l.recent[old].fd)
		old++
	}
	l.recent = l.recent[old:]
}

// release ends all recipients without a result.
func (m *Message) release() {
	l := &m.session.server.leaving
	l.gate.RLock()
	defer l.gate.RUnlock()
	m.releaseRest(nil)
}

// end ends a recipient. The last one that was locked ends the agent.
func (m *Message) end(r *Recipient) {
	r.done = true
	if l := &m.session.server.leaving; l.left && r.committed && l.locked.Add(-1) == 0 {
		close(l.settled)
	}
}

// Commit says that recipients may be delivered from now on. If it returns false, the
// agent is leaving and they must not be: the caller gives up, and what it reports about
// them is dropped.
func (m *Message) Commit(rs ...*Recipient) bool {
	l := &m.session.server.leaving
	l.gate.RLock()
	defer l.gate.RUnlock()
	if l.left {
		return false
	}
	for _, r := range rs {
		r.committed = true
	}
	return true
}

// leave does what is to be done at the end of file, and returns when it is done.
func (s *Server) leave() { s.leaving.once.Do(s.leaveOnce) }

func (s *Server) leaveOnce() {
	l := &s.leaving
	l.gate.Lock()
	l.left = true
	l.forced = len(l.active) > 0
	for _, r := range l.recent {
		if time.Since(r.at) < recentTime {
			s.markDelivered(r.path, r.fd, r.offsets)
		}
	}
	for m := range l.active {
		s.markDelivered(m.Job.Path, m.fd, m.delivered)
		l.locked.Add(int64(m.lock()))
	}
	if l.barrier != 0 {
		_ = postoffice.Close(l.barrier)
	}
	locked := l.locked.Load()
	l.gate.Unlock()
	switch {
	case locked > 0:
		s.out.shutWith(LockedLine + "\n")
	case l.forced:
		s.out.shutWith("")
		close(l.settled)
	}
}

// lock locks the recipients that may have been delivered, and returns their number. The
// control file is opened for writing.
func (m *Message) lock() (n int) {
	for i := range m.Recipients {
		r := &m.Recipients[i]
		if !r.committed || r.done {
			r.committed = false
			continue
		}
		if n++; n == 1 {
			if err := m.reopen(); err != nil {
				m.session.server.warn("%s cannot be locked: %v", m.Job.Path, err)
			}
		}
		m.swap(r.Recipient, ctlfile.Open, ctlfile.Locked)
	}
	return n
}

// reopen opens the control file for writing.
func (m *Message) reopen() error {
	fd, err := m.session.server.openAgain(m.Job.Path, m.fd)
	if err != nil {
		return err
	}
	_ = postoffice.Close(m.fd)
	m.fd = fd
	return nil
}

// openAgain opens a control file for writing that is open already.
func (s *Server) openAgain(path string, opened int) (fd int, err error) {
	fd, err = postoffice.Open(postoffice.WorkingDir, s.path(path), unix.O_RDWR)
	if err != nil {
		return -1, err
	}
	var now, before unix.Stat_t
	if err = postoffice.Fstat(fd, &now); err == nil {
		err = postoffice.Fstat(opened, &before)
	}
	if err == nil && (now.Ino != before.Ino || now.Dev != before.Dev) {
		err = errors.New("it is another file")
	}
	if err != nil {
		_ = postoffice.Close(fd)
		return -1, err
	}
	return fd, nil
}

// markDelivered tags recipients as delivered whose reports the scheduler may not have read.
func (s *Server) markDelivered(path string, opened int, offsets []int64) {
	if len(offsets) == 0 {
		return
	}
	fd, err := s.openAgain(path, opened)
	if err != nil {
		return // it is done, and perhaps its number belongs to another message
	}
	defer func() { _ = postoffice.Close(fd) }()
	for _, offset := range offsets {
		if _, err := ctlfile.Swap(fd, offset, ctlfile.Open, ctlfile.Delivered, 0); err != nil {
			s.warn("%s: %v", path, err)
		}
	}
}

// Left reports whether the agent has left mail undone: its sessions must not be waited for.
func (s *Server) Left() bool {
	s.leaving.gate.RLock()
	defer s.leaving.gate.RUnlock()
	return s.leaving.forced
}
