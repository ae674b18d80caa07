// This file holds the destination database: what the agent knows about hosts,
// besides their open connections.

package smtp

import (
	"sync"
	"time"
)

// Destinations is the destination database. Each Agent has its own, unless Options
// gives it one. It is called with a lock held and must return soon.
type Destinations interface {
	// Find returns the record of a host, if there is one.
	Find(host string, now time.Time) (Record, bool)
	// Note replaces the record of a host. The new record expires at until.
	Note(host string, r Record, until time.Time)
}

// Record is what is known about one host.
type Record struct {
	OpenedAt time.Time // when the newest connection to it was opened
	// RetryAt is when the host may be tried again, after it could not be
	// connected to. Zero: the host works.
	RetryAt    time.Time
	Failure    string // why it could not be connected to, for people
	NoChunking bool   // it offers CHUNKING but does not know BDAT
}

// memory is a Destinations in the memory of this process. It sweeps out expired
// records once it has had about as many notes as records remained after the last
// sweep.
type memory struct {
	mu      sync.Mutex
	records map[string]expiring
	notes   int // since the last sweep
	left    int // records after the last sweep
}

type expiring struct {
	Record
	until time.Time
}

// NewDestinations returns an empty database in memory.
func NewDestinations() Destinations { return &memory{records: map[string]expiring{}} }

func (m *memory) Find(host string, now time.Time) (Record, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.records[host]
	if !ok || !now.Before(r.until) {
		return Record{}, false
	}
	return r.Record, true
}

func (m *memory) Note(host string, r Record, until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records[host] = expiring{r, until}
	if m.notes++; m.notes <= m.left+100 {
		return
	}
	now := time.Now()
	for name, r := range m.records {
		if !now.Before(r.until) {
			delete(m.records, name)
		}
	}
	m.notes, m.left = 0, len(m.records)
}
