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

	"github.com/fsnotify/fsnotify"
	"github.com/rogpeppe/go-internal/testscript"

	"zsched/internal/process"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"router": main})
}

func TestScripts(t *testing.T) { testscript.Run(t, testscript.Params{Dir: "testdata"}) }

// startRouter runs the program itself in a postoffice until the test ends.
func startRouter(t *testing.T, o *office, conf string, attr *syscall.SysProcAttr) *exec.Cmd {
	t.Helper()
	// testscript.Main has put the program into the path, where only its own user
	// can reach it.
	found, err := exec.LookPath("router")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(found)
	path := filepath.Join(o.dir, "bin", "router")
	if err = errors.Join(err, os.Mkdir(filepath.Dir(path), 0o755), os.WriteFile(path, program, 0o755)); err != nil {
		t.Fatal(err)
	}
	o.write("zmailer.conf", conf)
	cmd := exec.Command(path, "-i", "-v", "-Z", filepath.Join(o.dir, "zmailer.conf"))
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
		o := newOffice(t, 2)
		var attr *syscall.SysProcAttr
		if uid != os.Geteuid() {
			attr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
			// The test's directories are root's alone.
			for dir := o.dir; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
				if err := os.Chmod(dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range []string{"", "router", "queue", "transport"} {
				if err := os.Chown(filepath.Join(o.dir, name), uid, uid); err != nil {
					t.Fatal(err)
				}
			}
		}
		socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(o.dir, ".scheduler.notify"), Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		defer socket.Close()
		if err := os.Chmod(filepath.Join(o.dir, ".scheduler.notify"), 0o666); err != nil {
			t.Fatal(err)
		}
		startRouter(t, o, "POSTOFFICE="+o.dir+"\nMAILSHARE="+o.dir+"/share\nSCHEDULERDIRHASH=2\n", attr)
		for i, name := range []string{"1", "A/2", "3"} {
			o.write("new", "from <s@a.example>\nto <x@b.example>\nenv-end\n\nbody\n")
			err := os.Chown(filepath.Join(o.dir, "new"), uid, uid)
			if i == 1 {
				err = errors.Join(err, os.Mkdir(filepath.Join(o.dir, "router/A"), 0o777), os.Chmod(filepath.Join(o.dir, "router/A"), 0o777))
			}
			if err = errors.Join(err, os.Rename(filepath.Join(o.dir, "new"), filepath.Join(o.dir, "router", name))); err != nil {
				t.Fatal(err)
			}
			path, ok := strings.CutPrefix(receive(t, socket), "NEW ")
			if _, err := os.Stat(filepath.Join(o.dir, "transport", path)); !ok || err != nil || len(path) < 5 {
				t.Errorf("user %d: %q: %v", uid, path, err)
			}
			if info, err := os.Stat(filepath.Join(o.dir, "queue", path)); err != nil || info.Mode().Perm()&0o440 != 0o440 || ownerOf(info) != uid {
				t.Errorf("user %d: message %v, %v", uid, info, err)
			}
		}
		for i := range 2 {
			if i == 1 {
				if err := os.Remove(filepath.Join(o.dir, ".pid.router")); err != nil {
					t.Fatal(err)
				}
			}
			second := exec.Command(filepath.Join(o.dir, "bin/router"), "-i", "-Z", filepath.Join(o.dir, "zmailer.conf"))
			second.SysProcAttr = attr
			tooLong := time.AfterFunc(time.Minute, func() { _ = second.Process.Kill() })
			if out, err := second.CombinedOutput(); err == nil || !strings.Contains(string(out), "another router is running in this postoffice") {
				t.Errorf("a second router: %v, %s", err, out)
			}
			tooLong.Stop()
		}
	}
}

// A router whose directory was replaced takes nothing from the new one, and ends.
func TestRouterEndsWhenADirectoryIsReplaced(t *testing.T) {
	for _, name := range queueDirs {
		o := newOffice(t, 0)
		o.write("router/1", "from <s@a.example>\nto <x@b.example>\nenv-end\n\nbody\n")
		r := o.router()
		claim, err := process.NewClaim(o.dir, "router", process.RouterDir, queueDirs[:]...)
		if err != nil {
			t.Fatal(err)
		}
		defer claim.Close()
		r.queue.claim = claim
		replace := func() {
			dir := filepath.Join(o.dir, name)
			if err := errors.Join(os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o755)); err != nil {
				t.Fatal(err)
			}
		}
		// In the middle of a batch: what is staged stays for the next router.
		r.queue.Step = func(what string) {
			if what == "sync staged" {
				replace()
			}
		}
		r.loop(make(chan os.Signal), new(fsnotify.Watcher))
		if !errors.Is(r.replaced, process.ErrReplaced) {
			t.Errorf("%s: %v", name, r.replaced)
		}
		left := o.files("router")
		if name == "router" {
			left = append(o.files("router.old"), left...)
		}
		if len(left) != 1 || len(o.files("queue")) != 0 {
			t.Errorf("%s: router/ has %v, queue/ has %v", name, left, o.files("queue"))
		}
		// Before a batch.
		if name == "router" {
			o.write("router/2", "from <s@a.example>\nto <x@b.example>\nenv-end\n\nbody\n")
			r.replaced = nil
			r.drain()
			if !errors.Is(r.replaced, process.ErrReplaced) || len(o.files("router")) != 1 {
				t.Errorf("%v, router/ has %v", r.replaced, o.files("router"))
			}
		}
	}
}
