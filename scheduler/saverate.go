package scheduler

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"zsched/scheduler/rule"
)

// Warm restart of the rates that several threads share (channelrate, siterate): saved like
// threads (save.go), and restored when the mail is loaded.

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

// maxSavedName is the length in bytes of the longest name of a rate that is saved.
const maxSavedName = 2000

// maxSavedRates bounds what is kept of rates that nothing uses after a restart.
const maxSavedRates = 100_000

// sharedRate is what a bucket that several threads share has beside its tokens.
type sharedRate struct {
	key RateKey
}

// ratesText writes a table of rates and its burst.
func ratesText(rates []rule.Rate, burst int) string {
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

// minSavedPeriod is the period of a rate from which its tokens are saved: those of shorter
// ones are back soon after a restart anyway.
const minSavedPeriod = time.Hour

// isSaved reports whether the tokens of the bucket are saved.
func (b *bucket) isSaved() bool {
	return slices.ContainsFunc(b.Rates, func(r rule.Rate) bool { return r.Span >= minSavedPeriod })
}

// ratesToSave returns the rates that several threads share and that lack tokens, and those
// of an earlier process that nothing has used yet.
func (q *queue) ratesToSave() (rates []SavedRate) {
	q.eachShared(func(b *bucket) {
		if b.isSaved() && b.Owed(q.both()) && len(b.shared.key.Name) <= maxSavedName {
			rates = append(rates, SavedRate{b.shared.key, int64(q.dateAt(instant(b.PaidAt)).ceilSecond())})
		}
	})
	for key, paidAt := range q.savedRates {
		if paidAt <= q.now {
			delete(q.savedRates, key)
			continue
		}
		rates = append(rates, SavedRate{key, int64(q.dateAt(paidAt).ceilSecond())})
	}
	slices.SortFunc(rates, func(a, b SavedRate) int { return a.compare(b.RateKey) })
	return rates
}

func (k RateKey) compare(other RateKey) int {
	return cmp.Or(cmp.Compare(k.Setting, other.Setting), cmp.Compare(k.Name, other.Name), cmp.Compare(k.Rates, other.Rates))
}

// restoredRate restores the tokens of a rate, or keeps them until something uses it.
func (q *queue) restoredRate(saved SavedRate) {
	paidAt := q.restoredInstant(saved.PaidAt, cmp.Or(q.config.Defaults.Expiry, rule.LongestRetry))
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
