package daemon

import (
	"errors"
	"maps"
	"time"

	"zsched/scheduler"
	"zsched/scheduler/spool"
)

// tally is what the loop counts for metrics. It is the loop's own, so that
// counting costs an addition; others see a copy that they ask for.
type tally struct {
	pauses  histogram // how long the loop had no ear for anybody
	longest time.Duration
	feeds   histogram         // from arrival until the first job line
	faults  map[string]uint64 // by what was being done to the spool
	refused map[spool.Refusal]uint64
	starts  uint64 // agents that could not be started
	volume  int64  // bytes of message files taken

	sample   map[scheduler.MessageID]time.Time // arrivals not fed yet
	sweptAt  time.Time
	spokeAt  time.Time // when the spool said something last
	spoolErr string    // why the mail waits for the spool; "": it does not
}

// sampleMost bounds the arrivals whose first job line is waited for. While so
// many are waiting, others that come are not measured.
const sampleMost = 4096

// Upper bounds of the buckets, in seconds.
var (
	pauseBounds = []float64{.0001, .0003, .001, .002, .005, .01, .02, .05, .1, .5, 1}
	feedBounds  = []float64{.0005, .001, .002, .005, .01, .05, .1, .5, 1, 5, 30, 60, 300, 1800, 3600, 6 * 3600, 24 * 3600}
)

func newTally(now time.Time) tally {
	return tally{
		pauses:  newHistogram(pauseBounds),
		feeds:   newHistogram(feedBounds),
		faults:  make(map[string]uint64),
		refused: make(map[spool.Refusal]uint64),
		sample:  make(map[scheduler.MessageID]time.Time),
		sweptAt: now,
		spokeAt: now,
	}
}

// paused counts a turn of the loop.
func (t *tally) paused(d time.Duration) {
	t.pauses.observe(d.Seconds())
	t.longest = max(t.longest, d)
}

// arrived counts a message; the size is of its message file.
func (t *tally) arrived(m *scheduler.Message, now time.Time) {
	t.volume += m.Size
	if len(t.sample) < sampleMost && len(m.Recipients) > 0 {
		t.sample[m.ID] = now
	}
}

// fed is a message's job line; the first counts.
func (t *tally) fed(id scheduler.MessageID, now time.Time) {
	if at, ok := t.sample[id]; ok {
		t.feeds.observe(now.Sub(at).Seconds())
		delete(t.sample, id)
	}
}

// fault counts what the spool could not do; nil is no fault.
func (t *tally) fault(doing string, err error) {
	if err == nil || errors.Is(err, spool.ErrOpen) {
		return
	}
	t.faults[doing]++
}

// copy returns one that the loop does not change.
func (t *tally) copy() tally {
	c := *t
	c.pauses, c.feeds = t.pauses.copy(), t.feeds.copy()
	c.faults, c.refused = maps.Clone(t.faults), maps.Clone(t.refused)
	c.sample = nil
	return c
}
