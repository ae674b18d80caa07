package scheduler

import (
	"testing"
	"time"
)

// A file can have an mtime that nanoseconds since the epoch cannot hold; ext4
// goes to 2446. It must not come out as one long ago, which would have expired.
func TestTimesOutOfRangeStayInOrder(t *testing.T) {
	early, now, late := at(time.Unix(-1<<40, 0)), at(time.Unix(1_800_000_000, 0)), at(time.Date(2400, 1, 1, 0, 0, 0, 0, time.UTC))
	if early >= now || now >= late {
		t.Errorf("long ago is %d, now %d, the year 2400 %d", early, now, late)
	}
	p := &Params{Expiry: time.Hour}
	if primary, secondary := p.expiryOf(late); primary < now || secondary < now {
		t.Errorf("a message of the year 2400 expires at %d and %d", primary, secondary)
	}
	if primary, _ := p.expiryOf(early); primary > now {
		t.Errorf("a message of long ago expires at %d", primary)
	}
}
