package smtpserver

// Rates and memory: how many recipients a login, or the clients of an address block, may have in
// a time, and at once, and how many ETRNs there may be.

import (
	"sync"
	"time"
)

// Rate is a number of recipients or ETRNs in a time; the zero value: no limit.
type Rate struct {
	Number int
	Per    time.Duration
}

// rates has a bucket of tokens for each login, each address block, or each host of an ETRN. It holds
// Rate.Number, is full at first and fills in Rate.Per. Each recipient, or ETRN, takes a token.
type rates struct {
	mu     sync.Mutex
	fullAt map[string]time.Time // when a bucket is full again; up to maxCounted
}

// take takes a token, unless there is none.
func (r *rates) take(source string, limit Rate, now time.Time) bool {
	if limit.Number == 0 {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.fullAt[source]
	if at.Before(now) {
		at = now
	}
	at = at.Add(limit.Per / time.Duration(limit.Number))
	if at.Sub(now) > limit.Per {
		return false
	}
	if r.fullAt == nil {
		r.fullAt = make(map[string]time.Time)
	}
	bounded(r.fullAt, source)[source] = at
	return true
}

// refill makes a bucket full.
func (r *rates) refill(source string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.fullAt, source)
}

// maxEnvelopes bounds the memory for the recipients of all sessions, in bytes, without the
// first recipient of each message.
const maxEnvelopes = 16 << 20

// envelopes divides the memory for recipients. A login or an address block may have as much as
// it leaves free, so that one alone has half of it, two have a third each, and there is always
// some for another.
type envelopes struct {
	mu    sync.Mutex
	held  map[string]int64 // bytes of each source; all are positive
	total int64            // Invariant: the sum of held
}

// take takes memory, in bytes. It returns false if there is not enough for the source, unless it
// has to take it.
func (e *envelopes) take(source string, size int64, must bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !must && e.held[source]+size > maxEnvelopes-e.total-size {
		return false
	}
	e.held[source] += size
	e.total += size
	return true
}

// give gives back memory that was taken for a source.
func (e *envelopes) give(source string, size int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.total -= size
	if e.held[source] -= size; e.held[source] == 0 {
		delete(e.held, source)
	}
}
