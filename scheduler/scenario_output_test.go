package scheduler_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"zsched/scheduler"
	"zsched/scheduler/view"
	"zsched/ta"
)

// format prints an action as testdata/README describes it.
func (sc *scenario) format(a scheduler.Action) string {
	switch a := a.(type) {
	case scheduler.Start:
		return fmt.Sprintf("start A%d for %s/%s: %s", a.Agent, a.Channel, a.Host, strings.Join(a.Command, " "))
	case *scheduler.Feed:
		return fmt.Sprintf("A%d <- %s", a.Agent, strings.ReplaceAll(strings.TrimSuffix(string(ta.AppendJobLine(nil, a.Job)), "\n"), "\t", " "))
	case scheduler.Idle:
		return fmt.Sprintf("A%d <- #idle", a.Agent)
	case scheduler.Close:
		return fmt.Sprintf("close A%d", a.Agent)
	case scheduler.Kill:
		if a.Hard {
			return fmt.Sprintf("kill -9 A%d", a.Agent)
		}
		return fmt.Sprintf("kill A%d", a.Agent)
	case scheduler.Mark:
		text := fmt.Sprintf("mark %d:", a.Message)
		for _, m := range a.Marks {
			text += fmt.Sprintf(" %d", m.Offset)
			if !m.LeaveTag {
				text += string(m.Tag)
			}
			if m.Diagnose {
				text += fmt.Sprintf(" d(%q %q)", m.Notary, m.Text) + sc.formatTried(m.TriedAt)
			}
			if m.Delays > 0 {
				text += fmt.Sprintf(" delays %d", m.Delays)
			}
		}
		return text
	case scheduler.Read:
		if a.Offsets != nil {
			return fmt.Sprintf("read %d, locks of %d", a.Message, a.Offsets)
		}
		return fmt.Sprintf("read %d", a.Message)
	case *scheduler.Finish:
		if a.Owes {
			return fmt.Sprintf("finish %d, which may owe a notice", a.Message)
		}
		if a.Untagged != 0 {
			return fmt.Sprintf("finish %d, else mark %d%c", a.Message, a.Untagged, a.Tag)
		}
		return fmt.Sprintf("finish %d", a.Message)
	case scheduler.Hold:
		return fmt.Sprintf("hold %d", a.Message)
	case scheduler.Release:
		return fmt.Sprintf("release %d", a.Message)
	case scheduler.Resubmit:
		to := "the router"
		if a.Channel != "" {
			to = a.Channel + "/" + a.Host
		}
		if a.Hold != nil {
			to += ", held"
		}
		return fmt.Sprintf("resubmit %d: %s to %s", a.Message, strings.Trim(fmt.Sprint(a.Offsets), "[]"), to)
	case scheduler.Answer:
		return formatAnswer(a)
	case *scheduler.Outcome:
		return sc.formatOutcome(a)
	case scheduler.Report:
		if a.RetryUntil.IsZero() {
			return fmt.Sprintf("report %d", a.Message)
		}
		return fmt.Sprintf("report %d, retried until +%v", a.Message, a.RetryUntil.Sub(sc.start))
	case scheduler.Note:
		if a.Message != 0 {
			return fmt.Sprintf("note %d: %s", a.Message, a.Text)
		}
		return "note: " + a.Text
	case scheduler.Condition:
		if a.State == "order" {
			return fmt.Sprintf("touched %d by %q: %s, %d recipients, %q", a.Message, a.By, a.Order, a.Recipients, a.Because)
		}
		text := fmt.Sprintf("condition %s: %d %s/%s", a.State, a.Message, a.Channel, a.Host)
		if !a.NextAt.IsZero() {
			text += fmt.Sprintf(", for %v", a.NextAt.Sub(sc.now))
		}
		if a.State == "rule" || a.State == "undone" {
			text += ", " + strings.TrimSpace(a.Order+" "+a.Because)
		}
		return text
	case scheduler.Want:
		return fmt.Sprintf("want %s: %d, busy %d, of %d", a.Limit, a.Want, a.Busy, a.Max)
	case scheduler.Destination:
		switch a.State {
		case scheduler.DestinationIsDead:
			return fmt.Sprintf("tell %s/%s: dead for %v: %q", a.Channel, a.Host, a.Until.Sub(sc.now), a.Reason)
		case scheduler.DestinationIsAlive:
			return fmt.Sprintf("tell %s/%s: alive", a.Channel, a.Host)
		}
		return fmt.Sprintf("ask about %s/%s", a.Channel, a.Host)
	case scheduler.Probe:
		return "probe"
	case scheduler.Stopped:
		return "stopped"
	}
	return fmt.Sprintf("%#v", a)
}

