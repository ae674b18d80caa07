package server

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"zsched/internal/units"
	"zsched/mailq"
	"zsched/scheduler/view"
)

// fakeQueue is a Queue that does not change.
type fakeQueue struct {
	totals   mailq.Totals
	rows     []threadRow
	jobs     []*mailq.JobLine
	messages []*mailq.Message
	explain  mailq.Explanation
	counters map[string]float64
	outcome  mailq.Outcome
	held     []*mailq.HeldItem
	rules    []*mailq.RuleItem
	cluster  []*mailq.ClusterItem

	triggered []string
	orders    []mailq.Order
	// broken is the error of every sequence after its items.
	broken error
}

var _ Queue = (*fakeQueue)(nil)

func (p *fakeQueue) Totals(context.Context) (mailq.Totals, error) { return p.totals, nil }

func (p *fakeQueue) Rings(context.Context) iter.Seq2[*mailq.Ring, error] {
	var rings []*mailq.Ring
	for _, row := range p.rows {
		if len(rings) == 0 || rings[len(rings)-1].ID != row.Ring.ID {
			rings = append(rings, row.Ring)
		}
	}
	return items(rings, p.broken)
}

// threadRow is a thread and its ring; nil: the ring has no threads.
type threadRow struct {
	Ring   *mailq.Ring
	Thread *mailq.Thread
}

func (p *fakeQueue) Threads(context.Context) iter.Seq2[view.Item, error] {
	var all []view.Item
	var ring *mailq.Ring
	for _, row := range p.rows {
		if row.Ring != ring {
			ring = row.Ring
			all = append(all, view.Item{Ring: ring})
		}
		if row.Thread != nil {
			all = append(all, view.Item{Thread: row.Thread})
		}
	}
	return items(all, p.broken)
}

func (p *fakeQueue) Thread(_ context.Context, name mailq.Name) (*mailq.Thread, error) {
	for _, row := range p.rows {
		if row.Thread != nil && row.Thread.Name == name {
			return row.Thread, nil
		}
	}
	return nil, nil
}

func (p *fakeQueue) Jobs(_ context.Context, name mailq.Name) iter.Seq2[*mailq.JobLine, error] {
	var jobs []*mailq.JobLine
	for _, j := range p.jobs {
		if name == (mailq.Name{}) || j.Name == name {
			jobs = append(jobs, j)
		}
	}
	return items(jobs, p.broken)
}

func (p *fakeQueue) Select(_ context.Context, where mailq.Selection) iter.Seq2[*mailq.JobLine, error] {
	var jobs []*mailq.JobLine
	for _, j := range p.jobs {
		if where.Matches(j, time.Now()) {
			jobs = append(jobs, j)
		}
	}
	return items(jobs, p.broken)
}

func (p *fakeQueue) Message(_ context.Context, id string) (*mailq.Message, bool, error) {
	for _, m := range p.messages {
		if m.SpoolID == id || strconv.FormatUint(m.Message, 10) == id {
			return m, true, nil
		}
	}
	return nil, false, nil
}

func (p *fakeQueue) Explain(context.Context, mailq.Name) (*mailq.Explanation, error) {
	return &p.explain, nil
}

func (p *fakeQueue) Counters(context.Context) (map[string]float64, error) { return p.counters, nil }

func (p *fakeQueue) Trigger(_ context.Context, host, text string) (bool, error) {
	p.triggered = append(p.triggered, host+"|"+text)
	return slices.ContainsFunc(p.rows, func(r threadRow) bool {
		return r.Thread != nil && r.Thread.Host == host && len(r.Thread.Agents) == 0
	}), nil
}

func (p *fakeQueue) Held(context.Context) iter.Seq2[*mailq.HeldItem, error] {
	return items(p.held, p.broken)
}

func (p *fakeQueue) Rules(context.Context) iter.Seq2[*mailq.RuleItem, error] {
	return items(p.rules, p.broken)
}

func (p *fakeQueue) Cluster(context.Context) iter.Seq2[*mailq.ClusterItem, error] {
	if p.cluster == nil {
		return items([]*mailq.ClusterItem(nil), Absent("no cluster"))
	}
	return items(p.cluster, p.broken)
}

func (p *fakeQueue) Act(_ context.Context, o mailq.Order) (mailq.Outcome, error) {
	p.orders = append(p.orders, o)
	return p.outcome, nil
}

func items[T any](all []T, broken error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, it := range all {
			if !yield(it, nil) {
				return
			}
		}
		if broken != nil {
			var none T
			yield(none, broken)
		}
	}
}

// The rest of this file builds a fakeQueue from captured answers of ZMailer's server.

// captureReader builds the queue that the answers describe at the time now.

type captureReader struct {
	*fakeQueue
	now  time.Time
	ring *mailq.Ring
}

