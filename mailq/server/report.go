package server

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"time"

	"zsched/mailq"
)

// reports writes what is shown of threads and rings, as at one time.
type reports struct {
	queue Queue
	now   time.Time
	out   *lines
}

// full is SHOW QUEUE THREADS, and what follows End: in v1.
func (r *reports) full(ctx context.Context) error {
	var ring mailq.Ring
	begun := false
	for row, err := range r.queue.Threads(ctx) {
		if err != nil {
			return err
		}
		if !begun || row.Ring.ID != ring.ID {
			if begun {
				if err := r.ringFoot(&ring); err != nil {
					return err
				}
			}
			if err := r.ringHead(row.Ring); err != nil {
				return err
			}
		}
		begun, ring = true, *row.Ring
		if row.Thread == nil {
			continue
		}
		r.out.line = appendThread(r.out.line[:0], row.Thread, r.now)
		if err := r.out.put(r.out.line); err != nil {
			return err
		}
	}
	if begun {
		if err := r.ringFoot(&ring); err != nil {
			return err
		}
	}
	return r.totals(ctx, false)
}

// short is SHOW QUEUE SHORT.
func (r *reports) short(ctx context.Context) error {
	for ring, err := range r.queue.Rings(ctx) {
		if err != nil {
			return err
		}
		if err := r.ringHead(ring); err != nil {
			return err
		}
		if err := r.ringFoot(ring); err != nil {
			return err
		}
	}
	return r.totals(ctx, false)
}

// threads2 is SHOW QUEUE THREADS2: threads only, and fields between TABs.
func (r *reports) threads2(ctx context.Context) error {
	for row, err := range r.queue.Threads(ctx) {
		if err != nil {
			return err
		}
		t := row.Thread
		if t == nil {
			continue
		}
		b := append(r.out.line[:0], mailq.Field(t.Channel)...)
		b = append(b, '\t')
		b = append(b, mailq.Field(t.Host)...)
		b = append(b, '\t')
		r.out.line = appendDetail(b, t, r.now, '\t')
		if err := r.out.put(r.out.line); err != nil {
			return err
		}
	}
	return nil
}

func (r *reports) ringHead(ring *mailq.Ring) error {
	return r.out.text(mailq.Field(ring.Channel) + "/" + mailq.Field(ring.Host) + "/" + withHost(ring.WithHost))
}

func (r *reports) ringFoot(ring *mailq.Ring) error {
	r.out.line = fmt.Appendf(r.out.line[:0], "\tThreads: %4d Msgs: %5d Procs: %3d Idle: %3d Plim: %3d Flim: %3d Tlim: %d",
		ring.Threads, ring.Jobs, ring.Agents, ring.Idle, ring.MaxRing, ring.Overfeed, ring.MaxThr)
	return r.out.put(r.out.line)
}

// totals are the two lines below every report, and alone SHOW SNMP. What it
// calls Rcpnts in the first are jobs; so did the old scheduler, and programs
// draw it.
func (r *reports) totals(ctx context.Context, seconds bool) error {
	t, err := r.queue.Totals(ctx)
	if err != nil {
		return err
	}
	up := r.now.Unix() - t.StartedAt.Unix()
	uptime := saySeconds(up)
	if seconds {
		uptime = strconv.FormatInt(up, 10) + " sec"
	}
	r.out.line = fmt.Appendf(r.out.line[:0], "Kids: %d  Idle: %2d  Msgs: %3d  Thrds: %3d  Rcpnts: %4d  Uptime: %s",
		t.Agents, t.IdleAgents, t.Messages, t.Threads, t.Jobs, uptime)
	if err := r.out.put(r.out.line); err != nil {
		return err
	}
	r.out.line = fmt.Appendf(r.out.line[:0], "Msgs in %d out %d stored %d Rcpnts in %d out %d stored %d",
		t.MessagesIn, t.MessagesOut, t.Messages, t.RecipientsIn, t.RecipientsOut, t.Recipients)
	return r.out.put(r.out.line)
}

// Old programs count in whole seconds of the clock, so all spans are those
// between two of them.
func saySeconds(s int64) string { return mailq.FormatSpan(time.Duration(s) * time.Second) }

func withHost(with bool) string {
	if with {
		return "2"
	}
	return "0"
}

// appendThread is a thread's line in the full report: its numbers stand in
// one column as long as the name is short.
func appendThread(b []byte, t *mailq.Thread, now time.Time) []byte {
	start := len(b)
	b = append(b, "    "...)
	b = appendName(b, t)
	width := len(b) - start + 7
	if width >= 39 {
		b = append(b, ' ')
	}
	for _, stop := range [...]int{15, 23, 31, 39} {
		if width < stop {
			b = append(b, '\t')
		}
	}
	return appendDetail(b, t, now, ' ')
}

// appendThreadHead is the line above SHOW THREAD.
func appendThreadHead(b []byte, t *mailq.Thread, now time.Time) []byte {
	b = append(b, '#')
	b = appendName(b, t)
	return appendDetail(append(b, "  "...), t, now, ' ')
}

func appendName(b []byte, t *mailq.Thread) []byte {
	b = append(b, mailq.Field(t.Channel)...)
	b = append(b, '/')
	b = append(b, mailq.Field(t.Host)...)
	b = append(b, '/')
	return append(b, withHost(t.WithHost)...)
}

