package smtp

import (
	"sync"
	"time"
)

// Destinations is what is known of hosts beyond the connections that are open:
// the destination database of the seed. Each process has its own unless it is
// given one that several share. It is called with a lock held and must not
// take long.
type Destinations interface {
	// Find returns what is known of a host, if anything.
	Find(host string, now time.Time) (Record, bool)
	// Note replaces it, until a time after which nothing is known any more.
	Note(host string, r Record, until time.Time)
}

// Record is what is known of one host.
type Record struct {
	OpenedAt time.Time // when the newest connection to it was opened
	// RetryAt is when it should next be tried, after it could not be
	// connected to. The zero time: it works.
	RetryAt time.Time
	Failure string // why not, for people
	// NoChunking: it offers BDAT and does not know it.
	NoChunking bool
}

// memory is a Destinations of this process. What has expired goes at the next
// sweep, one for as many notes as the last one has left records.
type memory struct {
	mu      sync.Mutex
	records map[string]noted
	notes   int // since the last sweep
	left    int // records that it left
}

type noted struct {
	Record
	until time.Time
}

// NewDestinations is an empty database in memory.
func NewDestinations() Destinations { return &memory{records: map[string]noted{}} }

func (m *memory) Find(host string, now time.Time) (Record, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, ok := m.records[host]
	if !ok || !now.Before(n.until) {
		return Record{}, false
	}
	return n.Record, true
}

func (m *memory) Note(host string, r Record, until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records[host] = noted{r, until}
	if m.notes++; m.notes <= m.left+100 {
		return
	}
	now := time.Now()
	for name, n := range m.records {
		if !now.Before(n.until) {
			delete(m.records, name)
		}
	}
	m.notes, m.left = 0, len(m.records)
}
