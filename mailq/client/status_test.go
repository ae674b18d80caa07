package client

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestStatusOfDirectoriesThatAUserMayNotRead: a check that runs as an ordinary user does not
// fail because it cannot count the mail.
func TestStatusOfDirectoriesThatAUserMayNotRead(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"router", "transport", "queue"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with this goroutine
		if os.Geteuid() == 0 {
			_, _ = unix.SetfsuidRetUid(65534)
		}
		done <- (&Postoffice{Dir: dir}).WriteStatus(&text, true)
	}()
	want := "an unknown number of entries in " + dir + "/router/ directory, which you may not read: never started\n" +
		"an unknown number of messages in " + dir + "/transport/ directory, which you may not read: never started\n"
	if err := <-done; err != nil || text.String() != want {
		t.Errorf("%v, %q; want %q", err, text.String(), want)
	}
}

// Any user can make names in router/ that are no files.
func TestStatusCountsFilesOnly(t *testing.T) {
	dir := t.TempDir()
	router := filepath.Join(dir, "router")
	err := errors.Join(os.Mkdir(router, 0o755), os.Mkdir(filepath.Join(router, "1"), 0o755),
		os.Symlink("x", filepath.Join(router, "2")), os.WriteFile(filepath.Join(router, "3"), nil, 0o644))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	_ = (&Postoffice{Dir: dir}).WriteStatus(&text, true)
	if want := "1 entry in " + router + "/ directory"; !strings.HasPrefix(text.String(), want) {
		t.Errorf("%q; want %q", text.String(), want)
	}
}
