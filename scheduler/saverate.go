package scheduler

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Warm restart of the rates that several threads share (channelrate,
// siterate), and of what the reply rules have done: saved like threads (save.go), and
// restored when the mail is loaded.

// SavedRate is the saved state of a rate that several threads share.
type SavedRate struct {
	RateKey
	PaidAt int64 // when all tokens are there again, in seconds since 1970, rounded up
}

// RateKey identifies a rate that several threads share, across restarts.
type RateKey struct {
	Setting string // channelrate or siterate
	// Name is the ring's key, the channel, or the channel and the site.
	Name string
	// Rates is the table of rates with its burst. Clauses may set several values
	// for one channel or site.
	Rates string
}

// SavedRule is what a reply rule has done. A rule that is no longer there is not
// restored.
type SavedRule struct {
	Rule   ReplyKey
	Hits   uint64
	LastAt int64 // of the last hit, in seconds since 1970, rounded down
}

// maxSavedName is the length in bytes of the longest name of a rate that is saved.
const maxSavedName = 2000

// maxSavedRates bounds what is kept of rates that nothing uses after a restart.
const maxSavedRates = 100_000

// sharedRate is what a bucket that several threads share has beside its tokens.
type sharedRate struct {
	key     RateKey
	unsaved bool // in saving.rates
}

// ratesText writes a table of rates and its burst.
func ratesText(rates []Rate, burst int) string {
	var b strings.Builder
	for _, r := range rates {
		if !r.From.IsZero() {
			b.WriteString(strconv.FormatInt(r.From.Unix(), 10) + " ")
		}
		b.WriteString(strconv.Itoa(r.Recipients) + "/" + strconv.FormatInt(int64(r.Span), 10) + ", ")
	}
	return b.String() + strconv.Itoa(burst)
}

// shareBucket names a bucket that several threads share. If an earlier process has
// saved its tokens, they are restored.
func (q *queue) shareBucket(b *bucket, setting, name string) {
	key := RateKey{setting, name, ratesText(b.Rates, b.Burst)}
	if b.shared != nil && b.shared.key == key {
		return
	}
	b.shared = &sharedRate{key: key}
	if paidAt := q.savedRates[key]; paidAt != 0 {
		delete(q.savedRates, key)
		b.PaidAt = max(b.PaidAt, time.Duration(paidAt))
	}
}

// takeShared takes tokens from a bucket that several threads share.
func (q *queue) takeShared(b *bucket, n int) {
	b.Take(q.both(), n)
	q.noteRateChange(b)
}

// noteRateChange notes that the tokens of a bucket are to be saved, if they are slow
// and some are missing.
func (ml *mail) noteRateChange(b *bucket) {
	sv := &ml.saving
	if sv.tracked && !sv.lost && !b.shared.unsaved && b.Per() >= minSavedToken && b.PaidAt != 0 && len(b.shared.key.Name) <= maxSavedName {
		b.shared.unsaved = true
		sv.rates = append(sv.rates, b)
	}
}

// eachShared calls f for each bucket that several threads share, in no particular order.
func (q *queue) eachShared(f func(*bucket)) {
	for _, c := range q.channelOrder {
		for _, b := range c.rates {
			f(b)
		}
	}
	for _, s := range q.sites {
		for _, b := range s.rates {
			f(b)
		}
	}
}

// saveShared saves rates and rules that have changed, and reports whether there are
// more.
func (q *queue) saveShared(to *Saved, n int) (more bool) {
	sv := &q.saving
	for len(sv.rates) > 0 && !to.full(n) {
		b := sv.rates[0]
		sv.rates = sv.rates[1:]
		b.shared.unsaved = false
		to.Rates = append(to.Rates, SavedRate{b.shared.key, int64(q.dateAt(instant(b.PaidAt)).ceilSecond())})
	}
	if len(sv.rates) > 0 {
		return true
	}
	sv.rates = nil
	for _, st := range q.replyRules {
		if !st.unsaved || len(st.rule.Expression) > maxSavedExpression {
			continue
		}
		if to.full(n) {
			return true
		}
		st.unsaved = false
		to.Rules = append(to.Rules, SavedRule{st.rule.Key(), st.hits, st.lastAt.unix()})
	}
	return false
}

// noteShared notes all rates and rules that are to be saved as changed, and returns the
// saved rates that nothing has used since the restart.
func (q *queue) noteShared() (unused []SavedRate) {
	sv := &q.saving
	sv.rates = nil
	q.eachShared(func(b *bucket) {
		b.shared.unsaved = b.Per() >= minSavedToken && b.Owed(q.both()) && len(b.shared.key.Name) <= maxSavedName
		if b.shared.unsaved {
			sv.rates = append(sv.rates, b)
		}
	})
	slices.SortFunc(sv.rates, func(a, b *bucket) int { return a.shared.key.compare(b.shared.key) })
	for _, st := range q.replyRules {
		st.unsaved = st.hits > 0
	}
	for key, paidAt := range q.savedRates {
		if paidAt <= q.now {
			delete(q.savedRates, key)
			continue
		}
		unused = append(unused, SavedRate{key, int64(q.dateAt(paidAt).ceilSecond())})
	}
	slices.SortFunc(unused, func(a, b SavedRate) int { return a.compare(b.RateKey) })
	return unused
}

func (k RateKey) compare(other RateKey) int {
	return cmp.Or(cmp.Compare(k.Setting, other.Setting), cmp.Compare(k.Name, other.Name), cmp.Compare(k.Rates, other.Rates))
}

// restoredRate restores the tokens of a rate, or keeps them until something uses it.
func (q *queue) restoredRate(saved SavedRate) {
	paidAt := q.restoredInstant(saved.PaidAt, cmp.Or(q.config.Defaults.Expiry, longestRetry))
	if paidAt == 0 {
		return
	}
	for _, b := range q.bucketsOf(saved.RateKey) {
		if b.shared.key == saved.RateKey {
			b.PaidAt = max(b.PaidAt, time.Duration(paidAt))
			return
		}
	}
	if q.savedRates == nil {
		q.savedRates = make(map[RateKey]instant)
	}
	if len(q.savedRates) < maxSavedRates {
		q.savedRates[saved.RateKey] = paidAt
	}
}

// bucketsOf returns the buckets of the channel or the site of a rate.
func (q *queue) bucketsOf(key RateKey) []*bucket {
	switch key.Setting {
	case "channelrate":
		if c := q.channels[key.Name]; c != nil {
			return c.rates
		}
	case "siterate":
		if s := q.sites[key.Name]; s != nil {
			return s.rates
		}
	}
	return nil
}

// restoredRule restores what a reply rule has done, if the rule is still there.
func (q *queue) restoredRule(saved SavedRule) {
	if st := findRule(q.replyRules, saved.Rule); st != nil {
		st.hits += saved.Hits
		st.lastAt = max(st.lastAt, min(dateOf(time.Unix(max(0, saved.LastAt), 0)), q.date))
	}
}
