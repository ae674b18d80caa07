// This file does jobs over connections: it opens them, uses them and closes them.

package smtp

import (
	"errors"
	"slices"
	"time"

	"zsched/ta"
)

// quitTimeout is how long the reply to QUIT may take.
const quitTimeout = 2 * time.Second

// errRequeue means that the connection ended before the server answered anything about
// the job.
var errRequeue = errors.New("the connection ended before the message")

// work does a job, in the goroutine of its message, over the connections that the pool gives
// it. Its recipients are reported when it returns.
func (a *Agent) work(j *job) {
	a.pool.submit(j)
	for {
		c := <-j.turn
		if c == nil {
			a.noTarget(j)
			return
		}
		if a.obtain(c, j) && a.use(c, j) {
			return
		}
	}
}

// obtain opens a connection, or makes sure that an idle one has not ended. After false the
// job gets another one.
func (a *Agent) obtain(c *conn, j *job) bool {
	if c.session != nil {
		if c.session.hasInput() {
			// It has ended, or the server said something that answers nothing.
			c.close()
			a.pool.closed(c)
			return false
		}
		return true
	}
	if c.victim != nil {
		c.victim.quit()
		c.victim = nil
	}
	if i := slices.IndexFunc(j.recipients, func(r *ta.Recipient) bool { return !r.Reported() }); i >= 0 {
		j.recipients[i].Connecting(c.target.site())
	}
	s, failed := a.opener.open(c, a.spoolID(j))
	if failed != nil {
		a.pool.refused(c, failed)
		return false
	}
	a.pool.connected(c)
	c.session = s
	c.timer = time.AfterFunc(a.pool.limits.Idle, func() { a.expire(c) })
	return true
}

// use does a job on a connection. It returns false if the server has not answered anything
// about it, so that another connection may try it.
func (a *Agent) use(c *conn, j *job) bool {
	s := c.session
	s.spoolID = a.spoolID(j)
	err := a.do(c, j)
	if errors.Is(err, errRequeue) {
		c.close()
		a.pool.closed(c)
		return false
	}
	s.spoolID = ""
	c.timer.Reset(a.pool.limits.Idle)
	switch {
	case a.pool.finish(c, err == nil):
	case err == nil:
		// The peer counts the connection until it has seen its end. The scheduler counts it
		// until the job ends.
		_, _ = s.command(quitTimeout, "QUIT")
		c.close()
	default:
		c.close()
	}
	return true
}

// quit ends a connection that works.
func (c *conn) quit() {
	c.timer.Stop()
	c.session.quit()
}

// close ends a connection that does not.
func (c *conn) close() {
	c.timer.Stop()
	c.session.close()
}

// spoolID returns the spoolid of a job's message, or "" if there is no log that needs it.
func (a *Agent) spoolID(j *job) string {
	if a.o.Log == nil {
		return ""
	}
	return j.message.SpoolID()
}

// expire closes a connection that has been idle for long.
func (a *Agent) expire(c *conn) {
	switch expired, rest := a.pool.expire(c); {
	case expired:
		c.quit()
	case rest > 0:
		c.timer.Reset(rest)
	}
}

// Close closes all connections. The caller ensures that no Deliver is under way.
func (a *Agent) Close() {
	a.pool.mu.Lock()
	all := a.pool.conns
	a.pool.conns, a.pool.hosts = nil, map[string][]*conn{}
	a.pool.mu.Unlock()
	for _, c := range all {
		c.quit()
	}
}
