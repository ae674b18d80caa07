package main

// Startup and reload: how the parts of the scheduler are connected and run.

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"zsched/internal/postoffice"
	"zsched/internal/process"
	"zsched/internal/version"
	"zsched/internal/zenv"
	"zsched/mailq"
	"zsched/queue"
	"zsched/scheduler"
	"zsched/scheduler/admin"
	"zsched/scheduler/config"
	"zsched/scheduler/daemon"
	"zsched/scheduler/eventlog"
	"zsched/scheduler/metrics"
	"zsched/scheduler/owner"
	"zsched/scheduler/report"
	"zsched/scheduler/rule"
	"zsched/scheduler/spool"
	"zsched/scheduler/state"
)

// setting is what the scheduler knows before it opens anything.
type setting struct {
	*options
	env       *zenv.File
	where     *places
	maxAgents int
	maxSize   int64 // of a user's message file (ROUTERMAXSIZE)
	events    bool  // the configuration at startup names an event log
	cluster   bool  // the configuration at startup names a cluster
	owner     *owner.Owner
	moves     *moves
}

// serve runs the scheduler until it is stopped. If ready is not nil, serve
// writes a line to it when the scheduler has started.
func serve(o *options, env *zenv.File, stderr io.Writer, ready *os.File) error {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT,
		syscall.SIGALRM, syscall.SIGUSR1, syscall.SIGUSR2)
	signal.Ignore(syscall.SIGPIPE)
	// A signal to stop also ends the wait for a running scheduler to exit.
	waiting, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	defer stop()
	ownUmask()
	maxAgents, err := ownLimits()
	if err != nil {
		return err
	}
	where, err := findPlaces(o, env)
	if err != nil {
		return err
	}
	s := &setting{options: o, env: env, where: where, maxAgents: maxAgents}
	file, err := s.load()
	if err != nil {
		return err
	}
	if s.maxSize, err = env.RouterMaxSize(); err != nil {
		return err
	}
	s.events = file.Params.EventLog != ""
	file.Scheduler.Events = s.events
	s.moves = newMoves(env, file.Params.NodeName(where.postoffice), &file.Params)
	s.cluster = file.Params.Cluster != nil
	file.Scheduler.Cluster = s.cluster
	if err := os.Chdir(where.transport()); err != nil {
		return err
	}
	logs, err := openLogs(s, stderr)
	if err != nil {
		return err
	}
	defer logs.close()
	if err := logs.openEvents(file.Params.EventLog); err != nil {
		return err
	}
	if s.owner, err = s.claim(waiting, file, logs.log); err != nil {
		return err
	}
	defer s.owner.Release()
	stop()
	return s.run(file, logs, signals, ready)
}

// load reads the configuration file and adds the settings from the command line
// and the system.
func (s *setting) load() (*config.File, error) {
	file, err := config.Load(s.where.config, s.env)
	if err != nil {
		return nil, err
	}
	c := file.Scheduler
	c.MaxAgents = s.maxAgents
	c.ForkRate = s.forkRate
	c.Frozen = s.frozen
	c.Only = s.only
	c.Events = s.events
	c.Cluster = s.cluster
	return file, nil
}

// run opens the spool and runs the loop until it ends.
func (s *setting) run(file *config.File, logs *logSet, signals <-chan os.Signal, ready *os.File) error {
	log := logs.log
	log.Info().Int("pid", os.Getpid()).Str("version", version.Number).Str("config", s.where.config).Msg("scheduler daemon started")
	warn(log, file)
	ballast := setMemory()
	defer runtime.KeepAlive(ballast)

	fileGroup, err := s.guard(file, log)
	if err != nil {
		return err
	}
	notices, err := queue.NewGroupCommit(s.router())
	if err != nil {
		return err
	}
	defer notices.Close()
	reporter := daemon.NewReporter(s.reporter(file, notices))
	spooler, err := spool.Open(s.spoolOptions(file, reporter))
	if err != nil {
		return err
	}
	defer spooler.Close()
	if s.daemon {
		// From here on nobody reads our standard error.
		if err := redirect(s.where.log); err != nil {
			return err
		}
	}

	var queries *admin.Server
	options := s.daemonOptions(file, logs)
	options.Spool = spooler
	options.Agents.FileGroup = fileGroup
	options.Owned = spooler.Check
	options.State = filepath.Join(s.where.postoffice, state.Name)
	options.Signals = signals
	options.Reload = func() (*rule.Config, error) {
		notifyReloading()
		defer notifyReady()
		again, err := s.load()
		if err != nil {
			return nil, fmt.Errorf("reloading the configuration: %w", err)
		}
		warn(log, again)
		for _, w := range again.NotReloaded(file) {
			log.Warn().Msg(w.String())
		}
		queries.Configure(s.querySettings(again))
		reporter.Configure(s.reporter(again, notices))
		s.moves.reload(&again.Params)
		return again.Scheduler, nil
	}
	options.Dump = func() { queries.Dump() }
	options.Ready = func() {
		notifyReady()
		if ready != nil {
			io.WriteString(ready, "\n")
			ready.Close()
		}
	}
	nodes, err := s.openCluster(file, log)
	if err != nil {
		return err
	}
	if nodes != nil {
		defer nodes.Close()
		options.Cluster = nodes
	}
	stats := metrics.NewStats()
	options.Observers = []daemon.Observer{stats}
	if logs.events != nil {
		options.Observers = append(options.Observers, eventlog.New(logs.events))
	}

	loop := daemon.New(options)
	answers := s.adminOptions(file, loop, spooler.Files(), log)
	scrapes := &metrics.Server{Port: loop, Stats: stats, Log: log}
	if nodes != nil {
		answers.Cluster = func(ctx context.Context) (items []*mailq.ClusterItem, err error) {
			err = loop.Ask(ctx, func(*daemon.Loop) { items = nodes.Overview() })
			return items, err
		}
		scrapes.Cluster = answers.Cluster
	}
	queries = admin.New(answers)
	scrapes.Kept = queries.Queue().Totals
	if logs.events != nil {
		scrapes.EventsLost = logs.events.LostLines
	}
	sockets := s.openSockets(file, queries, scrapes)
	helping, stopHelping := context.WithCancel(context.Background())
	var helpers sync.WaitGroup
	helpers.Go(func() { queries.KeepHolds(helping) })
	helpers.Go(func() { feedWatchdog(helping, loop) })
	disowned := loop.Run()
	stopHelping()
	helpers.Wait()
	sockets.Close()
	if disowned != nil {
		return disowned
	}
	log.Info().Msg("scheduler daemon stopped")
	return nil
}

