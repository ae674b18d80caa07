package server

// Senders: SHOW SENDERS counts the mail of the queue by sender or domain.

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"zsched/mailq"
)

// maxSenders bounds the senders that are counted exactly.
const maxSenders = 100_000

// showSenders executes SHOW SENDERS and SHOW SENDERS DOMAINS.
func showSenders(r *request, ctx context.Context) bool {
	domains := r.arg == "DOMAINS"
	if r.arg != "" && !domains {
		return r.reject(errors.New("SHOW SENDERS takes nothing, or the word DOMAINS"))
	}
	return r.list(func(out *answer) error {
		items, err := gatherSenders(r.server.queue.SizedJobs(ctx), domains)
		if err != nil {
			return err
		}
		if !r.asJSON {
			if err := out.text(mailq.SenderHead()); err != nil {
				return err
			}
		}
		now := time.Now()
		for _, it := range items {
			if r.asJSON {
				err = out.object(it)
			} else {
				err = out.text(mailq.OneReply(it.Text(now)))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// gatherSenders counts jobs by sender or domain, the ones with the most messages first.
func gatherSenders(jobs iter.Seq2[*mailq.Job, error], domains bool) ([]*mailq.SenderItem, error) {
	list := topList[string, mailq.SenderItem]{
		limit: maxSenders, compare: mailq.SenderSorts["size"], add: (*mailq.SenderItem).Sum, others: mailq.SenderItem{Others: true},
	}
	all := &mailq.SenderItem{Total: true}
	seen := make(numbers)
	for job, err := range jobs {
		if err != nil {
			return nil, err
		}
		first := seen.add(job.Message)
		name := mailq.SenderOf(job, domains)
		list.of(name, func() (string, *mailq.SenderItem) {
			name = strings.Clone(name) // so that it does not keep the job in memory
			return name, &mailq.SenderItem{Sender: name}
		}).Add(job, first)
		all.Add(job, first)
	}
	lines := list.lines()
	all.Senders = len(lines)
	return append(lines, all), nil
}

// numbers is a set of message numbers. These are inode numbers, which are close to each
// other. The key is the number without its last six bits; the value has a bit for each
// of the 64 numbers with that key.
type numbers map[uint64]uint64

// add adds a number and reports whether it was not in the set.
func (n numbers) add(number uint64) bool {
	key, bit := number>>6, uint64(1)<<(number&63)
	if n[key]&bit != 0 {
		return false
	}
	n[key] |= bit
	return true
}
