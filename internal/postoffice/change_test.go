package postoffice

import (
	"testing"
	"time"
)

// A file system gives a copy the inode number of an earlier copy that is gone. The time
// tells them apart.
func TestCopiesHaveDifferentTimes(t *testing.T) {
	at := time.Unix(1795354801, 0)
	seen := map[time.Time]bool{}
	for range 1000 {
		of := TimeOfCopy(at)
		if before := at.Sub(of); before <= 0 || before > time.Second {
			t.Fatalf("the copy of %v has the time %v", at, of)
		}
		seen[of] = true
	}
	if len(seen) < 999 { // by chance, two of them are the same in one run of 2000
		t.Errorf("%d times for 1000 copies", len(seen))
	}
}