// guard closes the queue to everybody but root and the agents' group. It returns
// the group of transport/, which is also given to control files. If that group was
// 0, it becomes the group of the first clause whose agents do not run as root.
func (s *setting) guard(file *config.File, log zerolog.Logger) (group int, err error) {
	if file.Params.SpoolMode != "keep" {
		changes, err := postoffice.Guard(s.where.postoffice, agentGroup(file.Scheduler))
		for _, change := range changes {
			log.Warn().Str("change", change).Msg("the queue is closed to other users; PARAMspool-mode=keep leaves it open")
		}
		if err != nil {
			return 0, err
		}
	}
	return postoffice.Group(s.where.transport())
}

// agentGroup returns the group of the first clause whose agents do not run as
// root; 0 if all do. It is never that of nobody (config warns of it).
func agentGroup(c *rule.Config) int {
	defaults := c.Defaults
	for _, clause := range c.Clauses {
		p := defaults
		for _, setting := range clause.Settings {
			setting.Apply(&p)
		}
		if clause.MatchesAll() {
			defaults = p
		}
		if p.UID > 0 && p.GID > 0 && p.GID != rule.NobodyGID {
			return p.GID
		}
	}
	return 0
}

func (s *setting) spoolOptions(file *config.File, reporter spool.Reporter) spool.Options {
	o := spool.Options{
		Postoffice:   s.where.postoffice,
		HashLevels:   s.hashLevels,
		NotifySocket: file.Params.NotifySock.Address,
		Router:       s.router(),
		By:           s.by(),
	}
	o.Users, o.MaxSize = s.events, s.maxSize
	o.Reporter = reporter
	o.Owner, o.Node = s.owner, s.moves.node
	if levels, set := s.env.HashLevels(); set {
		o.HashLevels = levels
	}
	return o
}

// router is where notices are submitted.
func (s *setting) router() queue.Router {
	return queue.Router{Postoffice: s.where.postoffice, Levels: s.env.RouterLevels(), Notify: s.env.Value("ROUTERNOTIFY")}
}

// host is the name of this host in notices and in the trace of submissions.
func (s *setting) host() string {
	if host := s.env.Value("ORGDOMAIN"); host != "" {
		return host
	}
	host, _ := os.Hostname()
	return host
}

func (s *setting) by() string { return "scheduler@" + s.host() }

// reporter writes notices to senders.
func (s *setting) reporter(file *config.File, group *queue.GroupCommit) *report.Reporter {
	return &report.Reporter{
		Postoffice:  s.where.postoffice,
		Host:        s.host(),
		By:          s.by(),
		Router:      s.router(),
		Group:       group,
		FormFile:    filepath.Join(s.env.Value("MAILSHARE"), "forms", "delivery"),
		HeadersOnly: s.returnHeaders,
		StoreErrors: file.Params.StoreErrorOnError,
	}
}

func (s *setting) daemonOptions(file *config.File, logs *logSet) daemon.Options {
	o := daemon.Options{
		Config: file.Scheduler,
		Rand:   rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
		Agents: daemon.AgentOptions{
			Start: daemon.StartChild, Mailbin: s.where.mailbin, Env: s.moves.agentEnv,
			Dir: s.where.transport(), NoFile: s.agentFiles,
		},
		Log:          logs.log,
		Verbose:      s.verbose,
		VerboseLater: s.verboseLater,
		Synchronous:  s.synchronous,
		Reopen:       logs.reopen,
		Clocks: func() scheduler.Now {
			return scheduler.Now{Elapsed: process.SinceBoot(), Wall: time.Now()}
		},
	}
	if logs.statistics != nil {
		o.Account = func(line []byte) { logs.statistics.Write(line) }
	}
	if logs.syslog != nil {
		o.Syslog = func(severity scheduler.Severity, line string) {
			if severity == scheduler.Error {
				logs.syslog.Error(line)
				return
			}
			logs.syslog.Info(line)
		}
	}
	return o
}

func warn(log zerolog.Logger, file *config.File) {
	for _, w := range file.Warnings {
		log.Warn().Msg(w.String())
	}
	for _, err := range authProblems(file) {
		log.Warn().Err(err).Msg("a file that the configuration names has a problem")
	}
}
