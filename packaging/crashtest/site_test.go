//go:build linux && amd64

package crashtest

// The site: a postoffice, its configuration and its programs, which are started again
// when they end.

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"zsched/internal/testing/injector"
	"zsched/internal/testing/ledger"
)

const zmailerConf = `POSTOFFICE=%[1]s/po
MAILBIN=%[2]s
MAILSHARE=%[1]s/etc
LOGDIR=%[1]s/log
ROUTERTRUSTED=root %[3]s
ORGDOMAIN=here.example
SYSLOGFLG=
PATH=/usr/bin:/bin
`

const schedulerCf = `PARAMmailqsock = "UNIX:%[1]s/run/mailq"
PARAMevent-log = "%[1]s/log/events"
*/*
	user=%[4]d group=%[5]d interval=1s retries=1 jitter=0 expiry=1h overfeed=4 maxring=2 maxthr=1
local/*	maxthr=2 command="mailbox -c $channel -d %[1]s/mail/%%u/"
mbox/*	maxthr=2 command="mailbox -c $channel -d %[1]s/mail/mbox-%%u"
smtp/never.example	expiry=2s command="smtp -F UNIX:%[1]s/run/sink -x --retry 1s"
smtp/unmarked.example	marking=scheduler command="smtp -F UNIX:%[1]s/run/sink -x --retry 1s --marking scheduler"
smtp/*	command="smtp -F UNIX:%[1]s/run/sink -x --retry 1s"
sm/*	command="sm -c $channel sink"
hold/*	command="hold -c $channel"
error	command="errormail -c $channel"
`

const smConf = "sink S %[2]s/" + smProgram + " " + smProgram + " %[1]s/run/sink $u\n"

const routes = `here.example local
sm.example sm
error.example error nosuchdomain
* smtp
`

const aliases = `to3: %[3]s
team: t6@ok.example, %[3]s
owner-team: team-owner@sender.example
postmaster: %[3]s
`

const smtpserverCf = `hostname here.example
domain here.example
`

// site is a postoffice with its programs.
type site struct {
	t      *testing.T
	bin    string
	dir    string
	user   string
	ledger *ledger.Ledger
	sink   *sink
	// decide is asked about every call of a traced program. It is nil if none is
	// traced.
	decide func(injector.Call) injector.Action
	// isReady, if it is not nil, is called when the daemons have started for the first
	// time.
	isReady func()
	// trace says which programs are traced; their children are too.
	trace func(program string) bool
	// takesBack says that calls fail, so that a submission may be taken back from router/ while
	// the router has it.
	takesBack bool

	mu       sync.Mutex
	life     int
	stopping bool
	ended    int // daemons that ended by themselves
	daemons  map[string]*daemon
	notes    []string      // other observations about this run
	asked    time.Duration // the longest query that s.ask made
	left     []string      // files that are left in the postoffice at the end
	watching sync.WaitGroup
}

// daemon is a program that the site keeps running.
type daemon struct {
	name string
	args []string
	run  running
}

// running is a running program, traced or not.
type running interface {
	Done() <-chan struct{}
	Signal(syscall.Signal) error
}

// plain is a program that is not traced.
type plain struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

func (p *plain) Done() <-chan struct{}         { return p.done }
func (p *plain) Signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// plainStarts are the starts of programs that are not traced. They are all made by one
// thread of their own. A tracer is a thread too, and may be one that has started other
// programs before: it would take the end of these programs for one of its own, and when
// it ends, the kernel kills those that have Pdeathsig.
var plainStarts = sync.OnceValue(func() chan<- func() {
	starts := make(chan func())
	go func() {
		runtime.LockOSThread()
		for start := range starts {
			start()
		}
	}()
	return starts
})

func startPlain(cmd *exec.Cmd) error {
	done := make(chan error)
	plainStarts() <- func() { done <- cmd.Start() }
	return <-done
}