// line reads a line of SHOW QUEUE THREADS, SHORT or SNMP.
func (p *captureReader) line(s string) error {
	switch {
	case strings.HasPrefix(s, "    "):
		name, detail := strings.TrimSpace(s), ""
		if i := strings.IndexAny(name, "\t "); i >= 0 {
			name, detail = name[:i], name[i:]
		}
		t, err := p.thread(name, detail)
		p.rows = append(p.rows, threadRow{Ring: p.ring, Thread: t})
		return err
	case strings.HasPrefix(s, "\tThreads:"):
		r := p.ring
		_, err := fmt.Sscanf(s, "\tThreads: %d Msgs: %d Procs: %d Idle: %d Plim: %d Flim: %d Tlim: %d",
			&r.Threads, &r.JobLines, &r.Agents, &r.Idle, &r.MaxRing, &r.Overfeed, &r.MaxThr)
		if last := len(p.rows) - 1; last < 0 || p.rows[last].Ring != r {
			p.rows = append(p.rows, threadRow{Ring: r})
		}
		return err
	case strings.HasPrefix(s, "Kids:"):
		t := &p.totals
		var up string
		_, err := fmt.Sscanf(s, "Kids: %d Idle: %d Msgs: %d Thrds: %d Rcpnts: %d Uptime: %s",
			&t.Agents, &t.IdleAgents, &t.Messages, &t.Threads, &t.JobLines, &up)
		t.StartedAt = p.now.Add(-parseSpan(up))
		return err
	case strings.HasPrefix(s, "Msgs in"):
		t := &p.totals
		_, err := fmt.Sscanf(s, "Msgs in %d out %d stored %d Rcpnts in %d out %d stored %d",
			&t.MessagesIn, &t.MessagesOut, &t.Messages, &t.RecipientsIn, &t.RecipientsOut, &t.Recipients)
		return err
	case strings.Count(s, "/") == 2:
		f := strings.Split(s, "/")
		p.ring = &mailq.Ring{ID: uint64(len(p.rows) + 1), Channel: f[0], Host: f[1], WithHost: f[2] == "2"}
		return nil
	}
	return fmt.Errorf("%q is no line of a report", s)
}

func (p *captureReader) thread(name, detail string) (*mailq.Thread, error) {
	f := strings.Split(name, "/")
	t := &mailq.Thread{Name: mailq.Name{Channel: f[0], Host: f[1]}, WithHost: f[2] == "2"}
	for _, word := range strings.Fields(detail) {
		key, value, _ := strings.Cut(word, "=")
		list := strings.Split(strings.Trim(value, "{}s"), ",")
		n, _ := strconv.Atoi(strings.Trim(value, "{}s"))
		if key == "P" {
			t.Agents = make([]view.Agent, len(list))
		}
		for i := range t.Agents {
			a := &t.Agents[i]
			n, _ := strconv.Atoi(list[min(i, len(list)-1)])
			switch key {
			case "P":
				a.PID = n
			case "HA":
				a.HungryAt = p.now.Add(-time.Duration(n) * time.Second)
			case "FA":
				a.FedAt = p.now.Add(-time.Duration(n) * time.Second)
			case "OF":
				a.Open = n
			case "S":
				a.State = list[i]
			}
		}
		switch key {
		case "N":
			t.JobLines = n
		case "R":
			t.Recipients = n
		case "A":
			t.Attempts = n
		case "UF":
			t.States = map[string]int{"due": n}
		case "W":
			t.WakeAt = p.now.Add(parseSpan(value))
		case "pend":
			t.Wait = waitFor(value)
		case "QA":
			t.OldestAt = p.now.Add(-parseSpan(value))
		case "P", "HA", "FA", "OF", "S", "threadwait", "channelwait":
		default:
			return nil, fmt.Errorf("%q is unknown of a thread", word)
		}
	}
	return t, nil
}

// recipient reads a line of SHOW THREAD.
func (p *captureReader) recipient(t *mailq.Thread, s string) error {
	f := strings.Split(s, "\t")
	if len(f) != 10 {
		return fmt.Errorf("%q has %d fields", s, len(f))
	}
	if f[1] == "0" {
		job := &mailq.JobLine{Name: t.Name, Path: f[0], Sender: f[2],
			ExpiresAt: clockTime(f[4]), WakeAt: clockTime(f[5]), FedAt: clockTime(f[6]), Wait: t.Wait}
		p.jobs = append(p.jobs, job)
	}
	job := p.jobs[len(p.jobs)-1]
	offset, err := strconv.ParseInt(f[3], 10, 64)
	attempts, err2 := strconv.Atoi(f[7])
	job.Recipients = append(job.Recipients, mailq.Recipient{Offset: offset, Attempts: attempts, Reason: f[9]})
	return errors.Join(err, err2)
}

// waitFor returns what has these words in a report.
func waitFor(words string) view.Wait {
	for wait, of := range pending {
		if of == words {
			return wait
		}
	}
	return view.NoWait
}

func clockTime(s string) time.Time {
	n, _ := strconv.ParseInt(s, 10, 64)
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(n, 0)
}

// parseSpan reads what mailq.FormatSpan writes.
func parseSpan(s string) time.Duration {
	d, err := units.ParseInterval(s)
	if err != nil {
		panic(err)
	}
	return d
}

// vertex reads a job of a dump of v1.
func (p *captureReader) vertex(s string) error {
	f := strings.SplitN(s, "\t", 4)
	_, offsets, _ := strings.Cut(f[2], "; ")
	text := strings.TrimPrefix(f[3], "#")
	open := strings.LastIndex(text, "(")
	standing := strings.Split(strings.Trim(text[open:], "()"), ", ")
	job := &mailq.JobLine{Path: f[1]}
	var attempts, pid int
	for _, word := range standing {
		if span, ok := strings.CutPrefix(word, "retry in "); ok {
			job.WakeAt = p.now.Add(parseSpan(span))
		}
		if span, ok := strings.CutPrefix(word, "expires in "); ok {
			job.ExpiresAt = p.now.Add(parseSpan(span))
		}
		_, _ = fmt.Sscanf(word, "tries=%d", &attempts)
	}
	_, _ = fmt.Sscanf(standing[len(standing)-3], "pid=%d", &pid)
	job.PID = pid
	for o := range strings.SplitSeq(offsets, ",") {
		n, err := strconv.ParseInt(o, 10, 64)
		if err != nil {
			return err
		}
		job.Recipients = append(job.Recipients, mailq.Recipient{Offset: n, Attempts: attempts, Reason: strings.TrimSuffix(text[:open], " ")})
	}
	p.jobs = append(p.jobs, job)
	return nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
