package smtp

import (
	"errors"
	"net"
	"time"
)

// A connection's life:
//
//	          opened            job               job
//	opening ──────────► idle ◄───────► working ──────► working …
//	   │ refused         │ aged, evicted   │ aged: QUIT
//	   ▼                 ▼ lost            ▼ broken
//	 gone ◄──────────────┴─────────────────┘   jobs left are placed anew

// start runs a connection that the pool has decided on.
func (a *Agent) start(c *conn) {
	a.running.Go(func() {
		if c.after != nil {
			<-c.after.gone
		}
		a.title("connecting to " + c.target.name)
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

// run does the jobs of a connection until it is to be closed, and closes it.
func (a *Agent) run(c *conn, s *session) {
	for {
		j := a.pool.next(c)
		if j == nil {
			switch a.idle(c, s) {
			case errAged:
				s.quit()
				return
			case nil:
				continue
			}
			s.close()
			return
		}
		a.title(c.target.name + " " + j.work.message.SpoolID())
		err := a.work(c, s, j)
		if errors.Is(err, errRescue) {
			s.close()
			return // closed places the job anew
		}
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

var (
	// errAged: the connection is no longer wanted.
	errAged = errors.New("the connection is no longer wanted")
	// errRescue: the connection ended before anything was said of the job.
	errRescue = errors.New("the connection ended before the message")
)

// idle waits for a job. It is nil when there may be one, errAged when it is
// time to go, and another error when the peer has gone.
func (a *Agent) idle(c *conn, s *session) error {
	p := &a.pool
	p.mu.Lock()
	if len(c.jobs) > 0 || !p.linked(c) {
		defer p.mu.Unlock()
		return errIf(!p.linked(c), errAged)
	}
	c.io = s
	err := s.nc.SetReadDeadline(time.Now().Add(p.limits.Idle))
	p.mu.Unlock()
	if err == nil {
		_, err = s.r.Peek(1)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c.io = nil
	var timeout net.Error
	switch {
	case err == nil:
		line, _ := s.line() // what it says as it goes
		s.trace(theirs, line)
		return errProtocol
	case !errors.As(err, &timeout) || !timeout.Timeout():
		s.trace(theirs, "("+why(err)+")")
		return err
	case !p.linked(c) || len(c.jobs) == 0:
		return errAged
	}
	return nil
}

func errIf(condition bool, err error) error {
	if condition {
		return err
	}
	return nil
}

// wake ends the wait of an idle connection. The pool's lock is held.
func wake(c *conn) {
	if c.io != nil {
		_ = c.io.nc.SetReadDeadline(time.Unix(1, 0))
	}
}
