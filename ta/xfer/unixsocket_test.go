package xfer

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"zsched/xfer"
)

// TestSocketOfAnotherUserIsNotUsed: only a process of root or of the agent's user gets
// mail at a UNIX socket.
func TestSocketOfAnotherUserIsNotUsed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can listen as another user")
	}
	for _, uid := range []int{0, 65534} {
		p := newPair(t, t.TempDir(), t.TempDir())
		p.submit(1)
		// A name without a file, which needs no directory that the user may write.
		name := "@" + filepath.Join(t.TempDir(), fmt.Sprint(uid))
		check(t, os.WriteFile(p.nodes, []byte("mx1 UNIX:/nowhere\nmx2 UNIX:"+name+"\n"), 0o600))
		stop, err := p.serveOn(func() net.Listener { return listenAs(t, uid, name) }, xfer.Credentials{})
		check(t, err)
		said := p.run()
		stop()
		arrived := len(controlFiles(filepath.Join(p.target, "transport"), ""))
		if uid == 0 && arrived != 1 {
			t.Errorf("nothing has arrived at root's process:\n%s", said)
		}
		if uid != 0 && (arrived != 0 || !strings.Contains(said, "it belongs to user 65534, and only root and user 0 may move mail here")) {
			t.Errorf("%d messages have arrived at the process of another user:\n%s", arrived, said)
		}
	}
}

// listenAs listens as a process of that user does. Only the thread changes its user, and
// the kernel notes the user of the thread.
func listenAs(t *testing.T, uid int, name string) net.Listener {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	setUser := func(euid int) {
		keep := -1
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(keep), uintptr(euid), uintptr(keep)); errno != 0 {
			t.Fatal(errno)
		}
	}
	setUser(uid)
	defer setUser(0)
	listener, err := net.Listen("unix", name)
	check(t, err)
	return listener
}