// show prints views: counts, next, known N, queue, message N, thread
// channel/host, explain channel/host, channels, log ID.
func (sc *scenario) show(words []string) {
	switch words[0] {
	case "counts":
		c := sc.s.Counts()
		fmt.Fprintf(&sc.output, "messages %d vertices %d recipients %d threads %d agents %d idle %d sessions %d\n",
			c.Messages, c.Vertices, c.Recipients, c.Threads, c.Agents, c.AgentsIdle, c.Sessions)
	case "next":
		next, ok := sc.s.Next()
		if !ok {
			sc.output.WriteString("never\n")
			return
		}
		fmt.Fprintf(&sc.output, "%v\n", next.Sub(sc.start))
	case "known":
		standing := "absent"
		if m, ok := sc.s.Message(scheduler.MessageID(sc.number(words[1]))); m.Leaving {
			standing = "leaving"
		} else if ok {
			standing = "present"
		}
		fmt.Fprintln(&sc.output, standing)
	case "queue":
		sc.showWalk(sc.s.Walk(scheduler.Vertices))
	case "message":
		sc.showWalk(sc.s.WalkMessage(scheduler.MessageID(sc.number(words[1]))))
	case "thread":
		channel, host, _ := strings.Cut(words[1], "/")
		if t := sc.s.Thread(channel, host); t != nil {
			sc.showRing(sc.ring(t.Ring))
			sc.showThread(t)
		}
		sc.showWalk(sc.s.WalkThread(channel, host))
	case "explain":
		channel, host, _ := strings.Cut(words[1], "/")
		x, _ := sc.s.Explain(channel, host)
		sc.showExplanation(x)
	case "channels":
		for _, c := range sc.s.Channels() {
			fmt.Fprintf(&sc.output, "%s: in %d delivered %d deferred %d failed %d expired %d\n",
				c.Name, c.In, c.Delivered, c.Deferred, c.Failed, c.Expired)
		}
	case "rules":
		for _, r := range sc.s.Rules() {
			fmt.Fprintf(&sc.output, "%s: %s/%s %q %s: %d hits\n", r.Place(), r.Channel, r.Host, r.Expression, r.Action, r.Hits)
		}
	case "log":
		fmt.Fprintln(&sc.output, sc.s.ByMessageID(words[1], 100))
	default:
		sc.fatalf("unknown word %q", words[0])
	}
}

// showWalk prints the items of a walk, taken in slices of two.
func (sc *scenario) showWalk(w *scheduler.Walk) {
	for more := true; more; {
		var items []view.Item
		items, more = w.Next(2)
		for _, item := range items {
			switch {
			case item.Ring != nil:
				sc.showRing(item.Ring)
			case item.Thread != nil:
				sc.showThread(item.Thread)
			default:
				sc.showVertex(item.JobLine)
			}
		}
	}
}

// ring returns the ring with an ID.
func (sc *scenario) ring(id uint64) *view.Ring {
	items, _ := sc.s.Walk(scheduler.Rings).Next(1000)
	for _, item := range items {
		if item.Ring.ID == id {
			return item.Ring
		}
	}
	return new(view.Ring)
}

func (sc *scenario) showRing(r *view.Ring) {
	if r.ID == 0 {
		fmt.Fprintf(&sc.output, "no ring: threads %d vertices %d\n", r.Threads, r.JobLines)
		return
	}
	fmt.Fprintf(&sc.output, "ring %d %s/%s: threads %d vertices %d agents %d idle %d sessions %d\n",
		r.ID, r.Channel, r.Host, r.Threads, r.JobLines, r.Agents, r.Idle, r.Sessions)
}

func (sc *scenario) showThread(t *view.Thread) {
	fmt.Fprintf(&sc.output, "  %s/%s: vertices %d recipients %d attempts %d oldest %v", t.Channel, t.Host,
		t.JobLines, t.Recipients, t.Attempts, sc.now.Sub(t.OldestAt))
	for _, a := range t.Agents {
		fmt.Fprintf(&sc.output, " A%d=%s/%d", a.ID, a.State, a.Open)
	}
	if t.Wait != "" {
		fmt.Fprintf(&sc.output, ", waits: %s", t.Wait)
	}
	if t.StartError != "" {
		fmt.Fprintf(&sc.output, ", no agent: %s", t.StartError)
	}
	if !t.WakeAt.IsZero() {
		fmt.Fprintf(&sc.output, ", wakes in %v", t.WakeAt.Sub(sc.now))
	}
	if t.Probing {
		fmt.Fprintf(&sc.output, ", probing with window %d", t.Window)
	}
	if t.SuspendedBy != "" {
		fmt.Fprintf(&sc.output, ", suspended by %s", t.SuspendedBy)
	}
	if t.Reason != "" {
		fmt.Fprintf(&sc.output, ", said %q", t.Reason)
	}
	sc.output.WriteString("\n")
}

