package server

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"zsched/mailq"
)

const (
	maxReasons = 1000    // lines of SHOW REASONS; the less frequent kinds count as others
	maxKinds   = 1 << 20 // kinds without a line whose recipients are counted
)

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

// gatherReasons counts the first maxReasons kinds. If a kind without a line is more
// frequent than one of these, it counts once more, with lines for the most frequent ones.
// Kinds have one order only, so a number for each kind without a line is enough to find
// these; senders have several orders (gatherSenders).
func gatherReasons(ctx context.Context, queue Queue) ([]*mailq.ReasonItem, error) {
	kinds := &reasonKinds{seed: maphash.MakeSeed(), unlisted: make(map[uint64]int)}
	list, err := kinds.gather(ctx, queue)
	if err != nil || !kinds.selectLargest(list) {
		return list, err
	}
	return kinds.gather(ctx, queue)
}

// reasonKinds says which kinds of diagnostics have a line of their own.
type reasonKinds struct {
	seed maphash.Seed
	// listed are the hashes of the kinds that have a line; nil: the first maxReasons that
	// are found.
	listed   map[uint64]bool
	unlisted map[uint64]int // recipients of each other kind, by its hash; at most maxKinds
}

func (k *reasonKinds) mayList(key string, lines int) bool {
	hash := maphash.String(k.seed, key)
	if k.listed != nil {
		return k.listed[hash]
	}
	if lines < maxReasons {
		return true
	}
	if n, counted := k.unlisted[hash]; counted || len(k.unlisted) < maxKinds {
		k.unlisted[hash] = n + 1
	}
	return false
}

// selectLargest makes the most frequent kinds those that have a line. It reports whether
// one of them has none in list.
func (k *reasonKinds) selectLargest(list []*mailq.ReasonItem) bool {
	type kind struct {
		hash       uint64
		recipients int
	}
	var kinds []kind
	for _, it := range list {
		if !it.Others {
			kinds = append(kinds, kind{maphash.String(k.seed, it.Reason), it.Recipients})
		}
	}
	for hash, n := range k.unlisted {
		kinds = append(kinds, kind{hash, n})
	}
	slices.SortStableFunc(kinds, func(a, b kind) int { return cmp.Compare(b.recipients, a.recipients) })
	k.listed = make(map[uint64]bool)
	missing := false
	for _, it := range kinds[:min(len(kinds), maxReasons)] {
		k.listed[it.hash] = true
		_, unlisted := k.unlisted[it.hash]
		missing = missing || unlisted
	}
	return missing
}

func (k *reasonKinds) gather(ctx context.Context, queue Queue) ([]*mailq.ReasonItem, error) {
	byReason := make(map[string]*mailq.ReasonItem)
	others := &mailq.ReasonItem{Reason: "(others)", Others: true}
	var list, seen []*mailq.ReasonItem
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
			key := mailq.ReasonKind(text)
			it := byReason[key]
			switch {
			case it == nil && !k.mayList(key, len(list)):
				it = others
			case it == nil:
				// Clones, so that no key keeps a job's strings in memory.
				it = &mailq.ReasonItem{
					Reason: strings.Clone(key), Example: strings.Clone(text),
					Destination: mailq.Name{Channel: strings.Clone(job.Channel), Host: strings.Clone(job.Host)},
				}
				byReason[it.Reason] = it
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
