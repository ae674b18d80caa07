package scheduler_test

import (
	"fmt"
	"strings"

	"zsched/scheduler"
	"zsched/ta"
)

func (st *stage) print(a scheduler.Action) string {
	switch a := a.(type) {
	case scheduler.Start:
		return fmt.Sprintf("start A%d for %s/%s: %s", a.Agent, a.Channel, a.Host, strings.Join(a.Command, " "))
	case scheduler.Feed:
		return fmt.Sprintf("A%d <- %s", a.Agent, strings.ReplaceAll(strings.TrimSuffix(string(ta.AppendJob(nil, a.Job)), "\n"), "\t", " "))
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
				text += fmt.Sprintf(" d(%q %q)", m.Notary, m.Text)
			}
		}
		return text
	case scheduler.Read:
		return fmt.Sprintf("read %d", a.Message)
	case scheduler.Finish:
		if a.Owes {
			return fmt.Sprintf("finish %d, which may owe a notice", a.Message)
		}
		return fmt.Sprintf("finish %d", a.Message)
	case scheduler.Hold:
		return fmt.Sprintf("hold %d", a.Message)
	case scheduler.Resubmit:
		to := "the router"
		if a.Channel != "" {
			to = a.Channel + "/" + a.Host
		}
		return fmt.Sprintf("resubmit %d: %s to %s", a.Message, strings.Trim(fmt.Sprint(a.Offsets), "[]"), to)
	case scheduler.Answer:
		return fmt.Sprintf("answer: messages %d recipients %d", a.Messages, a.Recipients)
	case scheduler.Account:
		return fmt.Sprintf("log %d %s %s/%s", a.Message, a.State, a.Channel, a.Host)
	case scheduler.Complete:
		return ""
	case scheduler.Note:
		if a.Message != 0 {
			return fmt.Sprintf("note %d: %s", a.Message, a.Text)
		}
		return "note: " + a.Text
	case scheduler.Probe:
		return "probe"
	case scheduler.Stopped:
		return "stopped"
	}
	return fmt.Sprintf("%#v", a)
}

// show prints what the core knows: counts, next, known N, queue, message N,
// thread channel/host, explain channel/host, channels, log ID.
func (st *stage) show(words []string) {
	switch words[0] {
	case "counts":
		c := st.s.Counts()
		fmt.Fprintf(&st.said, "messages %d vertices %d recipients %d threads %d agents %d idle %d sessions %d\n",
			c.Messages, c.Vertices, c.Recipients, c.Threads, c.Agents, c.AgentsIdle, c.Sessions)
	case "next":
		next, ok := st.s.Next()
		if !ok {
			st.said.WriteString("never\n")
			return
		}
		fmt.Fprintf(&st.said, "%v\n", next.Sub(st.start))
	case "known":
		names := []string{"absent", "present", "leaving"}
		fmt.Fprintf(&st.said, "%s\n", names[st.s.Known(scheduler.MessageID(st.number(words[1])))])
	case "queue":
		st.walk(st.s.Walk(scheduler.Vertices))
	case "message":
		st.walk(st.s.WalkMessage(scheduler.MessageID(st.number(words[1]))))
	case "thread":
		channel, host, _ := strings.Cut(words[1], "/")
		if t, r := st.s.Thread(channel, host); t != nil {
			st.showRing(r)
			st.showThread(t)
		}
		st.walk(st.s.WalkThread(channel, host))
	case "explain":
		channel, host, _ := strings.Cut(words[1], "/")
		st.explain(st.s.Explain(channel, host))
	case "channels":
		for _, c := range st.s.Channels() {
			fmt.Fprintf(&st.said, "%s: in %d delivered %d deferred %d failed %d expired %d dropped %d\n",
				c.Name, c.In, c.Delivered, c.Deferred, c.Failed, c.Expired, c.Dropped)
		}
	case "log":
		fmt.Fprintln(&st.said, st.s.ByLogID(words[1], 100))
	default:
		st.fatalf("unknown word %q", words[0])
	}
}

