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

// shares divides what messages that come in use: memory for recipients, and room on the disk. A login or
// an address block may have as much as it leaves free, so that one alone has half of it, two have a
// third each, and there is always some for another.
type shares struct {
	mu    sync.Mutex
	held  map[string]int64 // bytes of each source; all are positive
	total int64            // Invariant: the sum of held
}

// take takes bytes for a source. free says how many are free when that many are taken in all. It
// returns false if there are not enough for the source, unless it has to take them.
func (s *shares) take(source string, size int64, free func(taken int64) int64, must bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !must && s.held[source]+size > free(s.total+size) {
		return false
	}
	s.held[source] += size
	s.total += size
	return true
}

// give gives back what was taken for a source.
func (s *shares) give(source string, size int64) {
	if size == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total -= size
	if s.held[source] -= size; s.held[source] == 0 {
		delete(s.held, source)
	}
}
