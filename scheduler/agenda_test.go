package scheduler

import (
	"testing"
	"time"
)

// TestTimesOutOfRangeStayInOrder: a file can have an mtime that nanoseconds
// since the epoch cannot hold; ext4 goes to 2446. It must not become a time
// long ago, because then the message would be expired.
func TestTimesOutOfRangeStayInOrder(t *testing.T) {
	early, now, late := dateOf(time.Unix(-1<<40, 0)), dateOf(time.Unix(1_800_000_000, 0)), dateOf(time.Date(2400, 1, 1, 0, 0, 0, 0, time.UTC))
	if early >= now || now >= late {
		t.Errorf("long ago is %d, now %d, the year 2400 %d", early, now, late)
	}
	if expiry := late.after(time.Hour); expiry < now {
		t.Errorf("a message of the year 2400 expires at %d", expiry)
	}
	if expiry := early.after(time.Hour); expiry > now {
		t.Errorf("a message of long ago expires at %d", expiry)
	}
}
