package postoffice

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Directories that a guard closes to other users.

func TestGuardClosesTransportAndQueueToOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to change groups")
	}
	dir := t.TempDir()
	for name, mode := range map[string]uint32{"transport": 0o2755, "queue": 0o777} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.Mkdir(path, 0o700), unix.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(filepath.Join(dir, "queue"), 0, 3); err != nil {
		t.Fatal(err)
	}
	changes, err := Guard(dir, 7)
	if err != nil || len(changes) != 2 || !strings.HasSuffix(changes[0], "transport: owner 0, mode 2755, group 0; now owner 0, mode 2750, group 7") {
		t.Errorf("changes %q, error %v", changes, err)
	}
	for name, want := range map[string][2]uint32{"transport": {0o2750, 7}, "queue": {0o750, 3}} {
		var st unix.Stat_t
		if err := unix.Stat(filepath.Join(dir, name), &st); err != nil {
			t.Fatal(err)
		}
		if st.Mode&0o7777 != want[0] || st.Gid != want[1] {
			t.Errorf("%s: mode %#o, group %d", name, st.Mode&0o7777, st.Gid)
		}
	}
	if changes, err := Guard(dir, 7); err != nil || len(changes) != 0 {
		t.Errorf("again: %q, %v", changes, err)
	}
}

// What was open to users before the scheduler ran as it does now is closed.
func TestGuardClosesHeldMail(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to change owners")
	}
	dir := t.TempDir()
	make := func(name string, uid int, mode uint32) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(path, 0o755), os.Chown(path, uid, uid), unix.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	const user = 4711
	make("transport", 0, 0o750)
	make("queue", 12, 0o750)
	make("hold", 0, 0o1777)
	make("hold/transport", 0, 0o1777)
	make("hold/queue", user, 0o777)
	make("postman", 0, 0o2750)
	if _, err := Guard(dir, 0); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][2]uint32{
		"queue": {12, 0o750}, "hold": {0, 0o1750}, "hold/transport": {0, 0o1750}, "hold/queue": {0, 0o750}, "postman": {0, 0o2750},
	} {
		var st unix.Stat_t
		if err := unix.Stat(filepath.Join(dir, name), &st); err != nil {
			t.Fatal(err)
		}
		if st.Mode&0o7777 != want[1] || st.Uid != want[0] {
			t.Errorf("%s: owner %d, mode %#o", name, st.Uid, st.Mode&0o7777)
		}
	}
	if changes, err := Guard(dir, 0); err != nil || len(changes) != 0 {
		t.Errorf("again: %q, %v", changes, err)
	}
	if err := errors.Join(os.RemoveAll(filepath.Join(dir, "hold/queue")),
		os.Symlink(t.TempDir(), filepath.Join(dir, "hold/queue"))); err != nil {
		t.Fatal(err)
	}
	if changes, err := Guard(dir, 0); err != nil || len(changes) != 1 || !strings.Contains(changes[0], "hold/queue") {
		t.Errorf("with links of root: %q, %v", changes, err)
	}
	if err := os.Lchown(filepath.Join(dir, "hold/queue"), user, user); err != nil {
		t.Fatal(err)
	}
	if _, err := Guard(dir, 0); !errors.Is(err, errUsersLink) {
		t.Errorf("with a link of a user: %v", err)
	}
}
