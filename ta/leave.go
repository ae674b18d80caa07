package ta

// This file has what an agent does when its scheduler stops or dies: it drops what may be
// tried again, locks the rest and marks it itself.

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
)

// A recipient of an agent that only reports (Server.Reports) is not locked while the agent
// works on it. The scheduler knows whose it is, and no other scheduler feeds anything as
// long as an agent of the former one holds its lock on transport/, the barrier:
//
//	start     takes a shared flock(2) on transport/, then says #reports and #hungry
//	Commit    the recipients may be delivered from now on: the final dot is next
//	Report    says the result; the scheduler marks
//	end of file on the socket: the scheduler stops, or is dead
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
	active map[*Message]struct{} // that sessions work on
	recent []success             // the last ones, in order
}

// success is a recipient that was reported as delivered, and its control file.
type success struct {
	path   string
	opened identity
	logID  string // the Message-ID; "": none
	user   string
	offset int64
	at     time.Time
}

const (
	// recentTime is how long a report may take to be marked by a scheduler that works.
	recentTime = 5 * time.Second
	maxRecent  = 8192
	// maxTick is the longest step of the clock that files get their times from. A file that
	// is made after a report has a later time than one that was a step old by then.
	maxTick = 20 * time.Millisecond
)

// identity says which file was opened, and in which state.
type identity struct {
	dev, ino uint64
	changed  unix.Timespec
	size     int64
}

func identityOf(st *unix.Stat_t) identity { return identity{st.Dev, st.Ino, st.Ctim, st.Size} }

func (id identity) sameFile(other identity) bool { return id.dev == other.dev && id.ino == other.ino }

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
	if !s.Reports {
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

// exit removes it.
func (m *Message) exit() {
	l := &m.session.server.leaving
	l.gate.RLock()
	defer l.gate.RUnlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.active, m)
}

// release ends all recipients without a result.
func (m *Message) release() {
	l := &m.session.server.leaving
	l.gate.RLock()
	defer l.gate.RUnlock()
	m.releaseRest(nil)
}

// marks reports whether we mark recipients: for ZMailer's scheduler, and after the end of
// ours. The caller holds the gate.
func (m *Message) marks() bool {
	s := m.session.server
	return s.Marking == ctlfile.AgentMarks || s.leaving.left
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
	ours := map[string]identity{}
	for _, r := range l.recent {
		if time.Since(r.at) < recentTime {
			s.markReported(r, ours)
		}
	}
	for m := range l.active {
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
	fd, _, err := m.session.server.openSame(m.Job.Path, identityOf(&m.opened))
	if err != nil {
		return err
	}
	_ = postoffice.Close(m.fd)
	m.fd = fd
	return nil
}

// openSame opens a control file for writing if it is the one that was opened before.
func (s *Server) openSame(path string, opened identity) (fd int, now identity, err error) {
	fd, err = postoffice.Open(postoffice.WorkingDir, s.path(path), unix.O_RDWR)
	if err != nil {
		return -1, now, err
	}
	var st unix.Stat_t
	err = postoffice.Fstat(fd, &st)
	if now = identityOf(&st); err == nil && !now.sameFile(opened) {
		err = fmt.Errorf("it is another file")
	}
	if err != nil {
		_ = postoffice.Close(fd)
		return -1, now, err
	}
	return fd, now, nil
}

// remember keeps a success until the scheduler must have marked it.
func (m *Message) remember(r *Recipient) {
	now := time.Now()
	if m.File.LogID == "" && now.Sub(time.Unix(m.opened.Ctim.Unix())) < maxTick {
		return // its file could be taken for the next one with this inode
	}
	l := &m.session.server.leaving
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.recent) == maxRecent {
		l.recent = append(l.recent[:0], l.recent[maxRecent/2:]...)
	}
	l.recent = append(l.recent, success{m.Job.Path, identityOf(&m.opened), m.File.LogID, r.User, r.Offset, now})
}

// markReported tags a recipient as delivered whose report the scheduler may not have
// read. A control file that has changed since we opened it may be that of another message
// with the same inode: then it stays as it is, unless it has the Message-ID and the recipient
// of ours. ours has the files that we have changed here, and how they are now.
func (s *Server) markReported(r success, ours map[string]identity) {
	fd, now, err := s.openSame(r.path, r.opened)
	if err != nil {
		return // it is done
	}
	defer func() { _ = postoffice.Close(fd) }()
	if now != r.opened && now != ours[r.path] && !r.isIn(fd, now.size) {
		return
	}
	if _, err := ctlfile.Swap(fd, r.offset, ctlfile.Open, ctlfile.Delivered, 0); err != nil {
		s.warn("%s: %v", r.path, err)
	}
	var st unix.Stat_t
	if postoffice.Fstat(fd, &st) == nil {
		ours[r.path] = identityOf(&st)
	}
}

// maxCompared is the size of the largest control file that isIn reads.
const maxCompared = 1 << 20

// isIn reports whether a control file is that of the recipient's message, by its contents.
func (r *success) isIn(fd int, size int64) bool {
	if r.logID == "" || size > maxCompared {
		return false
	}
	text := make([]byte, size)
	n, err := postoffice.Pread(fd, text, 0)
	if err != nil {
		return false
	}
	f, err := ctlfile.Parse(text[:n])
	if err != nil || f.LogID != r.logID {
		return false
	}
	i := f.Find(r.offset)
	return i >= 0 && f.Recipients[i].User == r.user
}

// Left reports whether the agent has left mail undone: its sessions must not be waited for.
func (s *Server) Left() bool {
	s.leaving.gate.RLock()
	defer s.leaving.gate.RUnlock()
	return s.leaving.forced
}
