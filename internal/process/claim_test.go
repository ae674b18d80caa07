package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

func TestADaemonRunsThatIsNamedInItsPidFile(t *testing.T) {
	office := t.TempDir()
	if running, ever := Daemon(office, "process"); running || ever {
		t.Errorf("without a pid file: %v, %v", running, ever)
	}
	pidFile := filepath.Join(office, ".pid.process") // this process is process.test
	if err := WritePID(pidFile); err != nil {
		t.Fatal(err)
	}
	if running, ever := Daemon(office, "process"); !running || !ever {
		t.Errorf("with the pid of this process: %v, %v", running, ever)
	}
	for _, text := range []string{"", "999999999\n", fmt.Sprintln(os.Getppid())} {
		if err := os.WriteFile(pidFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if running, ever := Daemon(office, "process"); running || !ever {
			t.Errorf("with the text %q: %v, %v", text, running, ever)
		}
	}
}

// A second daemon is refused as long as the first one runs, and the first one learns that it
// has lost its postoffice.
func TestASecondDaemonIsRefusedWithoutThePidFile(t *testing.T) {
	office := t.TempDir()
	transport := filepath.Join(office, "transport")
	if err := os.Mkdir(transport, 0o755); err != nil {
		t.Fatal(err)
	}
	first, err := NewClaim(office, "router", ".router")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if err := os.Remove(filepath.Join(office, ".pid.router")); err != nil {
		t.Fatal(err)
	}
	if _, err := NewClaim(office, "router", ".router"); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Errorf("a second claim: %v", err)
	}
	if err := first.Check(); err != nil {
		t.Error(err)
	}
	if err := os.Rename(transport, transport+".old"); err != nil {
		t.Fatal(err)
	}
	if err := first.Check(); !errors.Is(err, ErrReplaced) {
		t.Errorf("without a postoffice: %v", err)
	}
	if err := os.Mkdir(transport, 0o755); err != nil {
		t.Fatal(err)
	}
	second, err := NewClaim(office, "router", ".router")
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if err := first.Check(); !errors.Is(err, ErrReplaced) {
		t.Errorf("beside another daemon: %v", err)
	}
}

// The lock of a daemon that was killed may outlive it for a moment.
func TestAClaimWaitsForOneThatEnds(t *testing.T) {
	office := t.TempDir()
	if err := os.Mkdir(filepath.Join(office, "transport"), 0o755); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		first, err := NewClaim(office, "router", ".router")
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, first.Close)
		second, err := NewClaim(office, "router", ".router")
		if err != nil {
			t.Fatal(err)
		}
		second.Close()
	})
}
