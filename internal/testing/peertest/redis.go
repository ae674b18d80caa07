package peertest

// A Redis server.

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// Redis is a Redis server with a port of its own, on the loopback.
type Redis struct {
	Port   int
	Args   []string // more arguments
	Dir    string   // where it saves its data, if it is told to
	tb     testing.TB
	binary string
	env    []string
	cmd    *exec.Cmd
}

// FindRedis returns a server that is not started yet: the one that "make peers" has
// unpacked, or the one installed on the system. It is nil if there is none.
func FindRedis(tb testing.TB) *Redis {
	tb.Helper()
	r := &Redis{Port: FreePort(tb), Dir: tb.TempDir(), tb: tb}
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		name := filepath.Join(dir, ".peers/usr/bin/redis-server")
		if _, err := os.Stat(name); err != nil {
			continue
		}
		libraries, _ := filepath.Glob(filepath.Join(dir, ".peers/usr/lib/*/"))
		r.binary = name
		for _, lib := range libraries {
			r.env = append(r.env, "LD_LIBRARY_PATH="+lib)
		}
		return r
	}
	if r.binary, err = exec.LookPath("redis-server"); err != nil {
		return nil
	}
	return r
}

// Addr returns host and port.
func (r *Redis) Addr() string { return fmt.Sprint("127.0.0.1:", r.Port) }

// Start starts the server, which loads the data that it saved.
func (r *Redis) Start() {
	r.tb.Helper()
	r.cmd = exec.Command(r.binary, "--port", fmt.Sprint(r.Port), "--bind", "127.0.0.1", "--dir", r.Dir, "--save", "", "--appendonly", "no", "--daemonize", "no")
	r.cmd.Args = append(r.cmd.Args, r.Args...)
	r.cmd.Env = append(os.Environ(), r.env...)
	if err := r.cmd.Start(); err != nil {
		r.tb.Fatal(err)
	}
	r.tb.Cleanup(r.Kill)
	Until(r.tb, "redis-server listens", Answers(r.Port))
}

// StartSentinel starts the program as a Sentinel, at its port, that watches a master
// by the name of "mymaster". Its answer is that the master is down after a second.
func (r *Redis) StartSentinel(master *Redis) {
	r.tb.Helper()
	conf := filepath.Join(r.Dir, "sentinel.conf")
	Put(r.tb, conf, fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor mymaster 127.0.0.1 %d 1\n"+
		"sentinel down-after-milliseconds mymaster 1000\nsentinel failover-timeout mymaster 3000\n", r.Port, r.Dir, master.Port))
	r.cmd = exec.Command(r.binary, conf, "--sentinel")
	r.cmd.Env = append(os.Environ(), r.env...)
	if err := r.cmd.Start(); err != nil {
		r.tb.Fatal(err)
	}
	r.tb.Cleanup(r.Kill)
	Until(r.tb, "the Sentinel listens", Answers(r.Port))
}

// Kill ends the server without warning.
func (r *Redis) Kill() {
	if r.cmd != nil {
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
		r.cmd = nil
	}
}

// Pause stops the process of the server, and Continue lets it go on.
func (r *Redis) Pause()    { _ = r.cmd.Process.Signal(syscall.SIGSTOP) }
func (r *Redis) Continue() { _ = r.cmd.Process.Signal(syscall.SIGCONT) }

// PID returns the process of the server.
func (r *Redis) PID() int { return r.cmd.Process.Pid }
