package soak

// The programs of the site, and their deaths.

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// program is a daemon that is started again whenever it has exited.
type program struct {
	name string
	args []string
	s    *site

	mu      sync.Mutex
	process *os.Process // nil: it does not run
	stopped bool        // do not start it again
	fault   string      // what killed it; "": nothing did
	log     tail
	ended   sync.WaitGroup
}

func (s *site) program(name string, args ...string) *program {
	return &program{name: name, args: append(args, "-Z", filepath.Join(s.dir, "zmailer.conf")), s: s}
}

func (s *site) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.dir, "bin", name), args...)
	cmd.Dir = s.dir
	// A crash of this process ends its children.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return cmd
}

func (s *site) daemons() []*program { return []*program{s.scheduler, s.router, s.smtpserver} }

func (s *site) startAll() {
	for _, p := range s.daemons() {
		p.start()
	}
}

// start keeps the program running until stop.
func (p *program) start() {
	p.mu.Lock()
	p.stopped = false
	p.mu.Unlock()
	p.ended.Go(func() {
		for {
			p.mu.Lock()
			if p.stopped {
				p.mu.Unlock()
				return
			}
			cmd := p.s.command(p.name, p.args...)
			cmd.Env = append(os.Environ(), "GODEBUG=gctrace=1")
			cmd.Stdout, cmd.Stderr = &p.log, &p.log
			p.fault = ""
			if err := cmd.Start(); err != nil {
				p.mu.Unlock()
				p.s.t.Errorf("%s does not start: %v", p.name, err)
				return
			}
			p.process = cmd.Process
			p.mu.Unlock()
			err := cmd.Wait()
			p.mu.Lock()
			p.process = nil
			died := cmd.ProcessState.Sys().(syscall.WaitStatus).Signal()
			switch {
			case p.fault != "":
				p.s.faults.add(p.fault)
			case died == syscall.SIGHUP || died == syscall.SIGUSR1:
				// The program had just begun, and did not handle signals yet.
				p.s.faults.add("SIGHUP or SIGUSR1 of " + p.name + " too early")
			case !p.stopped:
				p.s.t.Errorf("%s has exited by itself: %v\n%s", p.name, err, p.log.text())
				p.stopped = true
			}
			p.mu.Unlock()
			if rand.IntN(3) == 0 {
				time.Sleep(rand.N(2 * time.Second))
			}
		}
	})
}

// signal sends a signal to the program. If fault is not empty, the signal ends the
// program, and fault describes it.
func (p *program) signal(sig syscall.Signal, fault string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil || p.fault != "" {
		return false
	}
	p.fault = fault
	return p.process.Signal(sig) == nil
}

// pid returns the process number; 0 if the program does not run.
func (p *program) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil {
		return 0
	}
	return p.process.Pid
}

// stop ends the program and waits until it has ended.
func (p *program) stop(sig syscall.Signal) {
	p.mu.Lock()
	p.stopped = true
	if p.process != nil {
		_ = p.process.Signal(sig)
		killTimer := time.AfterFunc(30*time.Second, func() { p.signal(syscall.SIGKILL, "killed, because it does not stop") })
		defer killTimer.Stop()
	}
	p.mu.Unlock()
	p.ended.Wait()
}

// stopAll stops the daemons, and kills what is left of the programs of this site.
func (s *site) stopAll() {
	for _, p := range s.daemons() {
		if p != nil {
			p.stop(syscall.SIGTERM)
		}
	}
	for range 50 {
		left := s.processes("")
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if len(left) == 0 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// processes lists the processes that run a program of this site whose path below bin/
// begins with prefix.
func (s *site) processes(prefix string) (pids []int) {
	list, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range list {
		exe, err := os.Readlink(dir + "/exe")
		if err == nil && strings.HasPrefix(exe, filepath.Join(s.dir, "bin")+"/"+prefix) {
			if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// killDaemons kills every daemon every few seconds until calm: mostly with SIGKILL,
// and now and then with SIGTERM. It also has them read their configuration again.
func (s *site) killDaemons(ctx context.Context, calm time.Time) {
	for pause(ctx, 400*time.Millisecond) {
		if rand.IntN(8) == 0 {
			if s.writeClauses() == nil && s.scheduler.signal(syscall.SIGUSR1, "") {
				s.faults.count("reload of the scheduler with another configuration")
			}
			s.router.signal(syscall.SIGHUP, "")
			continue
		}
		if time.Now().After(calm) {
			continue
		}
		p := s.daemons()[rand.IntN(3)]
		switch {
		case rand.IntN(10) == 0:
			p.signal(syscall.SIGTERM, "SIGTERM of "+p.name)
		case p == s.scheduler && rand.IntN(2) == 0:
			if p.signal(syscall.SIGKILL, "SIGKILL of scheduler and its agents") {
				s.kill(s.processes("ta/"))
			}
		default:
			p.signal(syscall.SIGKILL, "SIGKILL of "+p.name)
		}
	}
}

// killAgents kills one agent or all of them, every few seconds.
func (s *site) killAgents(ctx context.Context) {
	for pause(ctx, time.Second) {
		pids := s.processes("ta/")
		if len(pids) == 0 {
			continue
		}
		rand.Shuffle(len(pids), func(i, j int) { pids[i], pids[j] = pids[j], pids[i] })
		if rand.IntN(6) > 0 {
			pids = pids[:1]
		}
		s.kill(pids)
		s.faults.add("SIGKILL of agents")
	}
}

func (s *site) kill(pids []int) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// tail keeps the end of what a program writes, and the size of its heap.
type tail struct {
	mu    sync.Mutex
	bytes []byte
	begun []byte // the beginning of an incomplete line
	heap  int
}

// collection is a line that the runtime writes after each garbage collection.
var collection = regexp.MustCompile(`gc \d+ @.*->(\d+) MB, `)

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for line := range bytes.Lines(append(t.begun, b...)) {
		if line[len(line)-1] != '\n' {
			t.begun = append([]byte(nil), line...)
			return len(b), nil
		}
		if found := collection.FindSubmatch(line); found != nil {
			t.heap, _ = strconv.Atoi(string(found[1]))
			continue
		}
		t.bytes = append(t.bytes, line...)
	}
	t.begun = nil
	if most := 1 << 20; len(t.bytes) > most {
		t.bytes = append([]byte(nil), t.bytes[len(t.bytes)-most/2:]...)
	}
	return len(b), nil
}

// text returns the last lines.
func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.bytes[max(0, len(t.bytes)-4000):])
}

// goroutines counts the goroutines of a dump that SIGQUIT has caused.
func (t *tail) goroutines() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Count(t.bytes, []byte("\ngoroutine "))
}

func (t *tail) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bytes = nil
}

// megabytes is the heap in use after the last garbage collection.
func (t *tail) megabytes() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.heap
}
