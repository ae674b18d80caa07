package server

// Counts: SHOW COUNT counts the mail of the queue by a key, in one pass and in bounded memory.

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"zsched/mailq"
)

// countKey is a key by which mail is counted.
type countKey struct {
	// of returns the value for a recipient of a job; "": it is not counted.
	of func(job *mailq.JobLine, r *mailq.Recipient) string
	// group returns what values of one kind have in common; nil: each is its own kind.
	group func(string) string
}

// countKeys are the keys of SHOW COUNT, by which mailq counts: senders, domains, sources, shape
// (destination), reasons.
var countKeys = map[string]countKey{
	"sender":      {of: senderOf},
	"domain":      {of: domainOf},
	"source":      {of: func(job *mailq.JobLine, _ *mailq.Recipient) string { return cmp.Or(job.Source, "(unknown)") }},
	"destination": {of: func(job *mailq.JobLine, _ *mailq.Recipient) string { return job.Channel + "/" + job.Host }},
	"reason":      {of: reasonOf, group: mailq.ReasonKind},
}

func senderOf(job *mailq.JobLine, _ *mailq.Recipient) string {
	return cmp.Or(strings.ToLower(job.Sender), "<>")
}

func reasonOf(job *mailq.JobLine, r *mailq.Recipient) string {
	return cmp.Or(mailq.ReasonOf(job, r), mailq.NotTried)
}

// domainOf returns the domain of the sender.
func domainOf(job *mailq.JobLine, _ *mailq.Recipient) string {
	at := strings.LastIndexByte(job.Sender, '@')
	switch {
	case job.Sender == "":
		return "<>"
	case at < 0:
		return "(no domain)"
	}
	return strings.ToLower(job.Sender[at+1:])
}

const (
	// maxCounted is how many values are counted exactly.
	maxCounted = 100_000
	// maxGrouped is for how many values the group is remembered, because grouping is slow.
	maxGrouped = 10_000
)

// showCount executes SHOW COUNT: a line for each value of the key, the one with the most
// recipients first, then the line of the others, if there are any, and the total.
func showCount(ctx context.Context, r *report, arg string) error {
	key, found := countKeys[arg]
	if !found {
		return rejected{fmt.Errorf("SHOW COUNT takes one of %s", strings.Join(slices.Sorted(maps.Keys(countKeys)), ", "))}
	}
	c := counting{key: key, limit: maxCounted, now: r.now, lines: make(map[string]*mailq.CountItem), groups: make(map[string]string)}
	items, err := c.count(r.queue.Jobs(ctx, mailq.Name{}))
	for _, it := range items {
		if err := r.out.object(it); err != nil {
			return err
		}
	}
	return err
}

// counting is one SHOW COUNT. Up to limit values are counted exactly. When there are more, the
// smaller half goes to the others, and counts from the beginning if it comes again: so the sums
// stay exact, and so do the largest unless their mail is spread very thinly.
type counting struct {
	key           countKey
	limit         int
	now           time.Time
	lines         map[string]*mailq.CountItem
	groups        map[string]string // by value
	others, total mailq.CountItem
}

func (c *counting) count(jobs iter.Seq2[*mailq.JobLine, error]) ([]*mailq.CountItem, error) {
	var of []*mailq.CountItem // lines of one job
	for job, err := range jobs {
		if err != nil {
			return nil, err
		}
		of = of[:0]
		for i := range job.Recipients {
			value := c.value(job, &job.Recipients[i])
			if value == "" {
				continue
			}
			line := c.line(value, job)
			line.AddRecipient(job, c.now)
			c.total.AddRecipient(job, c.now)
			if !slices.Contains(of, line) {
				of = append(of, line)
			}
		}
		for _, line := range of {
			line.Messages++
		}
		c.total.Messages += min(1, len(of))
	}
	return c.all(), nil
}

// value returns the value for a recipient of a job.
func (c *counting) value(job *mailq.JobLine, r *mailq.Recipient) string {
	value := c.key.of(job, r)
	if c.key.group == nil {
		return value
	}
	group, found := c.groups[value]
	if !found {
		group = c.key.group(value)
		if len(c.groups) < maxGrouped {
			c.groups[strings.Clone(value)] = group
		}
	}
	return group
}

// line returns the line of a value. It has copies of the strings of the job, so that it does not
// keep the job in memory.
func (c *counting) line(value string, job *mailq.JobLine) *mailq.CountItem {
	if line := c.lines[value]; line != nil {
		return line
	}
	if len(c.lines) == c.limit {
		for _, line := range c.sorted()[c.limit/2:] {
			c.others.Add(line)
			delete(c.lines, line.Key)
		}
		c.others.Others = true
	}
	line := &mailq.CountItem{
		Key:         strings.Clone(value),
		Destination: mailq.Name{Channel: strings.Clone(job.Channel), Host: strings.Clone(job.Host)},
	}
	c.lines[line.Key] = line
	return line
}

func (c *counting) sorted() []*mailq.CountItem {
	return slices.SortedFunc(maps.Values(c.lines), func(a, b *mailq.CountItem) int {
		return cmp.Or(cmp.Compare(b.Recipients, a.Recipients), strings.Compare(a.Key, b.Key))
	})
}

// all returns all lines.
func (c *counting) all() []*mailq.CountItem {
	lines := c.sorted()
	if c.others.Others {
		lines = append(lines, &c.others)
	}
	c.total.Total, c.total.Lines = true, len(lines)
	return append(lines, &c.total)
}
