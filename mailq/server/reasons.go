package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"zsched/mailq"
)

// maxReasons bounds the kinds of diagnostics that are counted exactly.
const maxReasons = 2000

// showReasons executes SHOW REASONS: the last diagnostics of all recipients,
// grouped, the most frequent first.
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

// gatherReasons counts recipients by the kind of their last diagnostic.
func gatherReasons(ctx context.Context, queue Queue) ([]*mailq.ReasonItem, error) {
	list := topList[string, mailq.ReasonItem]{
		limit:   maxReasons,
		compare: func(a, b *mailq.ReasonItem) int { return cmp.Compare(b.Recipients, a.Recipients) },
		add: func(to, count *mailq.ReasonItem) {
			to.Recipients += count.Recipients
			to.Jobs += count.Jobs
		},
		others: mailq.ReasonItem{Reason: "(others)", Others: true},
	}
	var seen []*mailq.ReasonItem
	for job, err := range queue.Jobs(ctx, mailq.Name{}) {
		if err != nil {
			return nil, err
		}
		seen = seen[:0]
		for i := range job.Recipients {
			text := job.ReasonOf(&job.Recipients[i])
			if text == "" {
				continue
			}
			kind := mailq.ReasonKind(text)
			it := list.of(kind, func() (string, *mailq.ReasonItem) {
				// Clones, so that no key keeps a job's strings in memory.
				kind = strings.Clone(kind)
				return kind, &mailq.ReasonItem{
					Reason: kind, Example: strings.Clone(text),
					Destination: mailq.Name{Channel: strings.Clone(job.Channel), Host: strings.Clone(job.Host)},
				}
			})
			it.Recipients++
			if !slices.Contains(seen, it) {
				it.Jobs++
				seen = append(seen, it)
			}
		}
	}
	return list.lines(), nil
}
