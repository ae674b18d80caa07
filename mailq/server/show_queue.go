package server

// The reports of ZMailer's server: SHOW QUEUE THREADS, THREADS2 and SHORT, SHOW SNMP.

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"zsched/mailq"
	"zsched/scheduler/view"
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
	for item, err := range r.queue.Threads(ctx) {
		if err == nil && item.Thread != nil {
			err = r.out.object(item.Thread)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// showThreads writes SHOW QUEUE THREADS, which also follows End: in v1.
func showThreads(ctx context.Context, r *report, _ string) error {
	var ring *mailq.Ring
	for item, err := range r.queue.Threads(ctx) {
		if err == nil && item.Ring != nil {
			if ring != nil {
				err = r.out.text(ringFoot(ring))
			}
			if err == nil {
				err = r.out.text(ringHead(item.Ring))
			}
			ring = item.Ring
		}
		if err == nil && item.Thread != nil {
			err = r.out.text(r.threadLine(item.Thread))
		}
		if err != nil {
			return err
		}
	}
	if ring != nil {
		if err := r.out.text(ringFoot(ring)); err != nil {
			return err
		}
	}
	return r.totals(ctx, false)
}

// showShort writes SHOW QUEUE SHORT.
func showShort(ctx context.Context, r *report, _ string) error {
	for ring, err := range r.queue.Rings(ctx) {
		if err == nil {
			err = r.out.text(ringHead(ring))
		}
		if err == nil {
			err = r.out.text(ringFoot(ring))
		}
		if err != nil {
			return err
		}
	}
	return r.totals(ctx, false)
}

// showThreads2 writes SHOW QUEUE THREADS2: threads only, with TABs between the
// fields.
func showThreads2(ctx context.Context, r *report, _ string) error {
	for item, err := range r.queue.Threads(ctx) {
		if t := item.Thread; err == nil && t != nil {
			err = r.out.text(mailq.Field(t.Channel) + "\t" + mailq.Field(t.Host) + "\t" + threadDetail(t, r.now, "\t"))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func ringHead(ring *mailq.Ring) string {
	return mailq.Field(ring.Channel) + "/" + mailq.Field(ring.Host) + "/" + withHost(ring.WithHost)
}

func ringFoot(ring *mailq.Ring) string {
	return fmt.Sprintf("\tThreads: %4d Msgs: %5d Procs: %3d Idle: %3d Plim: %3d Flim: %3d Tlim: %d",
		ring.Threads, ring.JobLines, ring.Agents, ring.Idle, ring.MaxRing, ring.Overfeed, ring.MaxThr)
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
	lines := []string{
		fmt.Sprintf("Kids: %d  Idle: %2d  Msgs: %3d  Thrds: %3d  Rcpnts: %4d  Uptime: %s",
			t.Agents, t.IdleAgents, t.Messages, t.Threads, t.JobLines, uptime),
		fmt.Sprintf("Msgs in %d out %d stored %d Rcpnts in %d out %d stored %d",
			t.MessagesIn, t.MessagesOut, t.Messages, t.RecipientsIn, t.RecipientsOut, t.Recipients),
	}
	if r.out.framed {
		lines = append(lines, t.Notes(r.now)...)
	}
	for _, line := range lines {
		if err := r.out.text(mailq.OneReply(line)); err != nil {
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

// threadLine is a thread's line of SHOW QUEUE THREADS. TABs align the numbers as long as the
// names are short. What ZMailer's scheduler does not have follows, except in v1.
func (r *report) threadLine(t *mailq.Thread) string {
	line := "    " + zmailerName(t)
	width := len(line) + 7
	if width >= 39 {
		line += " "
	}
	for _, stop := range [...]int{15, 23, 31, 39} {
		if width < stop {
			line += "\t"
		}
	}
	line += threadDetail(t, r.now, " ")
	if !r.out.framed {
		return line
	}
	more := ""
	// The window is shown unless it is fixed and the destination is tried as usual.
	switch {
	case t.SuspendedBy != "":
		more = fmt.Sprintf(" win=%d/%d suspended", t.Window, t.WindowLimit)
	case t.Probing:
		more = fmt.Sprintf(" win=%d/%d probing", t.Window, t.WindowLimit)
	case t.Window < t.WindowLimit:
		more = fmt.Sprintf(" win=%d/%d", t.Window, t.WindowLimit)
	}
	if t.Site != "" {
		more += " site=" + t.Site
	}
	for i := range t.Effects {
		more += " [" + mailq.EffectText(&t.Effects[i], r.now) + "]"
	}
	if reason := mailq.StartReason(t.StartError); reason != "" {
		more += " " + reason
	}
	return line + mailq.OneReply(more)
}

// zmailerName is the name of a thread as ZMailer writes it.
func zmailerName(t *mailq.Thread) string {
	return mailq.Field(t.Channel) + "/" + mailq.Field(t.Host) + "/" + withHost(t.WithHost)
}

// threadDetail is the numbers of a thread and what it is waiting for. sep, a
// blank or a TAB, separates the words.
func threadDetail(t *mailq.Thread, now time.Time, sep string) string {
	numbers := "N=%-3d R=%-3d A=%-2d"
	if sep == "\t" {
		numbers = "N=%d\tR=%d\tA=%d"
	}
	words := []string{fmt.Sprintf(numbers, t.JobLines, t.Recipients, t.Attempts)}
	wait := t.WakeAt.Unix() - now.Unix()
	waiting := !t.WakeAt.IsZero() && wait > 0 && !t.Held
	idle := len(t.Agents) == 0
	switch {
	case !idle:
		words = append(words, agentWords(t, now)...)
		if t.Held {
			words = append(words, "pend="+pendingHeld)
		}
	case waiting:
		words = append(words, fmt.Sprintf("W=%ds", wait))
	case pending[t.Wait] != "":
		words = append(words, "pend="+pending[t.Wait])
	}
	age := int64(0)
	if !t.OldestAt.IsZero() {
		age = now.Unix() - t.OldestAt.Unix()
	}
	words = append(words, "QA="+formatSeconds(age))
	if sep == " " && idle && !waiting {
		switch pending[t.Wait] {
		case pendingChannel:
			words = append(words, "channelwait")
		case pendingRing:
			words = append(words, "threadwait")
		}
	}
	return strings.Join(words, sep)
}

// agentWords are the agents that work on a thread.
func agentWords(t *mailq.Thread, now time.Time) []string {
	list := func(format string, one func(a *view.Agent) string) string {
		var all []string
		for i := range t.Agents {
			all = append(all, one(&t.Agents[i]))
		}
		return fmt.Sprintf(format, strings.Join(all, ","))
	}
	since := func(at time.Time, never string) string {
		if at.IsZero() {
			return never
		}
		return strconv.FormatInt(now.Unix()-at.Unix(), 10)
	}
	return []string{
		list("P={%s}", func(a *view.Agent) string { return strconv.Itoa(a.PID) }),
		// Programs that read HA expect a number: an agent that has not yet been
		// hungry counts as hungry now.
		list("HA={%s}s", func(a *view.Agent) string { return since(a.HungryAt, "0") }),
		list("FA={%s}s", func(a *view.Agent) string { return since(a.FedAt, "never") }),
		list("OF={%s}", func(a *view.Agent) string { return strconv.Itoa(a.Open) }),
		list("S={%s}", func(a *view.Agent) string { return mailq.OneLine(a.State) }),
		"UF=" + strconv.Itoa(t.States[view.Due]+t.States[view.Blocked]),
	}
}
