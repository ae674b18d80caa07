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

const (
	// maxSenders bounds the lines of SHOW SENDERS; the smaller senders count as others.
	maxSenders = 10000
	// maxCounted is how many senders are counted at the same time. When there are more, the
	// smallest are forgotten, and count from the beginning if they come again.
	maxCounted = 10 * maxSenders
)

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

// gatherSenders counts jobs by sender or domain, the ones with the most messages first. If
// there are so many senders that the smallest were forgotten on the way, it counts once more,
// with lines for the largest ones.
func gatherSenders(jobs iter.Seq2[*mailq.Job, error], domains bool) ([]*mailq.SenderItem, error) {
	c := &senderCount{domains: domains, bySender: make(map[string]*mailq.SenderItem)}
	if err := c.count(jobs); err != nil {
		return nil, err
	}
	if c.forgot {
		listed, _ := largestSenders(slices.Collect(maps.Values(c.bySender)), maxSenders)
		c = &senderCount{domains: domains, bySender: make(map[string]*mailq.SenderItem), isFixed: true}
		for _, it := range listed {
			c.bySender[it.Sender] = &mailq.SenderItem{Sender: it.Sender}
		}
		if err := c.count(jobs); err != nil {
			return nil, err
		}
	}
	lines, rest := largestSenders(c.senders(), maxSenders)
	for _, it := range rest {
		c.others.Sum(it)
	}
	if c.others.Jobs > 0 {
		c.others.Others = true
		lines = append(lines, &c.others)
	}
	c.all.Total, c.all.Senders = true, len(lines)
	lines = append(lines, &c.all)
	mailq.SortSenders(lines, "size")
	return lines, nil
}

// senderCount counts the jobs of the queue by sender or domain.
type senderCount struct {
	domains  bool
	bySender map[string]*mailq.SenderItem
	// isFixed says that no sender is added: all others count as others.
	isFixed bool
	forgot  bool // small senders are missing in bySender
	others  mailq.SenderItem
	all     mailq.SenderItem
}

func (c *senderCount) count(jobs iter.Seq2[*mailq.Job, error]) error {
	seen := make(numbers)
	for job, err := range jobs {
		if err != nil {
			return err
		}
		first := seen.add(job.Message)
		c.sender(mailq.SenderOf(job, c.domains)).Add(job, first)
		c.all.Add(job, first)
	}
	return nil
}

// sender returns the line that counts a sender.
func (c *senderCount) sender(name string) *mailq.SenderItem {
	it := c.bySender[name]
	switch {
	case it != nil:
		return it
	case c.isFixed:
		return &c.others
	case len(c.bySender) == maxCounted:
		c.forget()
	}
	it = &mailq.SenderItem{Sender: strings.Clone(name)} // so that it does not keep the job in memory
	c.bySender[it.Sender] = it
	return it
}

// forget drops all but the largest senders found so far.
func (c *senderCount) forget() {
	largest, _ := largestSenders(slices.Collect(maps.Values(c.bySender)), maxCounted/5)
	clear(c.bySender)
	for _, it := range largest {
		c.bySender[it.Sender] = it
	}
	c.forgot = true
}

// senders returns the senders that have mail, by name.
func (c *senderCount) senders() []*mailq.SenderItem {
	list := slices.Collect(maps.Values(c.bySender))
	list = slices.DeleteFunc(list, func(it *mailq.SenderItem) bool { return it.Jobs == 0 }) // it has left meanwhile
	slices.SortFunc(list, func(a, b *mailq.SenderItem) int { return strings.Compare(a.Sender, b.Sender) })
	return list
}

// largestSenders returns the largest senders, at most limit, and the rest: those that are first
// in each order of SenderSorts, up to half of the limit, and those with the most messages.
func largestSenders(list []*mailq.SenderItem, limit int) (largest, rest []*mailq.SenderItem) {
	if len(list) <= limit {
		return list, nil
	}
	kept := make(map[*mailq.SenderItem]bool, limit)
	for _, key := range slices.Sorted(maps.Keys(mailq.SenderSorts)) {
		mailq.SortSenders(list, key)
		for _, it := range list[:limit/(2*len(mailq.SenderSorts))] {
			kept[it] = true
		}
	}
	mailq.SortSenders(list, "size")
	for _, it := range list {
		if len(kept) == limit {
			break
		}
		kept[it] = true
	}
	for _, it := range list {
		if kept[it] {
			largest = append(largest, it)
		} else {
			rest = append(rest, it)
		}
	}
	return largest, rest
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
