package postoffice

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestReadingLeavesTheAccessTimeAlone: reading leaves the access time of our own files alone, and
// those of others can be read all the same.
func TestReadingLeavesTheAccessTimeAlone(t *testing.T) {
	mine := filepath.Join(t.TempDir(), "mine")
	if err := os.WriteFile(mine, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	read := time.Unix(1_000_000_000, 0)
	if err := os.Chtimes(mine, read, read.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	theirs := "/etc/passwd"
	if os.Getuid() == 0 {
		theirs = mine
		t.Log("root may leave every file's access time alone: nothing is shown of others' files")
	}
	for _, path := range []string{mine, theirs} {
		fd, err := Open(WorkingDir, path, unix.O_RDONLY)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := unix.Read(fd, make([]byte, 1)); n != 1 || err != nil {
			t.Errorf("%s: %d bytes, %v", path, n, err)
		}
		if err := unix.Close(fd); err != nil {
			t.Error(err)
		}
	}
	var st unix.Stat_t
	if err := unix.Stat(mine, &st); err != nil {
		t.Fatal(err)
	}
	if st.Atim.Sec != read.Unix() {
		t.Errorf("the access time has become %v", time.Unix(st.Atim.Unix()))
	}
}
