package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"zsched/mailq"
)

const (
	maxReasons   = 1000 // lines of SHOW REASONS; further kinds count as others
	maxReasonKey = 200  // bytes of a diagnostic that are compared
)

// showReasons is SHOW REASONS: the last diagnostics of all recipients, grouped, the
// most frequent first.
func showReasons(r *request, ctx context.Context) bool {
	return !r.hasNoArguments() || r.list(func(out *answer) error {
		items, err := gatherReasons(ctx, r.server.queue)
		if err != nil {
			return err
		}
		if !r.asJSON {
			if err := out.text(fmt.Sprintf("%8s %8s  %s", "Rcpnts", "Jobs", "Reason")); err != nil {
				return err
			}
		}
		for _, it := range items {
			if r.asJSON {
				err = out.object(it)
			} else {
				err = out.text(fmt.Sprintf("%8d %8d  %s", it.Recipients, it.Jobs, it.Reason))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func gatherReasons(ctx context.Context, queue Queue) ([]*mailq.ReasonItem, error) {
	by := make(map[string]*mailq.ReasonItem)
	others := &mailq.ReasonItem{Reason: "(others)", Others: true}
	var list, seen []*mailq.ReasonItem
	for job, err := range queue.Jobs(ctx, mailq.Name{}) {
		if err != nil {
			return nil, err
		}
		seen = seen[:0]
		for i := range job.Recipients {
			text := job.Recipients[i].Reason
			if text == "" {
				continue
			}
			key := reasonKey(text)
			it := by[key]
			switch {
			case it == nil && len(list) == maxReasons:
				it = others
			case it == nil:
				// Clones, so that no key keeps a job's strings in memory.
				it = &mailq.ReasonItem{
					Reason: strings.Clone(key), Example: strings.Clone(text),
					Destination: mailq.Name{Channel: strings.Clone(job.Channel), Host: strings.Clone(job.Host)},
				}
				by[it.Reason] = it
				list = append(list, it)
			}
			it.Recipients++
			if !slices.Contains(seen, it) {
				it.Jobs++
				seen = append(seen, it)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b *mailq.ReasonItem) int { return cmp.Compare(b.Recipients, a.Recipients) })
	if others.Recipients > 0 {
		list = append(list, others)
	}
	return list, nil
}

// reasonKey returns what diagnostics of one kind have in common: the last reply,
// without what stands in <> and [], the addresses and ports of one attempt.
func reasonKey(text string) string {
	text = mailq.LastReply(text)
	var b strings.Builder
	for text != "" && b.Len() < maxReasonKey {
		i := strings.IndexAny(text, "<[")
		if i < 0 {
			b.WriteString(text)
			break
		}
		// A bracket counts if it is closed before the next one opens. So the
		// arrow "<<-" of a transcript is no bracket.
		pair := "<>"
		if text[i] == '[' {
			pair = "[]"
		}
		b.WriteString(text[:i+1])
		end := strings.IndexAny(text[i+1:], pair)
		if end > 0 && text[i+1+end] == pair[1] {
			b.WriteString("...")
			i += end
		}
		text = text[i+1:]
	}
	return cutText(mailq.Field(b.String()), maxReasonKey)
}

// cutText returns at most n bytes of s and does not split a character.
func cutText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
