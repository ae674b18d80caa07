package smtpserver

// Rates: how many recipients a login, or the clients of an address block, may have in a time.

import (
	"sync"
	"time"
)

// Rate is a number of recipients in a time; the zero value: no limit.
type Rate struct {
	Recipients int
	Per        time.Duration
}

// rates has a bucket of tokens for each login and address block. It holds Rate.Recipients,
// is full at first and fills in Rate.Per. Each recipient takes a token.
type rates struct {
	mu     sync.Mutex
	fullAt map[string]time.Time // when a bucket is full again; up to maxCounted
}

// take takes a token, unless there is none.
func (r *rates) take(source string, limit Rate, now time.Time) bool {
	if limit.Recipients == 0 {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.fullAt[source]
	if at.Before(now) {
		at = now
	}
	at = at.Add(limit.Per / time.Duration(limit.Recipients))
	if at.Sub(now) > limit.Per {
		return false
	}
	bounded(r.fullAt)[source] = at
	return true
}
