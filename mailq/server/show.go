package server

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"zsched/mailq"
)

// writeMessage is a message of SHOW MSG and FIND, in words.
func writeMessage(out *lines, m *mailq.Message, now time.Time) error {
	head := fmt.Sprintf("%s: spoolid %s, age %s, %d+%d bytes", mailq.Field(m.Path), mailq.Field(m.SpoolID),
		saySeconds(now.Unix()-m.ArrivedAt.Unix()), m.Control, m.Size)
	if m.Held {
		head += ", held"
	}
	text := []string{head}
	if m.LogID != "" {
		text = append(text, "\t  id\t"+m.LogID)
	}
	text = append(text, "\t  from\t"+cmp.Or(m.Sender, "<>"))
	if m.ErrorsTo != "" && m.ErrorsTo != m.Sender {
		text = append(text, "\t  errors to\t"+m.ErrorsTo)
	}
	for i := range m.Recipients {
		text = append(text, recipientText(&m.Recipients[i], now)...)
	}
	return writeText(out, text)
}

func recipientText(r *mailq.MessageRecipient, now time.Time) []string {
	line := fmt.Sprintf("\t  to\t%s via %s/%s: %s, %d tries", r.User, r.Channel, r.Host, r.State, r.Attempts)
	if wait := r.WakeAt.Unix() - now.Unix(); !r.WakeAt.IsZero() && wait > 0 {
		line += ", retry in " + saySeconds(wait)
	}
	text := []string{line}
	for piece := range strings.SplitSeq(r.Reason, "\r") {
		if piece != "" {
			text = append(text, "\t  diag\t"+piece)
		}
	}
	return text
}

func writeText(out *lines, text []string) error {
	for _, line := range text {
		if err := out.text(mailq.OneLine(line)); err != nil {
			return err
		}
	}
	return nil
}

// explain is EXPLAIN, in words.
func (r *reports) explain(ctx context.Context, name mailq.Name) error {
	e, err := r.queue.Explain(ctx, name)
	if err != nil {
		return err
	}
	text := []string{e.Channel + "/" + e.Host + ": " + e.Waits}
	if next := r.nextText(e); next != "" {
		text = append(text, "next: "+next)
	}
	if e.Thread != nil && e.Known {
		text = append(text, "thread: "+string(appendDetail(nil, e.Thread, r.now, ' ')))
		text = append(text, fmt.Sprintf("window: %d sessions; %.1f recipients done a minute", e.Thread.Window, e.Thread.Rate))
	}
	if len(e.States) > 0 {
		var states []string
		for _, state := range slices.Sorted(maps.Keys(e.States)) {
			states = append(states, fmt.Sprintf("%d %s", e.States[state], state))
		}
		text = append(text, "jobs: "+strings.Join(states, ", "))
	}
	if e.Thread != nil && e.Thread.Reason != "" {
		for piece := range strings.SplitSeq(e.Thread.Reason, "\r") {
			if piece != "" {
				text = append(text, "last diagnostic: "+piece)
			}
		}
	}
	return writeText(r.out, append(text, settingsText(e)...))
}

func (r *reports) nextText(e *mailq.Explanation) string {
	if e.NextAt.IsZero() {
		return e.Next
	}
	wait := max(0, e.NextAt.Unix()-r.now.Unix())
	return strings.TrimPrefix(fmt.Sprintf("%s in %s, at %s", e.Next, saySeconds(wait), e.NextAt.Format(time.RFC3339)), " ")
}

// settingsText is what the configuration has to do with it.
func settingsText(e *mailq.Explanation) (text []string) {
	for _, l := range e.Limits {
		line := fmt.Sprintf("limit: %s, %d used", l.Name, l.Used)
		if l.Most > 0 {
			line += fmt.Sprintf(" of %d", l.Most)
		}
		if l.Blocks {
			line += ", blocks"
		}
		text = append(text, line)
	}
	if len(e.Clauses) == 0 {
		text = append(text, "clause: none matches")
	}
	for _, c := range e.Clauses {
		text = append(text, fmt.Sprintf("clause: %s\t%s:%d", c.Pattern, c.File, c.Line))
	}
	for _, s := range e.Settings {
		from := "default"
		if s.File != "" {
			from = fmt.Sprintf("%s:%d", s.File, s.Line)
		}
		text = append(text, fmt.Sprintf("setting: %s=%s\t%s", s.Name, s.Value, from))
	}
	return text
}
