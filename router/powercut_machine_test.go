package router

// The machine of the simulated power cuts: scheduler, router, SMTP server and
// agents in one process on a disk in memory.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/textproto"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/rs/zerolog"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/internal/testing/ledger"
	"zsched/internal/testing/memdisk"
	"zsched/internal/zenv"
	"zsched/mailq"
	"zsched/mailq/server"
	"zsched/queue"
	"zsched/router/table"
	"zsched/scheduler/admin"
	"zsched/scheduler/daemon"
	"zsched/scheduler/report"
	"zsched/scheduler/rule"
	"zsched/scheduler/spool"
	"zsched/scheduler/view"
	"zsched/smtpserver"
	"zsched/ta"
)

// machine is one life of the machine, from power on to power off.
type machine struct {
	office string
	disk   *memdisk.Disk
	ledger *ledger.Ledger
	life   int
	levels int // of hash directories
	faults bool
	closed bool // no mail comes in
	log    zerolog.Logger
	// deliver is what the agents do with a message; nil: what the ledger says.
	deliver     func(channel string, msg *ta.Message)
	reportTimes []time.Duration // of delays
	interval    time.Duration   // between the attempts of a recipient; 0: minutes
	hinted      bool            // new names are announced, as inotify does; else the sweeps find them

	ctx    context.Context
	cancel context.CancelFunc
	all    sync.WaitGroup

	spool   *spool.Spool
	daemon  *daemon.Daemon
	signals chan os.Signal // to the scheduler
	admin   *admin.Server
	router  *Service
	toRoute chan os.Signal      // to the router
	newMail chan fsnotify.Event // hints to the router
	door    *smtpserver.Server
	listen  *pipeListener
	agents  int
	mu      sync.Mutex
	started []*modelAgent
}

// start starts the programs. An error is one of the disk.
func (m *machine) start(loader *table.Loader, seed *rand.Rand) error {
	m.ctx, m.cancel = context.WithCancel(context.Background())
	if err := m.startRouter(loader); err != nil {
		return err
	}
	if err := m.startScheduler(seed); err != nil {
		return err
	}
	if m.closed {
		return nil
	}
	return m.startDoor()
}

func (m *machine) startScheduler(seed *rand.Rand) error {
	var err error
	m.spool, err = spool.Open(spool.Options{
		Postoffice: m.office, HashLevels: m.levels, Unwatched: true, Workers: 2,
		Reporter: daemon.NewReporter(&report.Reporter{
			Postoffice: m.office, Host: "mx.example", By: "scheduler@mx.example", HeadersOnly: true,
		}),
	})
	if err != nil {
		return err
	}
	m.signals = make(chan os.Signal, 4)
	m.daemon = daemon.New(daemon.Options{
		Config: m.configuration(), Rand: seed, Spool: m.hint(), Signals: m.signals, Log: m.log,
		Agents: daemon.AgentOptions{Start: m.startAgent, Mailbin: "/mailbin"},
	})
	m.all.Go(func() { _ = m.daemon.Run() })
	m.admin = admin.New(admin.Options{Port: m.daemon, Files: m.spool.Files(), Log: m.log, Settings: server.Settings{}})
	m.all.Go(func() { m.admin.KeepHolds(m.ctx) })
	return nil
}

// configuration has three clauses: the agents of smtp and error mark themselves, and
// for those of local the scheduler does.
func (m *machine) configuration() *rule.Config {
	p := rule.Params{
		Interval: time.Minute, Retries: []int{1, 1, 2, 3}, Expiry: 10 * time.Minute, Expiry2: 30 * time.Minute,
		MaxThr: 2, Sessions: 1, Quantum: 50, UID: -1, GID: -1, AgentTimeout: 2 * time.Hour, ReportTimes: m.reportTimes,
	}
	if m.interval != 0 {
		p.Interval, p.Retries, p.Expiry, p.Expiry2 = m.interval, []int{1}, 24*time.Hour, 24*time.Hour
	}
	clause := func(channel string, marking ta.Marking) rule.Clause {
		with := p
		with.Command, with.Marking = []string{"agent", channel}, marking
		return rule.Clause{Channel: channel, Host: "*", Settings: []rule.Setting{{
			Name: "command", Value: "agent", Apply: func(to *rule.Params) { *to = with },
		}}}
	}
	return &rule.Config{
		Clauses: []rule.Clause{
			clause("smtp", ta.AgentMarks), clause("local", ta.SchedulerMarks), clause("error", ta.AgentMarks),
		},
		Defaults: p, ForkRate: 30,
	}
}

func (m *machine) startRouter(loader *table.Loader) error {
	env := zenv.Parse(fmt.Appendf(nil, "POSTOFFICE=%s\nORGDOMAIN=mx.example\nSYSLOGFLG=none\nSCHEDULERDIRHASH=%d\n", m.office, m.levels))
	own := &table.Loader{RoutesFile: loader.RoutesFile, AliasesFile: loader.AliasesFile, Domains: loader.Domains}
	if err := own.Load(); err != nil {
		return err
	}
	r, err := New(Options{Env: env, Loader: own, Host: "mx.example", MaxHops: 100, Log: m.log})
	if err != nil {
		return err
	}
	r.queue.Levels = m.levels
	m.router, m.toRoute, m.newMail = r, make(chan os.Signal, 1), make(chan fsnotify.Event, batchLimit)
	m.all.Go(func() {
		r.recover()
		r.loop(m.toRoute, &fsnotify.Watcher{Events: m.newMail})
		r.queue.Close()
	})
	return nil
}