// appendDetail is what there is to say of a thread, with sep, blank or TAB,
// between the words.
func appendDetail(b []byte, t *mailq.Thread, now time.Time, sep byte) []byte {
	if sep == ' ' {
		b = fmt.Appendf(b, "N=%-3d R=%-3d A=%-2d", t.Jobs, t.Recipients, t.Attempts)
	} else {
		b = fmt.Appendf(b, "N=%d\tR=%d\tA=%d", t.Jobs, t.Recipients, t.Attempts)
	}
	wait := t.WakeAt.Unix() - now.Unix()
	waiting := !t.WakeAt.IsZero() && wait > 0 && !t.Held
	idle := len(t.Agents) == 0
	switch {
	case !idle:
		b = appendAgents(b, t, now, sep)
	case waiting:
		b = append(b, sep, 'W', '=')
		b = append(strconv.AppendInt(b, wait, 10), 's')
	case t.Pending != mailq.NotPending:
		b = append(b, sep)
		b = append(append(b, "pend="...), mailq.OneReply(string(t.Pending))...)
	}
	b = append(b, sep, 'Q', 'A', '=')
	age := int64(0)
	if !t.OldestAt.IsZero() {
		age = now.Unix() - t.OldestAt.Unix()
	}
	b = append(b, saySeconds(age)...)
	if sep == ' ' && idle && !waiting {
		switch t.Pending {
		case mailq.PendingChannel:
			b = append(b, " channelwait"...)
		case mailq.PendingRing:
			b = append(b, " threadwait"...)
		}
	}
	return b
}

func appendAgents(b []byte, t *mailq.Thread, now time.Time, sep byte) []byte {
	each := func(name string, one func(b []byte, a *mailq.Agent) []byte) {
		b = append(b, sep)
		b = append(b, name...)
		b = append(b, "={"...)
		for i := range t.Agents {
			if i > 0 {
				b = append(b, ',')
			}
			b = one(b, &t.Agents[i])
		}
		b = append(b, '}')
	}
	each("P", func(b []byte, a *mailq.Agent) []byte { return strconv.AppendInt(b, int64(a.PID), 10) })
	// Programs that read this want a number, so one that was never hungry
	// counts as hungry now.
	each("HA", func(b []byte, a *mailq.Agent) []byte { return appendSince(b, a.HungryAt, now, "0") })
	b = append(b, 's')
	each("FA", func(b []byte, a *mailq.Agent) []byte { return appendSince(b, a.FedAt, now, "never") })
	b = append(b, 's')
	each("OF", func(b []byte, a *mailq.Agent) []byte { return strconv.AppendInt(b, int64(a.Open), 10) })
	each("S", func(b []byte, a *mailq.Agent) []byte { return append(b, mailq.OneReply(a.State)...) })
	b = append(b, sep)
	return strconv.AppendInt(append(b, "UF="...), int64(t.Unfed), 10)
}

func appendSince(b []byte, at, now time.Time, never string) []byte {
	if at.IsZero() {
		return append(b, never...)
	}
	return strconv.AppendInt(b, now.Unix()-at.Unix(), 10)
}

// thread is SHOW THREAD: a head that starts with # and a line a recipient. Of
// a thread that is not there nothing is said, and that is no error.
func (r *reports) thread(ctx context.Context, name mailq.Name) error {
	row, found, err := r.queue.Thread(ctx, name)
	if err != nil || !found || row.Thread == nil {
		return err
	}
	r.out.line = appendThreadHead(r.out.line[:0], row.Thread, r.now)
	if err := r.out.put(r.out.line); err != nil {
		return err
	}
	for job, err := range r.queue.Jobs(ctx, name) {
		if err != nil {
			return err
		}
		for i := range job.Recipients {
			r.out.line = appendRecipient(r.out.line[:0], job, i, r.now)
			if err := r.out.put(r.out.line); err != nil {
				return err
			}
		}
	}
	return nil
}

// appendRecipient is a line of SHOW THREAD: file, index in its job, sender,
// offset, expiry, wake-up, last feed, attempts, what it waits for, and the
// last diagnostic.
func appendRecipient(b []byte, job *mailq.Job, i int, now time.Time) []byte {
	rcpt := &job.Recipients[i]
	b = append(b, mailq.Field(job.Path)...)
	b = strconv.AppendInt(append(b, '\t'), int64(i), 10)
	b = append(append(b, '\t'), mailq.Field(job.Sender)...)
	b = strconv.AppendInt(append(b, '\t'), rcpt.Offset, 10)
	for _, at := range [...]time.Time{job.ExpiresAt, job.WakeAt, job.FedAt} {
		b = append(b, '\t')
		if at.IsZero() {
			b = append(b, '0')
			continue
		}
		b = strconv.AppendInt(b, at.Unix(), 10)
	}
	b = strconv.AppendInt(append(b, '\t'), int64(rcpt.Attempts), 10)
	b = append(b, '\t')
	if wait := job.WakeAt.Unix() - now.Unix(); !job.WakeAt.IsZero() && wait > 0 {
		b = append(append(b, "retry in "...), saySeconds(wait)...)
	} else {
		switch job.Pending {
		case mailq.PendingTA, mailq.PendingThread:
		case mailq.PendingChannel:
			b = append(b, "channel"...)
		default:
			b = append(b, "thread"...)
		}
	}
	return append(append(b, '\t'), mailq.Field(rcpt.Reason)...)
}

// objects writes what a sequence yields as JSON, a line each.
func objects[T any](out *lines, seq iter.Seq2[T, error]) error {
	for v, err := range seq {
		if err != nil {
			return err
		}
		if err := out.object(v); err != nil {
			return err
		}
	}
	return nil
}

// threadItems is JSON SHOW QUEUE THREADS.
func (r *reports) threadItems(ctx context.Context) error {
	for row, err := range r.queue.Threads(ctx) {
		if err != nil {
			return err
		}
		if row.Thread == nil {
			continue
		}
		if err := r.out.object(mailq.ThreadItem{Ring: row.Ring.ID, Thread: *row.Thread}); err != nil {
			return err
		}
	}
	return nil
}
