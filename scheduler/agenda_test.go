package scheduler

import (
	"testing"
	"time"

	"zsched/scheduler/rule"
)

// TestTimesOutOfRangeStayInOrder: a file can have an mtime that nanoseconds
// since the epoch cannot hold; ext4 goes to 2446. It must not become a time
// long ago, because then the message would be expired.
func TestTimesOutOfRangeStayInOrder(t *testing.T) {
	early, now, late := dateOf(time.Unix(-1<<40, 0)), dateOf(time.Unix(1_800_000_000, 0)), dateOf(time.Date(2400, 1, 1, 0, 0, 0, 0, time.UTC))
	if early >= now || now >= late {
		t.Errorf("long ago is %d, now %d, the year 2400 %d", early, now, late)
	}
	var ag agenda
	p := &rule.Params{Expiry: time.Hour}
	if primary, secondary := ag.expiryOf(p, late); primary < now || secondary < now {
		t.Errorf("a message of the year 2400 expires at %d and %d", primary, secondary)
	}
	if primary, _ := ag.expiryOf(p, early); primary > now {
		t.Errorf("a message of long ago expires at %d", primary)
	}
}