func newSite(t *testing.T, bin string) *site {
	t.Helper()
	dir, err := os.MkdirTemp("", "crash-")
	if err != nil {
		t.Fatal(err)
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, bin: bin, dir: dir, user: me.Username, ledger: ledger.New(), daemons: map[string]*daemon{}}
	for _, d := range []string{"po/transport", "po/queue", "po/router", "po/public", "po/postman", "etc", "log", "mail", "run"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"zmailer.conf": zmailerConf, "etc/scheduler.cf": schedulerCf, "etc/sm.conf": smConf, "etc/routes": routes,
		"etc/aliases": aliases, "etc/smtpserver.cf": smtpserverCf,
	} {
		if strings.Contains(text, "%[") {
			text = fmt.Sprintf(text+"%[6]s", dir, bin, s.user, os.Getuid(), os.Getgid(), "")
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if s.sink, err = newSink(filepath.Join(dir, "run/sink"), s.ledger); err != nil {
		t.Fatal(err)
	}
	s.sink.life = s.lives
	s.sink.reason = func(*ledger.Entry) string { return "" }
	return s
}

// remove ends everything and removes the directory.
func (s *site) remove() {
	s.stop()
	_ = s.sink.server.Close()
	if *keep && s.t.Failed() {
		s.t.Logf("kept: %s", s.dir)
		return
	}
	_ = os.RemoveAll(s.dir)
}

// lives is how often a daemon has ended so far.
func (s *site) lives() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.life
}

func (s *site) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// path is the path of a file of the site.
func (s *site) path(name string) string { return filepath.Join(s.dir, name) }

// launch starts a program; its output is appended to a file of log/.
func (s *site) launch(name string, stdin *os.File, args ...string) (running, error) {
	log, err := os.OpenFile(s.path("log/"+name+".err"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = s.dir, stdin, log, log
	cmd.Env = []string{"PATH=/usr/bin:/bin", "TMPDIR=" + s.path("run")}
	if s.decide != nil && s.trace(name) {
		return injector.Start(injector.Options{Command: cmd, Root: s.dir, Decide: s.decide})
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := startPlain(cmd); err != nil {
		return nil, err
	}
	p := &plain{cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// failure says how a program that has ended failed; "" if it succeeded.
func failure(r running) string {
	switch r := r.(type) {
	case *injector.Process:
		switch w := r.Wait(); {
		case w.Signaled():
			return w.Signal().String()
		case w.ExitStatus() != 0:
			return fmt.Sprintf("exit status %d", w.ExitStatus())
		}
	case *plain:
		if r.err != nil {
			return r.err.Error()
		}
	}
	return ""
}

// start starts the three daemons.
func (s *site) start() error {
	s.mu.Lock()
	s.stopping = false
	s.mu.Unlock()
	conf := s.path("zmailer.conf")
	return errors.Join(
		s.daemon("router", "-i", "-Z", conf),
		s.daemon("smtpserver", "-i", "-Z", conf, "-l", "smtp:"+s.path("run/smtp")),
		s.daemon("scheduler", "-i", "-M", "2", "-Z", conf, "-l", s.path("log/statistics")))
}

// awaitReady waits until the daemons have their sockets, the router its pid file. A daemon that a fault ends
// before is started again, so this comes sooner or later, on a busy machine later.
func (s *site) awaitReady() {
	for range settleTime / lookInterval {
		ready := true
		for _, file := range []string{"run/smtp", "run/mailq", "po/.pid.router"} {
			_, err := os.Stat(s.path(file))
			ready = ready && err == nil
		}
		if ready {
			return
		}
		time.Sleep(lookInterval)
	}
	s.t.Errorf("the daemons are not ready after %v", settleTime)
}

// daemon starts a daemon, and starts it again whenever it ends.
func (s *site) daemon(name string, args ...string) error {
	r, err := s.launch(name, nil, args...)
	if err != nil {
		return fmt.Errorf("starting %s: %w", name, err)
	}
	d := &daemon{name, args, r}
	s.mu.Lock()
	s.daemons[name] = d
	s.mu.Unlock()
	s.watching.Go(func() { s.watch(d) })
	return nil
}

func (s *site) watch(d *daemon) {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		<-d.run.Done()
		s.mu.Lock()
		stopping := s.stopping
		s.life++
		s.mu.Unlock()
		if stopping {
			return
		}
		s.note("%s ended: %s", d.name, failure(d.run))
		s.mu.Lock()
		s.ended++
		s.mu.Unlock()
		time.Sleep(pause)
		r, err := s.launch(d.name, nil, d.args...)
		if err != nil {
			s.note("starting %s: %v", d.name, err)
			return
		}
		s.mu.Lock()
		d.run = r
		s.mu.Unlock()
	}
}

// signal sends a signal to a daemon.
func (s *site) signal(name string, signal syscall.Signal) {
	s.mu.Lock()
	d := s.daemons[name]
	s.mu.Unlock()
	if d != nil {
		_ = d.run.Signal(signal)
	}
}

// stopTimeout is longer than the scheduler's fast stop takes. A busy disk can keep a
// process from ending for long. It is counted in seconds in which this process runs.
const stopTimeout = 5 * time.Minute

// stop stops the daemons and waits for them.
func (s *site) stop() {
	s.mu.Lock()
	s.stopping = true
	daemons := slices.Collect(maps.Values(s.daemons))
	clear(s.daemons)
	s.mu.Unlock()
	stopped := make(chan struct{})
	go func() {
		s.watching.Wait()
		close(stopped)
	}()
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for seconds := time.Duration(0); ; seconds += time.Second {
		signal := syscall.SIGTERM
		if seconds > stopTimeout {
			s.t.Errorf("the daemons did not stop in %s", stopTimeout)
			signal = syscall.SIGKILL
		}
		// A signal is lost if it comes while a traced program is being started.
		s.mu.Lock()
		for _, d := range daemons {
			_ = d.run.Signal(signal)
		}
		s.mu.Unlock()
		select {
		case <-stopped:
			return
		case <-again.C:
		}
	}
}

// command runs a program to its end and returns whether it succeeded.
func (s *site) command(name, stdin string, args ...string) bool {
	f, err := os.CreateTemp(s.path("run"), "stdin-*")
	if err != nil {
		s.t.Error(err)
		return false
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.WriteString(stdin); err != nil {
		s.t.Error(err)
	}
	if _, err := f.Seek(0, 0); err != nil {
		s.t.Error(err)
	}
	r, err := s.launch(name, f, args...)
	if err != nil {
		s.t.Errorf("starting %s: %v", name, err)
		return false
	}
	select {
	case <-r.Done():
	case <-time.After(stopTimeout):
		_ = r.Signal(syscall.SIGKILL)
		<-r.Done()
		s.note("%s took more than %s", name, stopTimeout)
	}
	return failure(r) == ""
}

// mailq runs a query or an order, which is not traced, and returns its output.
func (s *site) mailq(args ...string) (string, error) {
	cmd := exec.Command(filepath.Join(s.bin, "mailq"), append([]string{"-Z", s.path("zmailer.conf"), "-p", s.path("run/mailq"), "--timeout", "10m"}, args...)...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	err := startPlain(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	return out.String(), err
}
