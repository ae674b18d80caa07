package top

// The frame of the screen: the lines with totals, tabs and messages above and below the page.

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"zsched/mailq"
	"zsched/mailq/client"
)

// headline returns as many totals as there is room for.
func (v *view) headline(width int) string {
	if v.snapshot == nil {
		return "mailq  asking …"
	}
	recipients, rate := 0, 0.0
	for i := range v.snapshot.Threads {
		t := &v.snapshot.Threads[i]
		recipients += t.Recipients
		rate += t.Rate
	}
	parts := []string{
		mailq.Plural(len(v.snapshot.Threads), "thread", "threads"), mailq.Plural(recipients, "recipient", "recipients"),
	}
	if t := v.snapshot.Totals; t != nil {
		parts = append(parts, fmt.Sprintf("%s (%d idle)", mailq.Plural(t.Agents, "agent", "agents"), t.IdleAgents))
		if counted, known := v.departed.rate(); known {
			rate = counted
		}
		parts = append(parts, shortRate(rate)+"/min")
	}
	return "mailq  " + joinFitting(parts, ", ", width-len("mailq  ")-len(v.snapshotTime())-1)
}

// The rate of the first line is counted over rateSpan, so that it is steady however often the
// view asks. Before minRateSpan has passed, the line has the sum of the threads' rates.
const (
	rateSpan    = time.Minute
	minRateSpan = 15 * time.Second
)

// departure is how many recipients had left the queue at a time.
type departure struct {
	at         time.Time
	recipients uint64
}

// departures are those of the last rateSpan, and the one before.
type departures []departure

// add adds the latest one. If it has fewer recipients, another scheduler counts from the
// beginning.
func (d departures) add(latest departure) departures {
	if n := len(d); n > 0 && latest.recipients < d[n-1].recipients {
		d = nil
	}
	for len(d) > 1 && latest.at.Sub(d[1].at) >= rateSpan {
		d = d[1:]
	}
	return append(d, latest)
}

// rate returns how many recipients leave the queue each minute, if that is known.
func (d departures) rate() (rate float64, known bool) {
	if len(d) == 0 {
		return 0, false
	}
	first, latest := d[0], d[len(d)-1]
	span := latest.at.Sub(first.at)
	if span < minRateSpan {
		return 0, false
	}
	return float64(latest.recipients-first.recipients) / span.Minutes(), true
}

// joinFitting joins as many texts, from the first on, as there is room for. It always
// takes the first.
func joinFitting(parts []string, separator string, width int) string {
	text := parts[0]
	for _, part := range parts[1:] {
		if len(text)+len(separator)+len(part) > width {
			break
		}
		text += separator + part
	}
	return text
}

// countsLine returns the states of the queue's jobs, what is kept back, and the
// time of the last reload.
func (v *view) countsLine(width int) line {
	if v.snapshot == nil || v.snapshot.Totals == nil {
		return line{}
	}
	t := v.snapshot.Totals
	parts := []string{
		fmt.Sprintf("due %d", t.States["due"]), fmt.Sprintf("waiting %d", t.States["waiting"]),
		fmt.Sprintf("with agents %d", t.States["fed"]), fmt.Sprintf("held %d", t.Held.Count),
	}
	style := plain
	for _, kind := range mailq.KeptKinds {
		if text := kind.Text(t); text != "" && kind.Name != "held" {
			parts = append(parts, text)
			style = strong
		}
	}
	since := ""
	switch {
	case !t.Reload.At.IsZero() && t.Reload.Error == "":
		since = "reloaded " + shortSpan(v.askedAt.Sub(t.Reload.At)) + " ago"
	case !t.StartedAt.IsZero():
		since = "up " + shortSpan(v.askedAt.Sub(t.StartedAt))
	}
	text := joinFitting(parts, "  ", width)
	l := textLine(text).styled(style)
	if len(text)+2+len(since) <= width {
		l.right = since
	}
	return l
}

// alert says that the server does not answer, that the spool cannot be written, that the
// router is not running, or that the last reload has failed.
func (v *view) alert() string {
	switch {
	case v.err != nil && client.KindOf(v.err) == client.Refused:
		return v.err.Error()
	case v.err != nil:
		return fmt.Sprintf("no answer for %s: %v; asking again every %s", mailq.FormatSpan(v.now.Sub(v.lostAt)), v.err, v.every)
	case v.snapshot != nil && v.snapshot.Totals != nil:
		t := v.snapshot.Totals
		if spool := t.SpoolText(v.now); spool != "" {
			return spool
		}
		if t.Router.Dead {
			return t.RouterText(v.now)
		}
		return t.ReloadText(v.now)
	}
	return ""
}

// tabsLine returns the names of the pages, with brackets around the page that is
// shown, and says how its rows are chosen.
func (v *view) tabsLine(width int) line {
	p := v.page()
	var tabs []string
	for i := range v.main {
		name := fmt.Sprintf("%d %s", i+1, kind(i))
		if i == v.tab {
			name = "[" + name + "]"
		}
		tabs = append(tabs, name)
	}
	left := strings.Join(tabs, "  ")
	if len(v.stack) > 0 && p.title != "" {
		left = fmt.Sprintf("[%d %s] > %s", v.tab+1, kind(v.tab), p.title)
	}
	var facts []string
	if columns := p.columns(); columns != nil {
		by := "in the queue's order"
		if p.sortedBy >= 0 {
			by = "by " + columns[p.sortedBy].title
		}
		if p.reversed {
			by += " reversed"
		}
		facts = append(facts, by)
	}
	if !p.filter.isZero() {
		facts = append(facts, "filter "+p.filter.text)
	}
	if p.more {
		facts = append(facts, fmt.Sprintf("the first %d", len(p.all)))
	}
	if marked := p.marked(); marked != "" {
		facts = append(facts, marked)
	}
	right := strings.Join(facts, ", ")
	if room := width - len([]rune(left)) - 2; len([]rune(right)) > room {
		right = cutTo(right, max(room, width/2), false)
	}
	return line{pieces: []piece{{0, farRight, left}}, right: right}
}

// snapshotTime returns the time of the snapshot, or its age if a newer one should
// have come.
func (v *view) snapshotTime() string {
	if v.snapshot == nil {
		return ""
	}
	if age := v.now.Sub(v.askedAt); age > 3*v.every {
		return " " + mailq.FormatSpan(age) + " old"
	}
	return " " + v.askedAt.Format(time.TimeOnly)
}

// foot returns the last line: what the user enters or has to answer, or else a
// reply, or the most important keys.
func (v *view) foot() line {
	switch {
	case v.prompt != nil:
		text := v.prompt.label + v.prompt.text
		if v.note != "" {
			text += "   (" + v.note + ")"
		}
		return textLine(text).styled(strong)
	case v.unconfirmed != "":
		return textLine(v.unconfirmed).styled(strong)
	case v.note != "":
		return textLine(v.note)
	case len(v.stack) > 0:
		return textLine("Esc back   ? help")
	}
	return textLine(cmp.Or(v.marksHint(), "? help   q quit"))
}

// marksHint reminds the user that orders are for the marked lines.
func (v *view) marksHint() string {
	if v.page().marked() == "" {
		return ""
	}
	return "orders are for the marked lines   c clear marks   ? help   q quit"
}
