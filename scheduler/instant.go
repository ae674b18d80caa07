package scheduler

import (
	"math"
	"time"
)

// instant is a time as the core keeps it by the million: nanoseconds since
// the epoch, a third of a time.Time. Zero means none.
type instant int64

// never is later than everything.
const never instant = math.MaxInt64

// at is the instant of a time, or the nearest there is: from 1970 to 2262. A
// message file can have any mtime.
func at(t time.Time) instant {
	switch seconds := t.Unix(); {
	case t.IsZero():
		return 0
	case seconds < 0:
		return 1
	case seconds >= int64(never/instant(time.Second)):
		return never
	}
	return instant(t.UnixNano())
}

func (i instant) time() time.Time { return time.Unix(0, int64(i)) }

// second is a time to the second, for what is only ever told to the second.
// Zero means none. It ends in 2106.
type second uint32

func atSecond(t time.Time) second { return second(min(max(0, t.Unix()), math.MaxUint32)) }

func (i instant) second() second {
	return second(min(max(0, i/instant(time.Second)), math.MaxUint32))
}

func (s second) instant() instant { return instant(s) * instant(time.Second) }

func (s second) time() time.Time { return time.Unix(int64(s), 0) }

// after adds without running over the end of time.
func (i instant) after(d time.Duration) instant {
	if d > 0 && i > never-instant(d) {
		return never
	}
	return i + instant(d)
}

func (i instant) since(earlier instant) time.Duration { return time.Duration(i - earlier) }
