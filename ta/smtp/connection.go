// This file holds the states of a connection: opening, idle, working, gone.

package smtp

import (
	"errors"
	"net"
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
		j := a.pool.next(c)
		if j == nil {
			switch a.idle(c, s) {
			case errUnwanted:
				s.quit()
				return
			case nil:
				continue
			}
			s.close()
			return
		}
		if s.spoolID = a.spoolID(j); s.spoolID != "" {
			a.title(c.target.name + " " + s.spoolID)
		}
		err := a.do(c, s, j)
		if errors.Is(err, errRequeue) {
			s.close()
			return // the job is still in c.jobs and is assigned again
		}
		s.spoolID = ""
		goOn := a.pool.finish(c, err == nil)
		close(j.done)
		if err != nil {
			s.close()
			return
		}
		if !goOn {
			s.quit()
			return
		}
	}
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
)

// idle waits for a job. It returns nil when there may be one, errUnwanted when
// the connection is to be closed with QUIT, and another error when the server has
// closed it or broke the protocol.
func (a *Agent) idle(c *conn, s *session) error {
	p := &a.pool
	p.mu.Lock()
	if len(c.jobs) > 0 || !p.linked(c) {
		defer p.mu.Unlock()
		if !p.linked(c) {
			return errUnwanted
		}
		return nil
	}
	c.waiting = s
	err := s.nc.SetReadDeadline(time.Now().Add(p.limits.Idle))
	p.mu.Unlock()
	if err == nil {
		_, err = s.r.Peek(1)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c.waiting = nil
	var timeout net.Error
	switch {
	case err == nil:
		line, _ := s.line() // perhaps a 421, for the log
		s.trace(theirs, line)
		return errProtocol
	case !errors.As(err, &timeout) || !timeout.Timeout():
		s.trace(theirs, "("+why(err)+")")
		return err
	case !p.linked(c) || len(c.jobs) == 0:
		return errUnwanted
	}
	return nil
}

// wake ends the wait of an idle connection. The pool's lock is held.
func wake(c *conn) {
	if c.waiting != nil {
		_ = c.waiting.nc.SetReadDeadline(time.Unix(1, 0))
	}
}