func (m *machine) startDoor() error {
	o := smtpserver.Default()
	o.Hostname, o.Domains = "mx.example", []string{"mx.example"}
	o.Router = queue.Router{Postoffice: m.office}
	o.RouterMax, o.MinFree = 0, 0
	o.Log = m.log
	var err error
	if m.door, err = smtpserver.New(o); err != nil {
		return err
	}
	m.listen = &pipeListener{conns: make(chan net.Conn), done: m.ctx.Done()}
	m.all.Go(func() { _ = m.door.Serve(m.listen, smtpserver.SMTP) })
	return nil
}

// stop ends everything, with or without power.
func (m *machine) stop() {
	m.cancel()
	if m.door != nil {
		_ = m.door.Close(m.ctx)
	}
	if m.router != nil {
		m.toRoute <- syscall.SIGTERM
	}
	if m.daemon != nil {
		m.signals <- syscall.SIGTERM
	}
	m.mu.Lock()
	for _, a := range m.started {
		a.CloseWrite()
	}
	m.mu.Unlock()
	m.all.Wait()
	if m.spool != nil {
		m.spool.Close()
	}
}

// pipeListener accepts connections of this process.
type pipeListener struct {
	conns chan net.Conn
	done  <-chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Net: "unix"} }

// message is a message that a sender submits.
type message struct {
	sender string
	to     []*ledger.Entry
}

func (m *message) addresses() (list []string) {
	for _, e := range m.to {
		list = append(list, e.Address)
	}
	return list
}

func (m *message) text() string {
	return "From: " + m.sender + "\nSubject: " + m.sender + "\n\n" + ledger.Body(m.sender)
}

// overSMTP submits a message at the door.
func (m *machine) overSMTP(msg *message) error {
	ours, theirs := net.Pipe()
	defer ours.Close()
	select {
	case m.listen.conns <- theirs:
	case <-m.ctx.Done():
		return m.ctx.Err()
	}
	_ = ours.SetDeadline(time.Now().Add(time.Hour))
	c := textproto.NewConn(ours)
	say := func(want int, format string, args ...any) error {
		if format != "" {
			if err := c.PrintfLine(format, args...); err != nil {
				return err
			}
		}
		_, _, err := c.ReadResponse(want)
		return err
	}
	err := errors.Join(say(220, ""), say(250, "EHLO client.example"), say(250, "MAIL FROM:<%s>", msg.sender))
	for _, e := range msg.to {
		notify := ""
		if e.WantsSuccess {
			notify = " NOTIFY=SUCCESS,FAILURE"
		}
		if err == nil {
			err = say(250, "RCPT TO:<%s>%s", e.Address, notify)
		}
	}
	if err == nil {
		err = say(354, "DATA")
	}
	if err != nil {
		return err
	}
	w := c.DotWriter()
	_, err = io.WriteString(w, msg.text())
	return errors.Join(err, w.Close(), say(250, ""))
}

// byProgram submits a message as sendmail does.
func (m *machine) byProgram(msg *message) error {
	s := &queue.Submission{By: "user@mx.example", From: ctlfile.Address{User: msg.sender}, Header: "Subject: " + msg.sender + "\n"}
	for _, e := range msg.to {
		dsn := ""
		if e.WantsSuccess {
			dsn = "NOTIFY=SUCCESS,FAILURE"
		}
		s.To = append(s.To, &ctlfile.Recipient{Address: ctlfile.Address{User: e.Address}, DSN: dsn})
	}
	file, err := s.Write(m.office, "sendmail-", strings.NewReader(ledger.Body(msg.sender)))
	if err != nil {
		return err
	}
	name, err := queue.Router{Postoffice: m.office}.Give(file)
	if name == "" {
		_ = postoffice.RemovePath(file)
	}
	return err
}

// junk leaves a malformed control file and its message in the queue, on disk.
func (m *machine) junk(n int) (text string, err error) {
	name, text := fmt.Sprint(9000000+n), fmt.Sprintf("junk number %d", n)
	for _, dir := range []string{"queue", "transport"} {
		file := path.Join(m.office, dir, name)
		if err = postoffice.WriteFile(postoffice.WorkingDir, file, []byte(text+" in "+dir), true); err != nil {
			return text, err
		}
		d, err := postoffice.OpenDirFile(path.Dir(file))
		if err != nil {
			return text, err
		}
		if err = errors.Join(d.Sync(), d.Close()); err != nil {
			return text, err
		}
	}
	return text, nil
}

// order gives an order about a message, by the path of its control file.
func (m *machine) order(verb view.Verb, file string, spell time.Duration) error {
	_, err := m.admin.Queue().Act(m.ctx, mailq.Order{
		Verb: verb, Message: path.Base(file), For: spell, To: mailq.Name{Channel: "smtp", Host: "elsewhere.example"},
		By: mailq.Actor{User: "root", Peer: "uid 0"}, Because: "a test",
	})
	return err
}

// thread holds or releases the thread of a host.
func (m *machine) thread(verb view.Verb, host string, spell time.Duration) error {
	_, err := m.admin.Queue().Act(m.ctx, mailq.Order{
		Verb: verb, Thread: &mailq.Name{Channel: "smtp", Host: host}, For: spell,
		By: mailq.Actor{User: "root", Peer: "uid 0"}, Because: "a test",
	})
	return err
}
