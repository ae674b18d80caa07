package client

import (
	"strings"

	"zsched/mailq"
)

// TopPicture is the queue at one moment.
type Snapshot struct {
	Threads []mailq.Thread
	Totals  *mailq.Totals // nil where the server does not tell
}

// topJobs is how many job lines of a thread the view shows.
const topJobs = 1000

// ClientSource is a TopSource over a dialogue, which it begins anew when it
// has ended: servers close those that are idle.
type Reconnecting struct {
	connect func() (*Client, error)
	client  *Client // nil: none is open
	old     bool    // the server has no JSON
}

// NewClientSource returns a source whose first dialogue is begun, so that a
// server that cannot be asked is known at once. Connect begins a dialogue and
// logs in.
func NewReconnecting(connect func() (*Client, error)) (*Reconnecting, error) {
	c, err := connect()
	if err != nil {
		return nil, err
	}
	if c.Version == 1 {
		_ = c.Close()
		return nil, fault(Refused, "%s speaks MAILQ version 1, which has only lists", c.server)
	}
	return &Reconnecting{connect: connect, client: c}, nil
}

// with calls do with a dialogue. One that has lasted may have been closed by
// the server in the meantime, and then do is called again with a new one; the
// orders of the view do no harm when they are given twice.
func (s *Reconnecting) with(do func(*Client) error) error {
	fresh := s.client == nil
	if fresh {
		c, err := s.connect()
		if err != nil {
			return err
		}
		s.client = c
	}
	err := do(s.client)
	if err == nil || FaultOf(err) == Refused || FaultOf(err) == NotDone {
		return err
	}
	s.drop()
	if fresh {
		return err
	}
	return s.with(do)
}

// drop ends the dialogue, perhaps in the middle of an answer.
func (s *Reconnecting) drop() {
	_ = s.client.Close()
	s.client = nil
}

// Picture asks for JSON; a server that has none is asked for what it has,
// which is less.
func (s *Reconnecting) Picture() (*Snapshot, error) {
	var p *Snapshot
	err := s.with(func(c *Client) (err error) {
		p = new(Snapshot)
		if !s.old {
			err = p.read(c)
			s.old = FaultOf(err) == Refused
		}
		if s.old {
			err = p.readOld(c)
		}
		return err
	})
	return p, err
}

func (p *Snapshot) read(c *Client) error {
	for item, err := range Objects[mailq.ThreadItem](c.Show("JSON SHOW QUEUE THREADS")) {
		if err != nil {
			return err
		}
		p.Threads = append(p.Threads, item.Thread)
	}
	for totals, err := range Objects[mailq.Totals](c.Show("JSON SHOW SNMP")) {
		if FaultOf(err) == Refused {
			break
		}
		if err != nil {
			return err
		}
		p.Totals = totals
	}
	return nil
}

func (p *Snapshot) readOld(c *Client) error {
	p.Threads = nil
	for line, err := range c.Show("SHOW QUEUE THREADS2") {
		if err != nil {
			return err
		}
		t, err := ThreadLine(line)
		if err != nil {
			return err
		}
		p.Threads = append(p.Threads, t)
	}
	return nil
}

// Jobs implements TopSource.
func (s *Reconnecting) Jobs(name mailq.Name) (jobs []*mailq.Job, more bool, err error) {
	err = s.with(func(c *Client) (err error) {
		if s.old {
			jobs, more, err = oldJobs(c, name)
			return err
		}
		jobs, more = nil, false
		for job, err := range Objects[mailq.Job](c.Show("JSON " + ShowThread(name))) {
			if err != nil {
				return err
			}
			if len(jobs) == topJobs {
				more = true
				break
			}
			jobs = append(jobs, job)
		}
		return nil
	})
	if more {
		// The rest of a long answer is not worth reading.
		s.drop()
	}
	return jobs, more, err
}

func oldJobs(c *Client, name mailq.Name) (jobs []*mailq.Job, more bool, err error) {
	for line, err := range c.Show(ShowThread(name)) {
		if err != nil {
			return nil, false, err
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		r, err := parseRecipient(line)
		if err != nil {
			return nil, false, err
		}
		if r.Index == 0 && len(jobs) == topJobs {
			return jobs, true, nil
		}
		if r.Index == 0 || len(jobs) == 0 {
			jobs = append(jobs, &mailq.Job{Name: name, Path: r.Path, SpoolID: r.Path[strings.LastIndexByte(r.Path, '/')+1:],
				Sender: r.Sender, ExpiresAt: r.ExpiresAt, WakeAt: r.WakeAt, FedAt: r.FedAt})
		}
		job := jobs[len(jobs)-1]
		job.Recipients = append(job.Recipients, mailq.Recipient{Offset: r.Offset, Attempts: r.Attempts, Reason: r.Reason})
	}
	return jobs, false, nil
}

// Text implements TopSource.
func (s *Reconnecting) Text(command string) (lines []string, err error) {
	more := false
	err = s.with(func(c *Client) error {
		lines, more = nil, false
		for line, err := range c.Show(command) {
			if err != nil {
				return err
			}
			if more = len(lines) == topJobs; more {
				break
			}
			lines = append(lines, line)
		}
		return nil
	})
	if more {
		s.drop()
	}
	return lines, err
}

// Give implements TopSource.
func (s *Reconnecting) Give(order *mailq.Order) (text string, err error) {
	err = s.with(func(c *Client) (err error) {
		text, err = c.Ask(order.String())
		return err
	})
	return strings.TrimPrefix(text, "OK; "), err
}
