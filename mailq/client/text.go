package client

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"zsched/mailq"
)

// This file reads the text of SHOW QUEUE THREADS2 and SHOW THREAD, which servers
// without JSON have (scheduler(8), "MAILQv2 PROTOCOL").

// TextThreads yields the names of all threads, from the lines of SHOW QUEUE THREADS2.
func (c *Client) TextThreads() iter.Seq2[mailq.Name, error] {
	return func(yield func(mailq.Name, error) bool) {
		for line, err := range c.Show("SHOW QUEUE THREADS2") {
			channel, rest, found := strings.Cut(line, "\t")
			host, _, _ := strings.Cut(rest, "\t")
			if err == nil && (channel == "" || !found) {
				err = c.breakOff(errorf(Unavailable, "malformed thread %q", line))
			}
			if !yield(mailq.Name{Channel: channel, Host: host}, err) || err != nil {
				return
			}
		}
	}
}

// TextJobs calls do with each job of each thread, from the lines of SHOW THREAD. It returns the
// first error of do; then the client can only be closed.
func (c *Client) TextJobs(names []mailq.Name, do func(*mailq.Job) error) error {
	for _, name := range names {
		var job *mailq.Job // the last one; more of its recipients may follow
		for line, err := range c.Show(mailq.ShowThread(name)) {
			if err != nil {
				if job != nil { // of a list that breaks off
					_ = do(job)
				}
				return err
			}
			if strings.HasPrefix(line, "#") { // about the thread itself
				continue
			}
			index, one, err := parseRecipient(line)
			switch {
			case err != nil:
				return err
			case job != nil && index > 0 && job.Path == one.Path:
				job.Recipients = append(job.Recipients, one.Recipients...)
				continue
			case job != nil:
				err = do(job)
			}
			if err != nil {
				return err
			}
			one.Name, job = name, one
		}
		if job != nil {
			if err := do(job); err != nil {
				return err
			}
		}
	}
	return nil
}

// parseRecipient reads a line of SHOW THREAD: a job with one of its recipients,
// and the index of that recipient in its job.
func parseRecipient(line string) (index int, job *mailq.Job, err error) {
	malformed := func(what string) error {
		return errorf(Unavailable, "malformed recipient %q: %s", line, what)
	}
	f := strings.SplitN(line, "\t", 11)
	if len(f) > 1 && !isNumber(f[1]) {
		// Servers before ZMailer 2.99.52 do not number the recipients.
		f = append([]string{f[0], "0"}, f[1:]...)
	}
	if len(f) < 10 {
		return 0, nil, malformed("it has too few fields")
	}
	var n [10]int64
	for _, i := range []int{1, 3, 4, 5, 6, 7} {
		if n[i], err = strconv.ParseInt(f[i], 10, 64); err != nil {
			return 0, nil, malformed(fmt.Sprintf("%q is not a number", f[i]))
		}
	}
	// f[8] says in words what the job waits for.
	return int(n[1]), &mailq.Job{
		Path: f[0], SpoolID: f[0][strings.LastIndexByte(f[0], '/')+1:], Sender: f[2],
		ExpiresAt: unixTime(n[4]), WakeAt: unixTime(n[5]), FedAt: unixTime(n[6]),
		Recipients: []mailq.Recipient{{Offset: n[3], Attempts: int(n[7]), Reason: f[9]}},
	}, nil
}

func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 10, 31)
	return err == nil
}

// unixTime returns the time of a time_t. 0 means that there is none.
func unixTime(seconds int64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}
