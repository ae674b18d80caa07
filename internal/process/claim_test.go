package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestADaemonRunsThatIsNamedInItsPidFile(t *testing.T) {
	office := t.TempDir()
	if running, ever := Daemon(office, "process"); running || ever {
		t.Errorf("without a pid file: %v, %v", running, ever)
	}
	pidFile := filepath.Join(office, ".pid.process") // this process is process.test
	(&Claim{pidFile: pidFile}).writePID()
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

func newClaim(t *testing.T) (*Claim, string) {
	t.Helper()
	office := t.TempDir()
	for _, dir := range []string{"router", "transport"} {
		if err := os.Mkdir(filepath.Join(office, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c, err := NewClaim(office, "router", ".router", "router", "transport")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, office
}

// A daemon keeps its postoffice after its pid file and its staging directory were removed.
func TestASecondDaemonIsRefusedWithoutThePidFile(t *testing.T) {
	c, office := newClaim(t)
	pidFile, staging := filepath.Join(office, ".pid.router"), filepath.Join(office, "transport/.router")
	for range 2 {
		if err := os.Remove(pidFile); err != nil {
			t.Fatal(err)
		}
		if _, err := NewClaim(office, "router", ".router", "router", "transport"); !errors.Is(err, unix.EWOULDBLOCK) {
			t.Errorf("a second claim: %v", err)
		}
		if _, err := os.Stat(pidFile); err == nil {
			t.Error("the second daemon has left its pid file")
		}
		if err := os.Remove(staging); err != nil {
			t.Fatal(err)
		}
		if err := c.Check(); err != nil {
			t.Error(err)
		}
		if text, err := os.ReadFile(pidFile); err != nil || string(text) != fmt.Sprintln(os.Getpid()) {
			t.Errorf("the pid file is %q, %v", text, err)
		}
	}
	// Somebody removes everything, and another daemon begins at once.
	if err := errors.Join(os.Remove(pidFile), os.Remove(staging)); err != nil {
		t.Fatal(err)
	}
	second, err := NewClaim(office, "router", ".router", "router", "transport")
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if err := c.Check(); !errors.Is(err, ErrReplaced) {
		t.Errorf("beside another daemon: %v", err)
	}
}

func TestADaemonMayNotWorkInAnotherDirectory(t *testing.T) {
	for _, again := range []bool{false, true} {
		c, office := newClaim(t)
		dir := filepath.Join(office, "router")
		if err := os.Rename(dir, dir+".old"); err != nil {
			t.Fatal(err)
		}
		if again {
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Check(); !errors.Is(err, ErrReplaced) {
			t.Errorf("made again %v: %v", again, err)
		}
	}
}
