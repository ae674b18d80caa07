package server

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"zsched/mailq"
)

// readTotals returns the totals as the user may see them: a reason may have an address.
func (r *report) readTotals(ctx context.Context) (mailq.Totals, error) {
	t, err := r.queue.Totals(ctx)
	if !r.rights.has(rightTT) {
		for _, kind := range mailq.KeptKinds {
			kind.Of(&t).Reason = ""
		}
	}
	return t, err
}

func showSNMP(ctx context.Context, r *report, _ string) error { return r.totals(ctx, true) }

func totalsObject(ctx context.Context, r *report, _ string) error {
	t, err := r.readTotals(ctx)
	if err != nil {
		return err
	}
	return r.out.object(t)
}

// threadObjects executes JSON SHOW QUEUE THREADS.
func threadObjects(ctx context.Context, r *report, _ string) error {
	for row, err := range r.queue.Threads(ctx) {
		if err == nil && row.Thread != nil {
			err = r.out.object(mailq.ThreadItem{Ring: row.Ring.ID, Thread: *row.Thread})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// showThreads writes SHOW QUEUE THREADS, which also follows End: in v1.
func showThreads(ctx context.Context, r *report, _ string) error {
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
		if r.out.framed {
			r.out.line = appendWindow(r.out.line, row.Thread)
			if row.Thread.Site != "" {
				r.out.line = append(append(r.out.line, " site="...), mailq.Field(row.Thread.Site)...)
			}
			for i := range row.Thread.Effects {
				r.out.line = append(append(r.out.line, " ["...), mailq.OneReply(row.Thread.Effects[i].Text(r.now))...)
				r.out.line = append(r.out.line, ']')
			}
			if reason := mailq.StartReason(row.Thread.StartError); reason != "" {
				r.out.line = append(append(r.out.line, ' '), mailq.OneReply(reason)...)
			}
		}
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

// showShort writes SHOW QUEUE SHORT.
func showShort(ctx context.Context, r *report, _ string) error {
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

// showThreads2 writes SHOW QUEUE THREADS2: threads only, with TABs between the
// fields.
func showThreads2(ctx context.Context, r *report, _ string) error {
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

func (r *report) ringHead(ring *mailq.Ring) error {
	return r.out.text(mailq.Field(ring.Channel) + "/" + mailq.Field(ring.Host) + "/" + withHost(ring.WithHost))
}

func (r *report) ringFoot(ring *mailq.Ring) error {
	r.out.line = fmt.Appendf(r.out.line[:0], "\tThreads: %4d Msgs: %5d Procs: %3d Idle: %3d Plim: %3d Flim: %3d Tlim: %d",
		ring.Threads, ring.Jobs, ring.Agents, ring.Idle, ring.MaxRing, ring.Overfeed, ring.MaxThr)
	return r.out.put(r.out.line)
}

// totals writes the totals, which end every report; SHOW SNMP has nothing else. If
// seconds is true, the uptime is in seconds. Rcpnts in the first line counts
// jobs, as in ZMailer: programs draw graphs of it.
func (r *report) totals(ctx context.Context, seconds bool) error {
	t, err := r.readTotals(ctx)
	if err != nil {
		return err
	}
	up := r.now.Unix() - t.StartedAt.Unix()
	uptime := formatSeconds(up)
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
	if err := r.out.put(r.out.line); err != nil {
		return err
	}
	for _, text := range t.Notes(r.now) {
		if !r.out.framed {
			break
		}
		if err := r.out.text(mailq.OneReply(text)); err != nil {
			return err
		}
	}
	return nil
}

// formatSeconds writes a span. ZMailer counts in whole seconds of the clock, so
// every span in a report is a difference of two such seconds.
func formatSeconds(s int64) string { return mailq.FormatSpan(time.Duration(s) * time.Second) }

func withHost(with bool) string {
	if with {
		return "2"
	}
	return "0"
}

// appendThread appends a thread's line of SHOW QUEUE THREADS. TABs align the
// numbers as long as the names are short.
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

func appendName(b []byte, t *mailq.Thread) []byte {
	b = append(b, mailq.Field(t.Channel)...)
	b = append(b, '/')
	b = append(b, mailq.Field(t.Host)...)
	b = append(b, '/')
	return append(b, withHost(t.WithHost)...)
}

// appendDetail appends the numbers of a thread and what it is waiting for. sep, a
// blank or a TAB, separates the words.
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
		if t.Held {
			b = append(append(append(b, sep), "pend="...), mailq.PendingHeld...)
		}
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
	b = append(b, formatSeconds(age)...)
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

// appendWindow appends the window of a thread and its limit, unless the window is fixed
// and the destination is tried as usual. ZMailer's scheduler does not print it, and
// version 1 does not either.
func appendWindow(b []byte, t *mailq.Thread) []byte {
	if t.Feedback == nil && t.Destination == mailq.Tried || t.WindowLimit == 0 {
		return b
	}
	b = fmt.Appendf(b, " win=%d/%d", t.Window, t.WindowLimit)
	if t.Destination != mailq.Tried {
		b = append(append(b, ' '), mailq.OneReply(string(t.Destination))...)
	}
	return b
}

func appendAgents(b []byte, t *mailq.Thread, now time.Time, sep byte) []byte {
	list := func(name string, one func(b []byte, a *mailq.Agent) []byte) {
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
	list("P", func(b []byte, a *mailq.Agent) []byte { return strconv.AppendInt(b, int64(a.PID), 10) })
	// Programs that read HA expect a number: an agent that has not yet been
	// hungry counts as hungry now.
	list("HA", func(b []byte, a *mailq.Agent) []byte { return appendSince(b, a.HungryAt, now, "0") })
	b = append(b, 's')
	list("FA", func(b []byte, a *mailq.Agent) []byte { return appendSince(b, a.FedAt, now, "never") })
	b = append(b, 's')
	list("OF", func(b []byte, a *mailq.Agent) []byte { return strconv.AppendInt(b, int64(a.Open), 10) })
	list("S", func(b []byte, a *mailq.Agent) []byte { return append(b, mailq.OneReply(a.State)...) })
	b = append(b, sep)
	return strconv.AppendInt(append(b, "UF="...), int64(t.Unfed), 10)
}

func appendSince(b []byte, at, now time.Time, never string) []byte {
	if at.IsZero() {
		return append(b, never...)
	}
	return strconv.AppendInt(b, now.Unix()-at.Unix(), 10)
}
