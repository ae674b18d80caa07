// Package peertest runs other servers beside ours, for tests and benchmarks: Postfix
// and Redis, which "make peers" has unpacked into .peers. Nothing is installed, and
// everything is on the loopback.
package peertest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// Peers is the folder that Postfix's package was unpacked in.
type Peers string

// Find looks for .peers from the working directory upwards. It skips the test if
// there is none, or if the test is not run by root, because only root can start
// Postfix.
func Find(tb testing.TB) Peers {
	tb.Helper()
	if os.Geteuid() != 0 {
		tb.Skip("Postfix and its smtp-sink must be started by root")
	}
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		peers, err := filepath.EvalSymlinks(filepath.Join(dir, ".peers"))
		if err == nil {
			return Peers(peers)
		}
		if dir == "/" {
			tb.Skip("no Postfix in .peers: make peers gets it")
		}
	}
}

// Command returns the command for a program of Postfix's package, such as
// sbin/smtp-source.
func (p Peers) Command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(string(p), "usr", program), args...)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Join(string(p), "usr/lib/postfix"))
	return cmd
}

// Source is smtp-source, which sends messages over twenty sessions to a port. Each
// message has about 2000 bytes and one recipient.
func (p Peers) Source(port, messages int, from, to string, more ...string) *exec.Cmd {
	args := append([]string{"-s", "20", "-m", fmt.Sprint(messages), "-l", "1900", "-f", from, "-t", to}, more...)
	return p.Command("sbin/smtp-source", append(args, fmt.Sprint("127.0.0.1:", port))...)
}

// Sink starts smtp-sink, which takes mail and throws it away, and returns its
// port.
func (p Peers) Sink(tb testing.TB) (port int) {
	tb.Helper()
	port = FreePort(tb)
	Background(tb, p.Command("sbin/smtp-sink", "-u", "nobody", fmt.Sprint("127.0.0.1:", port), "100"))
	Until(tb, "smtp-sink listens", Answers(port))
	return port
}

// Run runs a program, which has to succeed.
func Run(tb testing.TB, cmd *exec.Cmd) {
	tb.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("%s: %v\n%s", cmd.Path, err, out)
	}
}

// Background runs a program and its children until stop is called or the test is
// over.
func Background(tb testing.TB, cmd *exec.Cmd) (stop func()) {
	tb.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
			_ = cmd.Wait()
		}
	}
	tb.Cleanup(stop)
	return stop
}

// FreePort returns a port of 127.0.0.1 at which no process listens now.
func FreePort(tb testing.TB) int {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// Until waits until a condition holds, two minutes at most.
func Until(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	for end := time.Now().Add(2 * time.Minute); !holds(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatal("waited two minutes until " + what)
		}
	}
}

// Answers returns the condition that a process listens at a port.
func Answers(port int) func() bool {
	return func() bool {
		nc, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", port))
		if err == nil {
			_ = nc.Close()
		}
		return err == nil
	}
}

// Median returns the median of the results of several runs.
func Median(results []float64) float64 {
	sorted := slices.Sorted(slices.Values(results))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// Put writes a file.
func Put(tb testing.TB, name, text string) {
	tb.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		tb.Fatal(err)
	}
}
