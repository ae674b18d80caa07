package client

import (
	"errors"
	"strings"

	"zsched/mailq"
)

// Reconnecting queries a server again and again for a program that keeps
// running. If the server has closed the session, Reconnecting begins another,
// because servers close idle sessions. One goroutine at a time uses it.
type Reconnecting struct {
	connect func() (*Client, error)
	client  *Client // nil: no session is open
}

// Snapshot is the queue at one moment.
type Snapshot struct {
	Threads []mailq.Thread
	Totals  *mailq.Totals // nil: see Client.Totals
}

// maxItems is how many jobs of a thread, or lines of a report, are read.
const maxItems = 1000

// NewReconnecting begins the first session, so that it fails at once if the
// server cannot be reached. connect begins a session and logs in.
func NewReconnecting(connect func() (*Client, error)) (*Reconnecting, error) {
	c, err := connect()
	if err != nil {
		return nil, err
	}
	if c.Version == 1 {
		_ = c.Close()
		return nil, c.NeedsVersion2()
	}
	return &Reconnecting{connect: connect, client: c}, nil
}

// do calls ask with a session. If an old session fails, the server may have
// closed it; then do calls ask again with a new one. The orders of the live view
// do no harm when they are given twice.
func (r *Reconnecting) do(ask func(*Client) error) error {
	fresh := r.client == nil
	if fresh {
		c, err := r.connect()
		if err != nil {
			return err
		}
		r.client = c
	}
	err := ask(r.client)
	if err == nil || KindOf(err) == Refused || KindOf(err) == NotDone {
		return err
	}
	r.drop()
	if fresh || errors.Is(err, errEnough) {
		return err
	}
	return r.do(ask)
}

// errEnough ends the reading of a long answer: maxItems were read.
var errEnough = errors.New("more than is shown")

// drop ends the session, perhaps in the middle of an answer.
func (r *Reconnecting) drop() {
	_ = r.client.Close()
	r.client = nil
}

// Snapshot returns all threads and the totals.
func (r *Reconnecting) Snapshot() (*Snapshot, error) {
	var s *Snapshot
	err := r.do(func(c *Client) (err error) {
		s = new(Snapshot)
		for t, err := range c.Threads() {
			if err != nil {
				return err
			}
			s.Threads = append(s.Threads, *t)
		}
		s.Totals, err = c.Totals()
		return err
	})
	return s, err
}

// Jobs returns the first jobs of a thread, and whether there are more.
func (r *Reconnecting) Jobs(name mailq.Name) (jobs []*mailq.Job, more bool, err error) {
	err = r.do(func(c *Client) error {
		jobs = nil
		return c.Jobs([]mailq.Name{name}, func(job *mailq.Job) error {
			if len(jobs) == maxItems {
				return errEnough
			}
			jobs = append(jobs, job)
			return nil
		})
	})
	if errors.Is(err, errEnough) {
		return jobs, true, nil
	}
	return jobs, false, err
}

// Report returns the first lines of a report such as SHOW MSG or EXPLAIN.
func (r *Reconnecting) Report(command string) (lines []string, err error) {
	err = r.do(func(c *Client) error {
		lines = nil
		for line, err := range c.Show(command) {
			if err == nil && len(lines) == maxItems {
				err = errEnough
			}
			if err != nil {
				return err
			}
			lines = append(lines, line)
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return lines, err
}

// Order gives an order and returns the text of the reply.
func (r *Reconnecting) Order(order *mailq.Order) (text string, err error) {
	err = r.do(func(c *Client) (err error) {
		text, err = c.Ask(order.String())
		return err
	})
	return strings.TrimPrefix(text, "OK; "), err
}
