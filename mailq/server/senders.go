package server

// Senders: SHOW SENDERS counts the mail of the queue by sender or domain.

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"zsched/mailq"
)

// maxSenders bounds the lines of SHOW SENDERS; the smaller senders count as others.
const maxSenders = 10000

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
	bySender := make(map[string]*mailq.SenderItem)
	all := &mailq.SenderItem{Total: true}
	var list []*mailq.SenderItem
	seen := make(numbers)
	for job, err := range jobs {
		if err != nil {
			return nil, err
		}
		name := mailq.SenderOf(job, domains)
		it := bySender[name]
		if it == nil {
			it = &mailq.SenderItem{Sender: strings.Clone(name)} // so that it does not keep the job in memory
			bySender[it.Sender] = it
			list = append(list, it)
		}
		first := seen.add(job.Message)
		it.Add(job, first)
		all.Add(job, first)
	}
	list = largestSenders(list)
	all.Senders = len(list)
	list = append(list, all)
	mailq.SortSenders(list, "size")
	return list, nil
}

// largestSenders returns the lines of at most maxSenders senders: those that are first in
// each order of SenderSorts and, for the rest, those with the most messages. A line of
// others has the sums of all that it leaves out.
func largestSenders(list []*mailq.SenderItem) []*mailq.SenderItem {
	if len(list) <= maxSenders {
		return list
	}
	kept := make(map[*mailq.SenderItem]bool, maxSenders)
	for _, key := range slices.Sorted(maps.Keys(mailq.SenderSorts)) {
		mailq.SortSenders(list, key)
		for _, it := range list[:maxSenders/(2*len(mailq.SenderSorts))] {
			kept[it] = true
		}
	}
	mailq.SortSenders(list, "size")
	for _, it := range list {
		if len(kept) == maxSenders {
			break
		}
		kept[it] = true
	}
	others := &mailq.SenderItem{Others: true}
	lines := make([]*mailq.SenderItem, 0, maxSenders+1)
	for _, it := range list {
		if kept[it] {
			lines = append(lines, it)
		} else {
			others.Sum(it)
		}
	}
	return append(lines, others)
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