func (sc *scenario) showVertex(v *view.JobLine) {
	fmt.Fprintf(&sc.output, "    %d %s", v.Message, v.State)
	if v.PID != 0 {
		fmt.Fprintf(&sc.output, " with %d", v.PID)
	}
	if v.Wait != "" {
		fmt.Fprintf(&sc.output, " waits: %s", v.Wait)
	}
	if !v.WakeAt.IsZero() {
		fmt.Fprintf(&sc.output, " for %v", v.WakeAt.Sub(sc.now))
	}
	if v.Next {
		sc.output.WriteString(" next")
	}
	if v.Order != "" {
		fmt.Fprintf(&sc.output, " ordered %s", v.Order)
	}
	for _, r := range v.Recipients {
		fmt.Fprintf(&sc.output, " %d", r.Offset)
		if r.Attempts > 0 {
			fmt.Fprintf(&sc.output, "(%d, %q)", r.Attempts, r.Reason)
		}
	}
	sc.output.WriteString("\n")
}

func (sc *scenario) showExplanation(e *view.Explanation) {
	for _, c := range e.Clauses {
		fmt.Fprintf(&sc.output, "clause %s at %s:%d\n", c.Pattern, c.File, c.Line)
	}
	for _, l := range e.Limits {
		fmt.Fprintf(&sc.output, "%s %d of %d", l.Name, l.Used, l.Most)
		if l.Share != "" {
			sc.output.WriteString(" by " + l.Share)
		}
		if l.Blocks {
			sc.output.WriteString(" blocks")
		}
		sc.output.WriteString("\n")
	}
	if e.Thread == nil {
		sc.output.WriteString("no mail\n")
	} else {
		fmt.Fprintf(&sc.output, "%v\n", e.Thread.States)
	}
	if e.Thread != nil {
		for _, f := range e.Thread.Effects {
			fmt.Fprintf(&sc.output, "effect: %s", strings.TrimLeft(f.Rule+" "+f.Action+f.By, " "))
			if !f.Until.IsZero() {
				fmt.Fprintf(&sc.output, ", for %v", f.Until.Sub(sc.now))
			}
			fmt.Fprintf(&sc.output, " %q\n", f.Because)
		}
	}
	fmt.Fprintf(&sc.output, "waits: %s", e.Wait)
	if !e.Until.IsZero() {
		fmt.Fprintf(&sc.output, " for %v", e.Until.Sub(sc.now))
	}
	sc.output.WriteString("\n")
}

// formatTried says when a recipient was tried, if that is not now.
func (sc *scenario) formatTried(at time.Time) string {
	switch {
	case at.IsZero():
		return " untried"
	case at.Equal(sc.now):
		return ""
	case at.Before(sc.start): // the clock was set
		return fmt.Sprintf(" tried %v", at.Sub(sc.start))
	}
	return fmt.Sprintf(" tried +%v", at.Sub(sc.start))
}

// formatOutcome prints the line of the statistics log, and what is for the event log.
func (sc *scenario) formatOutcome(o *scheduler.Outcome) string {
	text := ""
	if o.IsFinal() && !slices.Contains(sc.hidden, "log") {
		text = fmt.Sprintf("log %d %s %s/%s", o.Message, o.State, o.Channel, o.Host)
	}
	if o.Attempts == 0 && o.Offset == 0 {
		return text
	}
	attempt := fmt.Sprintf("attempt %d/%d %s/%s A%d %s, tries %d: %q %q", o.Message, o.Offset, o.Channel, o.Host, o.Agent, o.State, o.Attempts, o.Notary, o.Text)
	if !o.NextAt.IsZero() {
		attempt += fmt.Sprintf(", next in %v", o.NextAt.Sub(sc.now))
	}
	if text != "" {
		return text + "\n" + attempt
	}
	return attempt
}

// formatAnswer writes an answer with those of its further counts that are not 0.
func formatAnswer(a scheduler.Answer) string {
	text := fmt.Sprintf("answer: messages %d recipients %d", a.Messages, a.Recipients)
	counts, fields := reflect.ValueOf(a.Outcome), reflect.TypeFor[view.Outcome]()
	for i := range fields.NumField() {
		name, omitted, _ := strings.Cut(fields.Field(i).Tag.Get("json"), ",")
		if n := counts.Field(i); omitted != "" && !n.IsZero() {
			text += fmt.Sprintf(", %s %v", strings.ReplaceAll(name, "_", " "), n)
		}
	}
	return text
}
