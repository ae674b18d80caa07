package main

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"router": main})
}

func TestScripts(t *testing.T) { testscript.Run(t, testscript.Params{Dir: "testdata"}) }

// startRouter runs the program itself in a postoffice until the test ends.
func startRouter(t *testing.T, dir string, conf string, attr *syscall.SysProcAttr, options ...string) *exec.Cmd {
	t.Helper()
	// testscript.Main has put the program into the path, where only its own user
	// can reach it.
	found, err := exec.LookPath("router")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(found)
	path := filepath.Join(dir, "bin", "router")
	if err = errors.Join(err, os.Mkdir(filepath.Dir(path), 0o755), os.WriteFile(path, program, 0o755)); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "zmailer.conf"), conf)
	cmd := exec.Command(path, append(options, "-i", "-v", "-Z", filepath.Join(dir, "zmailer.conf"))...)
	cmd.SysProcAttr = attr
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("router: %v", err)
		}
	})
	return cmd
}

// newOffice makes a postoffice with tables.
func newOffice(t *testing.T) string {
	t.Helper()
	office := t.TempDir()
	for _, name := range []string{"router", "queue", "transport", "share"} {
		if err := os.Mkdir(filepath.Join(office, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(office, "share/routes"), "mx.example local\n* smtp\n")
	return office
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// receive reads one datagram of the scheduler's socket.
func receive(t *testing.T, from *net.UnixConn) string {
	t.Helper()
	buf := make([]byte, 200)
	_ = from.SetReadDeadline(time.Now().Add(time.Minute))
	n, err := from.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n])
}

// TestRunningRouter: a file that is renamed into router/ is routed, the scheduler
// hears of it, and a second router does not start. As root it is run as nobody
// too.
func TestRunningRouter(t *testing.T) {
	users := []int{os.Geteuid()}
	if os.Geteuid() == 0 {
		users = append(users, 65534)
	}
	for _, uid := range users {
		office := newOffice(t)
		var attr *syscall.SysProcAttr
		if uid != os.Geteuid() {
			attr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
			// The test's directories are root's alone.
			for dir := office; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
				if err := os.Chmod(dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range []string{"", "router", "queue", "transport"} {
				if err := os.Chown(filepath.Join(office, name), uid, uid); err != nil {
					t.Fatal(err)
				}
			}
		}
		socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(office, ".scheduler.notify"), Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		defer socket.Close()
		if err := os.Chmod(filepath.Join(office, ".scheduler.notify"), 0o666); err != nil {
			t.Fatal(err)
		}
		startRouter(t, office, "POSTOFFICE="+office+"\nMAILSHARE="+office+"/share\nSCHEDULERDIRHASH=2\n", attr)
		for i, name := range []string{"1", "A/2", "3"} {
			write(t, filepath.Join(office, "new"), "from <s@a.example>\nto <x@b.example>\nenv-end\n\nbody\n")
			err := os.Chown(filepath.Join(office, "new"), uid, uid)
			if i == 1 {
				err = errors.Join(err, os.Mkdir(filepath.Join(office, "router/A"), 0o777), os.Chmod(filepath.Join(office, "router/A"), 0o777))
			}
			if err = errors.Join(err, os.Rename(filepath.Join(office, "new"), filepath.Join(office, "router", name))); err != nil {
				t.Fatal(err)
			}
			path, ok := strings.CutPrefix(receive(t, socket), "NEW ")
			if _, err := os.Stat(filepath.Join(office, "transport", path)); !ok || err != nil || len(path) < 5 {
				t.Errorf("user %d: %q: %v", uid, path, err)
			}
			if info, err := os.Stat(filepath.Join(office, "queue", path)); err != nil || info.Mode().Perm()&0o440 != 0o440 || int(info.Sys().(*syscall.Stat_t).Uid) != uid {
				t.Errorf("user %d: message %v, %v", uid, info, err)
			}
		}
		for i := range 2 {
			if i == 1 {
				if err := os.Remove(filepath.Join(office, ".pid.router")); err != nil {
					t.Fatal(err)
				}
			}
			second := exec.Command(filepath.Join(office, "bin/router"), "-i", "-Z", filepath.Join(office, "zmailer.conf"))
			second.SysProcAttr = attr
			tooLong := time.AfterFunc(time.Minute, func() { _ = second.Process.Kill() })
			if out, err := second.CombinedOutput(); err == nil || !strings.Contains(string(out), "another router is running in this postoffice") {
				t.Errorf("a second router: %v, %s", err, out)
			}
			tooLong.Stop()
		}
	}
}

// A SIGHUP that comes while the program starts does not end it. It starts as long as zmailer.conf, a
// FIFO, has no text, and then ends because of the length of that.
func TestHangupWhileItStarts(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "zmailer.conf")
	if err := syscall.Mkfifo(conf, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("router", "-i", "-Z", conf)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(conf, os.O_WRONLY, 0)
	if err = errors.Join(err, cmd.Process.Signal(syscall.SIGHUP)); err != nil {
		t.Fatal(err)
	}
	_, _ = f.Write(make([]byte, 2<<20))
	_ = f.Close()
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 1 {
		t.Errorf("%v", cmd.ProcessState)
	}
}
