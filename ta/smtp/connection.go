// This file holds the states of a connection: opening, idle, working, gone.

package smtp

import (
	"errors"
	"time"
)

// These are the states of a connection. The jobs that remain when a connection
// closes are assigned again.
//
//	          opened            job               job
//	opening ──────────► idle ◄───────► working ──────► working …
//	   │ refused         │ aged, evicted   │ aged: QUIT
//	   ▼                 ▼ lost            ▼ broken
//	 gone ◄──────────────┴─────────────────┘

// start starts the goroutine of a connection that the pool decided to open.
func (a *Agent) start(c *conn) {
	a.running.Go(func() {
		if c.after != nil {
			<-c.after.gone
		}
		a.title("connecting to " + c.target.name)
		if j := a.pool.next(c); j != nil {
			c.spoolID = a.spoolID(j)
		}
		s, failed := a.opener.open(c)
		if failed != nil {
			a.pool.refused(c, failed)
			return
		}
		a.pool.connected(c)
		a.run(c, s)
		a.pool.closed(c)
	})
}

// run does the jobs of a connection, and closes it when it is broken or no longer
// wanted.
func (a *Agent) run(c *conn, s *session) {
	for {
		var err error
		if j := a.pool.next(c); j != nil {
			err = a.work(c, s, j)
		} else {
			err = a.idle(c, s)
		}
		switch {
		case err == errUnwanted:
			s.quit()
			return
		case err != nil:
			s.close()
			return
		}
	}
}

// work does one job. The error says why the connection is to be closed: errUnwanted
// means that nothing is wrong with it. After errRequeue the job is still in c.jobs and is
// assigned again.
func (a *Agent) work(c *conn, s *session, j *job) error {
	if s.spoolID = a.spoolID(j); s.spoolID != "" {
		a.title(c.target.name + " " + s.spoolID)
	}
	err := a.do(c, s, j)
	if errors.Is(err, errRequeue) {
		return err
	}
	s.spoolID = ""
	goOn := a.pool.finish(c, err == nil)
	close(j.done)
	if err == nil && !goOn {
		err = errUnwanted
	}
	return err
}

// borrow does a job on a parked connection that the pool has lent to the goroutine
// of the job's message. That saves waking the connection's goroutine and waiting for it.
func (a *Agent) borrow(c *conn, s *session, j *job) {
	err := errSpoke
	if !s.hasInput() {
		err = a.work(c, s, j)
	}
	a.pool.mu.Lock()
	defer a.pool.mu.Unlock()
	if err == nil && len(c.jobs) == 0 && a.pool.linked(c) {
		c.parked = s
		return
	}
	c.returned <- err
}

// spoolID returns the spoolid of a job's message, or "" if neither the log nor the
// title needs it.
func (a *Agent) spoolID(j *job) string {
	if a.o.Log == nil && a.o.Title == nil {
		return ""
	}
	return j.delivery.message.SpoolID()
}

var (
	errUnwanted = errors.New("the connection is no longer wanted")
	// errRequeue means that the connection ended before the server answered
	// anything about the job.
	errRequeue = errors.New("the connection ended before the message")
	// errSpoke means that something has arrived on an idle connection: its end, or
	// a line that answers nothing.
	errSpoke = errors.New("something arrived on an idle connection")
)

// parkTime is the longest time for which an idle connection is parked before its
// goroutine watches for its end.
const parkTime = time.Second

// idle waits for a job. It returns nil when there may be one, errUnwanted when
// the connection is to be closed with QUIT, and another error when the server has
// closed it or broke the protocol.
func (a *Agent) idle(c *conn, s *session) error {
	p := &a.pool
	limit := p.limits.Idle
	if s.canPeek() {
		parked := min(parkTime, limit/2)
		if over, err := a.park(c, s, parked); over {
			return err
		}
		limit -= parked
	}
	p.mu.Lock()
	if len(c.jobs) > 0 || !p.linked(c) {
		defer p.mu.Unlock()
		if !p.linked(c) {
			return errUnwanted
		}
		return nil
	}
	c.waiting = s
	err := s.nc.SetReadDeadline(time.Now().Add(limit))
	p.mu.Unlock()
	if err == nil {
		err = a.watch(s)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c.waiting = nil
	switch {
	case !isTimeout(err):
		return err
	case !p.linked(c) || len(c.jobs) == 0:
		return errUnwanted
	}
	return nil
}

// watch reads ahead on an idle connection. The error is the connection's, or
// errProtocol if the server sent anything.
func (a *Agent) watch(s *session) error {
	_, err := s.r.Peek(1)
	switch {
	case err == nil:
		line, _ := s.line() // perhaps a 421, for the log
		s.trace(theirs, line)
		return errProtocol
	case !isTimeout(err):
		s.trace(theirs, "("+why(err)+")")
	}
	return err
}

// park waits while the connection is parked or lent. over is true if the connection has
// been woken for a job, is no longer wanted or can no longer be used, and false if nobody
// has used it for the time limit.
func (a *Agent) park(c *conn, s *session, limit time.Duration) (over bool, err error) {
	p := &a.pool
	p.mu.Lock()
	if len(c.jobs) > 0 || !p.linked(c) {
		p.mu.Unlock()
		return false, nil
	}
	c.parked = s
	p.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case err := <-c.returned:
			if err == errSpoke {
				if err = s.nc.SetReadDeadline(time.Now().Add(parkTime)); err == nil {
					err = a.watch(s)
				}
			}
			return true, err
		case <-timer.C:
		}
		p.mu.Lock()
		rest := limit - time.Since(c.idleSince)
		if c.parked != nil && rest <= 0 {
			c.parked = nil
			p.mu.Unlock()
			return false, nil
		}
		p.mu.Unlock()
		if rest <= 0 {
			rest = limit // it is lent
		}
		timer.Reset(rest)
	}
}

// wake ends the wait of an idle connection. The pool's lock is held.
func wake(c *conn) {
	if c.parked != nil {
		c.parked = nil
		c.returned <- nil
	}
	if c.waiting != nil {
		_ = c.waiting.nc.SetReadDeadline(time.Unix(1, 0))
	}
}
