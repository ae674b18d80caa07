package client

import (
	"errors"

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
	Threads []mailq.ThreadItem
	Rings   []mailq.Ring  // nil: the server has no JSON, or refuses them to this user
	Totals  *mailq.Totals // nil: see Client.Totals
}

// maxItems is how many items of a list, or lines of a report, are read.
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
// closed it; then do calls ask again with a new one.
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

// Snapshot returns all threads and rings, and the totals.
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
		if s.Rings, err = c.Rings(); err != nil {
			return err
		}
		s.Totals, err = c.Totals()
		return err
	})
	if err != nil {
		return nil, err // a part of the queue would look like the whole
	}
	return s, nil
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

// Select returns the first jobs that a selection matches, and whether there are
// more.
func (r *Reconnecting) Select(where mailq.Selection) ([]*mailq.Job, bool, error) {
	return objectList[mailq.Job](r, "SHOW WHERE "+where.String())
}

// Held returns the first held messages and threads, and whether there are more.
func (r *Reconnecting) Held() ([]*mailq.HeldItem, bool, error) {
	return objectList[mailq.HeldItem](r, "SHOW HELD")
}

// Reasons returns the last diagnostics of all recipients, grouped.
func (r *Reconnecting) Reasons() ([]*mailq.ReasonItem, error) {
	items, _, err := objectList[mailq.ReasonItem](r, "SHOW REASONS")
	return items, err
}

// objectList returns the first objects of an answer in JSON, and whether there are
// more.
func objectList[T any](r *Reconnecting, command string) (items []*T, more bool, err error) {
	err = r.do(func(c *Client) error {
		items = nil
		json, err := c.HasJSON()
		if err == nil && !json {
			err = errorf(Refused, "%s has no %s", c.options.Server, command)
		}
		if err != nil {
			return err
		}
		for item, err := range Objects[T](c.Show("JSON " + command)) {
			if err == nil && len(items) == maxItems {
				err = errEnough
			}
			if err != nil {
				return err
			}
			items = append(items, item)
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return items, true, nil
	}
	return items, false, err
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

// Orders gives orders one after the other and returns what they did together.
// failed has the errors of those that could not be executed. It stops at any
// other error; then the order that was being given may have been executed. No
// order is given twice.
func (r *Reconnecting) Orders(orders []mailq.Order) (did mailq.Outcome, failed []error, err error) {
	// The server may have closed an old session. A harmless query finds out.
	if err := r.do(func(c *Client) error { _, err := c.Totals(); return err }); err != nil {
		return did, nil, err
	}
	for i := range orders {
		one, err := r.client.Order(&orders[i])
		switch kind := KindOf(err); {
		case err == nil:
			did.Add(one)
		case kind == NotDone:
			failed = append(failed, err)
		default:
			if kind != Refused {
				r.drop()
			}
			return did, failed, err
		}
	}
	return did, failed, nil
}
