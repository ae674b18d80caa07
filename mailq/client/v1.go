package client

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"

	"zsched/mailq"
)

// Dump is the dump of a server of version 1.
type Dump struct {
	// Threads are in the order in which ZMailer's client prints them: the last
	// one that the server lists is the first.
	Threads []DumpThread
}

// DumpThread is the mail for one channel and host.
type DumpThread struct {
	mailq.Name
	Jobs []DumpJob
}

// DumpJob is a line of "Vertices:".
type DumpJob struct {
	Path       string // of the control file below transport/
	Recipients int
	Offsets    []int64 // of the recipients in the control file
	Text       string  // the last diagnostic and what it waits for
	HasText    bool    // the line has a text, which may be empty
}

// Dump reads the jobs of a dump, up to "End:". Rest yields what follows.
func (c *Client) Dump() (*Dump, error) {
	b := dumpReader{texts: make(map[string]string), jobs: make(map[uint64]*dumpJob)}
	for {
		line, err := c.line()
		if err != nil {
			return nil, c.unexpectedEnd(err)
		}
		done, err := b.line(line)
		if err != nil {
			return nil, c.breakOff(errorf(Unavailable, "%s: %w", c.options.Server, err))
		}
		if done {
			return b.dump(), nil
		}
	}
}

// SkipDump skips the jobs of a dump.
func (c *Client) SkipDump() error {
	for {
		line, err := c.line()
		if err != nil {
			return c.unexpectedEnd(err)
		}
		if strings.HasPrefix(line, dumpEnd) {
			return nil
		}
	}
}

// Rest yields the lines after the jobs of a dump: the report on threads.
func (c *Client) Rest() iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for {
			line, err := c.line()
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(line, err) || err != nil {
				return
			}
		}
	}
}

// The parts of a dump.
const (
	dumpJobs     = "Vertices:"
	dumpChannels = "Channels:"
	dumpHosts    = "Hosts:"
	dumpEnd      = "End:"
)

// dumpJob is a job while the dump is read.
type dumpJob struct {
	DumpJob
	channel, host string
	listed        bool // in its thread
}

// dumpReader reads a dump line by line.
type dumpReader struct {
	part  string
	texts map[string]string // interned: jobs of a thread have the same text
	jobs  map[uint64]*dumpJob
	// channels and hosts have the jobs of each, in the order of the dump.
	channels, hosts index
}

// index has the lines of "Channels:" or "Hosts:".
type index struct {
	names []string
	jobs  map[string][]*dumpJob
}

func (x *index) add(name string, jobs []*dumpJob) {
	if x.jobs == nil {
		x.jobs = make(map[string][]*dumpJob)
	}
	if _, known := x.jobs[name]; !known {
		x.names = append(x.names, name)
	}
	x.jobs[name] = append(x.jobs[name], jobs...)
}

func (b *dumpReader) line(line string) (done bool, err error) {
	switch {
	case b.part == "":
		if line != dumpJobs {
			return false, fmt.Errorf("found %q instead of %q", line, dumpJobs)
		}
		b.part = line
		return false, nil
	case strings.HasPrefix(line, dumpEnd):
		return true, nil
	case line == dumpChannels && b.part == dumpJobs, line == dumpHosts && b.part == dumpChannels:
		b.part = line
		return false, nil
	case b.part == dumpJobs:
		return false, b.job(line)
	}
	return false, b.indexLine(line)
}

// job reads "KEY:\tFILE\tN; OFFSET,OFFSET\t#TEXT". There may be spaces in place
// of the TABs, and the part from the last TAB on may be missing.
func (b *dumpReader) job(line string) error {
	malformed := fmt.Errorf("malformed message %q", line)
	name, rest, ok := strings.Cut(line, ":")
	key, err := strconv.ParseUint(name, 10, 64)
	if !ok || err != nil {
		return malformed
	}
	path, rest, ok := cutBlank(rest)
	if !ok {
		return malformed
	}
	number, rest, ok := strings.Cut(strings.TrimLeft(rest, " \t"), ";")
	if !ok {
		return malformed
	}
	job := &dumpJob{DumpJob: DumpJob{Path: path}}
	if job.Recipients, err = strconv.Atoi(number); err != nil || job.Recipients < 1 {
		return malformed
	}
	offsets, text, found := strings.Cut(rest, "#")
	for offset := range strings.SplitSeq(strings.TrimSpace(offsets), ",") {
		n, err := strconv.ParseInt(offset, 10, 64)
		if err != nil {
			return malformed
		}
		job.Offsets = append(job.Offsets, n)
	}
	job.Text, job.HasText = b.intern(text), found
	b.jobs[key] = job
	return nil
}

// cutBlank takes the first word off s.
func cutBlank(s string) (word, rest string, ok bool) {
	s = strings.TrimLeft(s, " \t")
	end := strings.IndexAny(s, " \t")
	if end <= 0 {
		return "", "", false
	}
	return s[:end], s[end:], true
}

// intern returns the same string for all equal texts.
func (b *dumpReader) intern(text string) string {
	if known, ok := b.texts[text]; ok {
		return known
	}
	b.texts[text] = text
	return text
}

// indexLine reads "NAME:\t>KEY>KEY". A key that no job has is skipped: ZMailer's
// server lists messages that it has not numbered.
func (b *dumpReader) indexLine(line string) error {
	name, keys, ok := strings.Cut(line, ":\t>")
	if !ok {
		return fmt.Errorf("malformed list of messages %q", line)
	}
	var jobs []*dumpJob
	for key := range strings.SplitSeq(keys, ">") {
		n, err := strconv.ParseUint(key, 10, 64)
		if err != nil {
			return fmt.Errorf("malformed key %q in the messages of %q", key, name)
		}
		job := b.jobs[n]
		if job == nil {
			continue
		}
		jobs = append(jobs, job)
		if b.part == dumpChannels {
			job.channel = name
		} else {
			job.host = name
		}
	}
	if b.part == dumpChannels {
		b.channels.add(name, jobs)
	} else {
		b.hosts.add(name, jobs)
	}
	return nil
}

// dump builds the threads. A host may have mail in several channels; ZMailer's
// client prints all of it under one of them.
func (b *dumpReader) dump() *Dump {
	threads := make(map[mailq.Name]*DumpThread)
	// The jobs of a thread are in the reverse order of their host's list, as
	// ZMailer's client prints them.
	for host, jobs := range b.hosts.jobs {
		for i := len(jobs) - 1; i >= 0; i-- {
			job := jobs[i]
			if job.listed || job.host != host || job.channel == "" {
				continue
			}
			job.listed = true
			name := mailq.Name{Channel: job.channel, Host: host}
			if threads[name] == nil {
				threads[name] = &DumpThread{Name: name}
			}
			threads[name].Jobs = append(threads[name].Jobs, job.DumpJob)
		}
	}
	d := new(Dump)
	for i := len(b.channels.names) - 1; i >= 0; i-- {
		channel := b.channels.names[i]
		jobs := b.channels.jobs[channel]
		for j := len(jobs) - 1; j >= 0; j-- {
			name := mailq.Name{Channel: channel, Host: jobs[j].host}
			if t := threads[name]; t != nil {
				d.Threads = append(d.Threads, *t)
				delete(threads, name)
			}
		}
	}
	return d
}
