package scheduler

import (
	"math"
	"time"
)

// The two clocks. Waits are measured by a clock that nobody can set: retries, suspensions,
// rates, the limits of agents. What belongs to a date follows the wall clock, also when it
// is set: expiry, reporttimes, an absolute retryat, and the ends
// of holds. An instant and a date are different types, so that
// they cannot be compared by mistake.

// Now is the time of a Step, by both clocks.
type Now struct {
	// Elapsed is the time since some moment before the first Step, such as the boot of
	// the machine (CLOCK_BOOTTIME). It is above 0 and does not go back.
	Elapsed time.Duration
	Wall    time.Time
}

// At returns a Now for a wall clock that is never set, as simulations have it.
func At(t time.Time) Now { return Now{Elapsed: time.Duration(t.UnixNano()), Wall: t} }

// clock has the time of the current Step.
type clock struct {
	now  instant
	date date
	// offset is how far dates are ahead of instants. It stays as long as it is right within
	// offsetTolerance: the clocks are read one after the other and are corrected all the time,
	// and the date of a wait should not change for that.
	offset time.Duration
}

const offsetTolerance = 100 * time.Millisecond

// set sets the clock to the time of a Step. If that is before the one of the previous
// Step, the instant stays.
func (c *clock) set(now Now) {
	c.now, c.date = max(c.now, instant(now.Elapsed)), dateOf(now.Wall)
	if offset := time.Duration(c.date) - time.Duration(c.now); (offset - c.offset).Abs() > offsetTolerance {
		c.offset = offset
	}
}

// dateAt returns the date of an instant, as the wall clock is set now.
func (c clock) dateAt(i instant) date {
	if i == 0 || i == never {
		return date(i)
	}
	return max(1, date(i).after(c.offset))
}

// instantAt returns the instant of a date, as the wall clock is set now.
func (c clock) instantAt(d date) instant {
	if d == 0 || d == noDate {
		return instant(d)
	}
	return max(1, instant(d).after(-c.offset))
}

// showing returns when the wall clock will show a date. Unlike instantAt, it is exact, so
// that a Tick at that instant does not come too early.
func (c clock) showing(d date) instant {
	if d == noDate {
		return never
	}
	return c.now.after(d.since(c.date))
}

// timeAt returns the time of an instant by the wall clock.
func (c clock) timeAt(i instant) time.Time { return c.dateAt(i).time() }

// instant is a time in nanoseconds by the clock that nobody can set. Zero means none.
type instant int64

// never is later than every instant.
const never instant = math.MaxInt64

// after adds d. It returns never if the sum is too large.
func (i instant) after(d time.Duration) instant {
	if d > 0 && i > never-instant(d) {
		return never
	}
	return i + instant(d)
}

func (i instant) since(earlier instant) time.Duration { return time.Duration(i - earlier) }

// date is a time by the wall clock, in nanoseconds since the epoch, which takes a third of
// the space of a time.Time. Zero means none.
type date int64

// noDate is later than every date.
const noDate date = math.MaxInt64

// dateOf converts a time. A message file can have any mtime: a time outside 1970 to
// 2262 becomes the nearest date.
func dateOf(t time.Time) date {
	switch seconds := t.Unix(); {
	case seconds >= int64(noDate/date(time.Second)):
		return noDate
	case seconds >= 0:
		return date(seconds)*date(time.Second) + date(t.Nanosecond())
	case t.IsZero():
		return 0
	}
	return 1
}

func (d date) time() time.Time { return time.Unix(0, int64(d)) }

// after adds span. It returns noDate if the sum is too large.
func (d date) after(span time.Duration) date { return date(instant(d).after(span)) }

func (d date) since(earlier date) time.Duration { return time.Duration(d - earlier) }

// unix is the date in whole seconds since the epoch, rounded down.
func (d date) unix() int64 { return int64(d / date(time.Second)) }

// second is an instant or a date in whole seconds, for times that need no fractions.
// Zero means none. As a date, the type overflows in 2106.
type second uint32

func secondOf(t time.Time) second { return second(min(max(0, t.Unix()), math.MaxUint32)) }

func (i instant) second() second {
	return second(min(max(0, i/instant(time.Second)), math.MaxUint32))
}

func (d date) second() second { return instant(d).second() }

// ceilSecond is the first whole second that is not before the date.
func (d date) ceilSecond() second { return d.after(time.Second - 1).second() }

func (s second) time() time.Time { return time.Unix(int64(s), 0) }
