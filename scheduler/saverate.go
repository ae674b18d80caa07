package scheduler

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"zsched/scheduler/rule"
)

// Warm restart of rates (rate, channelrate, siterate): when all their tokens are there again.

// SavedRate is the saved state of a rate.
type SavedRate struct {
	// Name is the setting, the channel or the channel and the host or site, and the table of
	// rates with the burst: a rate with another table begins with all its tokens.
	Name   string
	PaidAt int64 // when all tokens are there again, in seconds since 1970, rounded up
}

const (
	// minSavedPeriod is the period of a rate from which its tokens are saved: those of shorter
	// ones are back soon after a restart anyway.
	minSavedPeriod = time.Hour
	// maxSavedName bounds the name of a rate that is saved, in bytes.
	maxSavedName = 2000
	// maxSavedRates bounds what is kept of rates that nothing uses after a restart.
	maxSavedRates = 100_000
)

// rateName names a bucket across restarts.
func (b *bucket) rateName(owner string) string {
	var text strings.Builder
	text.WriteString(owner)
	for _, r := range b.Rates {
		text.WriteByte(' ')
		if !r.From.IsZero() {
			text.WriteString(strconv.FormatInt(r.From.Unix(), 10) + ":")
		}
		text.WriteString(strconv.Itoa(r.Recipients) + "/" + r.Span.String())
	}
	return text.String() + " " + strconv.Itoa(b.Burst)
}

// appendRate adds a rate that lacks tokens, if its period is long enough.
func (sa *saved) appendRate(to []SavedRate, owner string, b *bucket) []SavedRate {
	isSlow := slices.ContainsFunc(b.Rates, func(r rule.Rate) bool { return r.Span >= minSavedPeriod })
	if !isSlow || !b.Owed(sa.s.agenda.both()) {
		return to
	}
	if name := b.rateName(owner); len(name) <= maxSavedName {
		to = append(to, SavedRate{name, int64(sa.s.agenda.dateAt(instant(b.PaidAt)).ceilSecond())})
	}
	return to
}

// ratesToSave returns the rates that several threads share, and those of an earlier process that
// nothing has used yet.
func (sa *saved) ratesToSave() (rates []SavedRate) {
	for _, c := range sa.s.limits.channelOrder {
		for _, b := range c.rates {
			rates = sa.appendRate(rates, "channelrate "+c.name, b)
		}
	}
	for _, s := range sa.s.limits.sites {
		for _, b := range s.rates {
			rates = sa.appendRate(rates, "siterate "+s.name, b)
		}
	}
	for name, paidAt := range sa.s.limits.savedRates {
		if paidAt <= sa.s.agenda.now {
			delete(sa.s.limits.savedRates, name)
			continue
		}
		rates = append(rates, SavedRate{name, int64(sa.s.agenda.dateAt(paidAt).ceilSecond())})
	}
	slices.SortFunc(rates, func(a, b SavedRate) int { return cmp.Compare(a.Name, b.Name) })
	return rates
}

// restoredRate keeps the tokens of a rate until something uses it. This comes before any mail.
func (sa *saved) restoredRate(saved SavedRate) {
	paidAt := sa.s.agenda.restoredInstant(saved.PaidAt, cmp.Or(sa.s.rules.config.Defaults.Expiry, rule.LongestRetry))
	if paidAt == 0 || len(sa.s.limits.savedRates) >= maxSavedRates {
		return
	}
	if sa.s.limits.savedRates == nil {
		sa.s.limits.savedRates = make(map[string]instant)
	}
	sa.s.limits.savedRates[saved.Name] = paidAt
}

// restoreTokens gives a bucket that is used for the first time the tokens that an earlier process
// has saved.
func (sa *saved) restoreTokens(owner string, b *bucket) {
	if len(sa.s.limits.savedRates) == 0 || len(b.Rates) == 0 {
		return
	}
	name := b.rateName(owner)
	if paidAt := sa.s.limits.savedRates[name]; paidAt != 0 {
		delete(sa.s.limits.savedRates, name)
		b.PaidAt = max(b.PaidAt, time.Duration(paidAt))
	}
}
