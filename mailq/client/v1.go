package client

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"slices"
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
	b := dumpReader{jobs: make(map[uint64]*dumpJob)}
	for {
		line, err := c.line()
		if err != nil {
			return nil, c.unexpectedEnd(err)
		}
		if b.part != "" && strings.HasPrefix(line, dumpEnd) {
			return b.dump(), nil
		}
		if err := b.line(line); err != nil {
			return nil, c.breakOff(errorf(Unavailable, "%s: %w", c.options.Server, err))
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

// dumpList is a line of "Channels:" or "Hosts:".
type dumpList struct {
	name string
	jobs []*dumpJob
}

// dumpReader reads a dump line by line.
type dumpReader struct {
	part            string
	jobs            map[uint64]*dumpJob
	channels, hosts []dumpList // in the order of the dump
}

func (b *dumpReader) line(line string) error {
	switch {
	case b.part == "" && line != dumpJobs:
		return fmt.Errorf("found %q instead of %q", line, dumpJobs)
	case b.part == "", line == dumpChannels && b.part == dumpJobs, line == dumpHosts && b.part == dumpChannels:
		b.part = line
		return nil
	case b.part == dumpJobs:
		return b.job(line)
	}
	return b.list(line)
}

// dumpLine matches "KEY:\tFILE\tN; OFFSET,OFFSET\t#TEXT". There may be spaces in place
// of the TABs, and the part from the last TAB on may be missing.
var dumpLine = regexp.MustCompile(`^(\d+):[ \t]*([^ \t]+)[ \t]+(\d+);[ \t]*(\d+(?:,\d+)*)[ \t]*(?:(#)(.*))?$`)

func (b *dumpReader) job(line string) error {
	part := dumpLine.FindStringSubmatch(line)
	if part == nil {
		return fmt.Errorf("malformed message %q", line)
	}
	key, err := strconv.ParseUint(part[1], 10, 64)
	job := &dumpJob{DumpJob: DumpJob{Path: part[2], Text: part[6], HasText: part[5] != ""}}
	var number error
	job.Recipients, number = strconv.Atoi(part[3])
	err = errors.Join(err, number)
	for offset := range strings.SplitSeq(part[4], ",") {
		n, number := strconv.ParseInt(offset, 10, 64)
		job.Offsets, err = append(job.Offsets, n), errors.Join(err, number)
	}
	if err != nil || job.Recipients < 1 {
		return fmt.Errorf("malformed message %q", line)
	}
	b.jobs[key] = job
	return nil
}

// list reads "NAME:\t>KEY>KEY". A key that no job has is skipped: ZMailer's
// server lists messages that it has not numbered.
func (b *dumpReader) list(line string) error {
	name, keys, ok := strings.Cut(line, ":\t>")
	if !ok {
		return fmt.Errorf("malformed list of messages %q", line)
	}
	list := dumpList{name: name}
	for key := range strings.SplitSeq(keys, ">") {
		n, err := strconv.ParseUint(key, 10, 64)
		if err != nil {
			return fmt.Errorf("malformed key %q in the messages of %q", key, name)
		}
		job := b.jobs[n]
		switch {
		case job == nil:
			continue
		case b.part == dumpChannels:
			job.channel = name
		default:
			job.host = name
		}
		list.jobs = append(list.jobs, job)
	}
	if b.part == dumpChannels {
		b.channels = append(b.channels, list)
	} else {
		b.hosts = append(b.hosts, list)
	}
	return nil
}

// dump builds the threads. A host may have mail in several channels; ZMailer's
// client prints all of it under one of them. Everything is in the reverse order of the lists.
func (b *dumpReader) dump() *Dump {
	d, index := new(Dump), make(map[mailq.Name]int)
	for _, channel := range slices.Backward(b.channels) {
		for _, job := range slices.Backward(channel.jobs) {
			name := mailq.Name{Channel: job.channel, Host: job.host}
			if _, found := index[name]; !found && job.channel == channel.name && job.host != "" {
				index[name] = len(d.Threads)
				d.Threads = append(d.Threads, DumpThread{Name: name})
			}
		}
	}
	for _, host := range b.hosts {
		for _, job := range slices.Backward(host.jobs) {
			at, found := index[mailq.Name{Channel: job.channel, Host: host.name}]
			if !found || job.listed || job.host != host.name {
				continue
			}
			job.listed = true
			d.Threads[at].Jobs = append(d.Threads[at].Jobs, job.DumpJob)
		}
	}
	return d
}