// walk prints what a walk comes by, taken in slices of two.
func (st *stage) walk(w *scheduler.Walk) {
	for more := true; more; {
		var items []scheduler.Item
		items, more = w.Next(2)
		for _, item := range items {
			switch {
			case item.Ring != nil:
				st.showRing(item.Ring)
			case item.Thread != nil:
				st.showThread(item.Thread)
			default:
				st.showVertex(item.Vertex)
			}
		}
	}
}

func (st *stage) showRing(r *scheduler.RingView) {
	if r.ID == 0 {
		fmt.Fprintf(&st.said, "no ring: threads %d vertices %d\n", r.Threads, r.Vertices)
		return
	}
	fmt.Fprintf(&st.said, "ring %d %s/%s: threads %d vertices %d agents %d idle %d sessions %d\n",
		r.ID, r.Channel, r.Host, r.Threads, r.Vertices, r.Agents, r.Idle, r.Sessions)
}

func (st *stage) showThread(t *scheduler.ThreadView) {
	fmt.Fprintf(&st.said, "  %s/%s: vertices %d recipients %d attempts %d oldest %v", t.Channel, t.Host,
		t.Vertices, t.Recipients, t.Attempts, st.now.Sub(t.OldestAt))
	for _, a := range t.Agents {
		fmt.Fprintf(&st.said, " A%d=%s/%d", a.Agent, a.State, a.Open)
	}
	if t.Wait != "" {
		fmt.Fprintf(&st.said, ", waits: %s", t.Wait)
	}
	if !t.WakeAt.IsZero() {
		fmt.Fprintf(&st.said, ", wakes in %v", t.WakeAt.Sub(st.now))
	}
	if t.Last != "" {
		fmt.Fprintf(&st.said, ", said %q", t.Last)
	}
	st.said.WriteString("\n")
}

func (st *stage) showVertex(v *scheduler.VertexView) {
	fmt.Fprintf(&st.said, "    %d %s", v.Message, v.State)
	if v.PID != 0 {
		fmt.Fprintf(&st.said, " with %d", v.PID)
	}
	if v.Wait != "" {
		fmt.Fprintf(&st.said, " waits: %s", v.Wait)
	}
	if !v.WakeAt.IsZero() {
		fmt.Fprintf(&st.said, " for %v", v.WakeAt.Sub(st.now))
	}
	if v.Next {
		st.said.WriteString(" next")
	}
	if v.Ordered != 0 {
		fmt.Fprintf(&st.said, " ordered %d", v.Ordered)
	}
	for _, r := range v.Recipients {
		fmt.Fprintf(&st.said, " %d", r.Offset)
		if r.Attempts > 0 {
			fmt.Fprintf(&st.said, "(%d, %q)", r.Attempts, r.Last)
		}
	}
	st.said.WriteString("\n")
}

func (st *stage) explain(e *scheduler.Explanation) {
	for _, c := range e.Clauses {
		fmt.Fprintf(&st.said, "clause %s/%s at %s:%d\n", c.Channel, c.Host, c.File, c.Line)
	}
	for _, s := range e.Settings {
		fmt.Fprintf(&st.said, "%s=%s at %s:%d\n", s.Name, s.Value, s.File, s.Line)
	}
	for _, l := range e.Limits {
		fmt.Fprintf(&st.said, "%s %d of %d", l.Name, l.Used, l.Most)
		if l.Blocks {
			st.said.WriteString(" blocks")
		}
		st.said.WriteString("\n")
	}
	if e.Ring == nil {
		st.said.WriteString("no ring\n")
	}
	if e.Thread == nil {
		st.said.WriteString("no mail\n")
	} else {
		fmt.Fprintf(&st.said, "%+v\n", e.Thread.States)
	}
	if e.Held {
		st.said.WriteString("held\n")
	}
	fmt.Fprintf(&st.said, "waits: %s\n", e.Wait)
	if e.Next != "" {
		fmt.Fprintf(&st.said, "%s in %v\n", e.Next, e.NextAt.Sub(st.now))
	}
}
