package postoffice

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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

// The spoolid has the modification time. It must outlive a clock that is set back.
func TestTimeThatCameIntoTheFutureWithTheClockStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "1")
	future := time.Now().Add(time.Hour).Truncate(time.Second)
	for _, clockSetBack := range []bool{true, false} {
		var st unix.Stat_t
		err := os.WriteFile(path, nil, 0o600)
		if err == nil {
			err = os.Chtimes(path, future, future)
		}
		if err == nil {
			err = unix.Stat(path, &st)
		}
		if err != nil {
			t.Fatal(err)
		}
		if clockSetBack {
			st.Ctim = st.Mtim
		}
		EndFuture(WorkingDir, path, &st)
		info, err := os.Stat(path)
		if err != nil || info.ModTime().Equal(future) != clockSetBack || !info.ModTime().Equal(time.Unix(st.Mtim.Unix())) {
			t.Errorf("clock set back %v: %v, %v", clockSetBack, info, err)
		}
	}
}
