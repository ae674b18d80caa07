package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/rs/zerolog"

	"zsched/ctlfile"
	"zsched/scheduler"
	"zsched/scheduler/config"
	"zsched/scheduler/daemon"
	"zsched/scheduler/spool"
)

// serve is the scheduler itself. ready, if not nil, is told when it is up.
func serve(o *options, zenv *config.Zenv, stderr io.Writer, ready *os.File) error {
	maxAgents, err := ownLimits()
	if err != nil {
		return err
	}
	where, err := findPlaces(o, zenv)
	if err != nil {
		return err
	}
	file, err := config.Load(where.config, zenv)
	if err != nil {
		return err
	}
	if err := os.Chdir(where.transport()); err != nil {
		return err
	}
	log, logOutlet, err := openLog(where.log, o, stderr)
	if err != nil {
		return err
	}
	defer logOutlet.Close()
	statistics, err := openStatistics(where.statistics, log)
	if err != nil {
		return err
	}
	if statistics != nil {
		defer statistics.Close()
	}

	pid, err := spool.AcquirePid(filepath.Join(where.postoffice, ".pid.scheduler"))
	if err != nil {
		return err
	}
	defer pid.Release()
	log.Info().Int("pid", os.Getpid()).Str("version", version).Str("config", where.config).Msg("scheduler daemon started")
	warn(log, file)
	if err := ownPriority(file.SysNice, file.SysPriority); err != nil {
		log.Warn().Err(err).Msg("priority unchanged")
	}
	ballast := setMemory()
	defer runtime.KeepAlive(ballast)

	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT,
		syscall.SIGALRM, syscall.SIGUSR1, syscall.SIGUSR2)
	signal.Ignore(syscall.SIGPIPE)
	spooler, err := spool.Open(spoolOptions(o, zenv, where, file))
	if err != nil {
		return err
	}
	defer spooler.Close()

	d := daemon.Options{
		Config:       complete(file.Scheduler, o, maxAgents),
		Rand:         rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
		Spool:        spooler,
		Start:        daemon.StartChild,
		Mailbin:      where.mailbin,
		Env:          zenv.Known(),
		Dir:          where.transport(),
		NoFile:       o.agentFiles,
		Log:          log,
		Verbose:      o.verbose,
		VerboseLater: o.verboseLater,
		Synchronous:  o.synchronous,
		Keep:         o.keep,
		Operands:     operands(o.files, where, log),
		Signals:      signals,
	}
	d.Reload = func() (*scheduler.Config, error) {
		file, err := config.Load(where.config, zenv)
		if err != nil {
			return nil, err
		}
		warn(log, file)
		return complete(file.Scheduler, o, maxAgents), nil
	}
	d.Reopen = func() {
		logOutlet.Reopen()
		if statistics != nil {
			statistics.Reopen()
		}
	}
	if statistics != nil {
		d.Account = func(line []byte) { statistics.Write(line) }
	}
	if zenv.LogsCompletions() {
		syslog := daemon.OpenSyslog(log)
		defer syslog.Close()
		d.Syslog = syslog.Line
	}
	if o.daemon {
		// From here on nobody looks at our standard error.
		if err := redirect(where.log); err != nil {
			return err
		}
	}
	if ready != nil {
		d.Ready = func() { io.WriteString(ready, "\n"); ready.Close() }
	}
	if len(o.files) > 0 && len(d.Operands) == 0 {
		return errors.New("none of the files named is a control file")
	}
	daemon.New(d).Run()
	log.Info().Msg("scheduler daemon stopped")
	return nil
}

// places are where things are, all absolute: the scheduler works in
// POSTOFFICE/transport, and that is not where an admin's relative names begin.
type places struct {
	postoffice, mailbin, config, log, statistics string
}

func (p *places) transport() string { return filepath.Join(p.postoffice, "transport") }

func findPlaces(o *options, zenv *config.Zenv) (*places, error) {
	p := &places{postoffice: o.postoffice, config: o.config, log: o.log, statistics: o.statistics}
	p.mailbin, _ = zenv.Get("MAILBIN")
	if p.postoffice == "" {
		p.postoffice, _ = zenv.Get("POSTOFFICE")
	}
	if p.config == "" {
		p.config = config.DefaultFile(zenv)
	}
	if p.log == "" && o.daemon {
		logs, _ := zenv.Get("LOGDIR")
		p.log = filepath.Join(logs, "scheduler")
	}
	for _, name := range []*string{&p.postoffice, &p.mailbin, &p.config, &p.log, &p.statistics} {
		if *name == "" {
			continue
		}
		var err error
		if *name, err = filepath.Abs(*name); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func readZenv(file string, stderr io.Writer) (*config.Zenv, error) {
	if file != "" {
		return config.ReadZenv(file)
	}
	zenv, err := config.ReadZenv(config.DefaultZenv)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the defaults
	}
	if err != nil {
		fmt.Fprintf(stderr, "scheduler: %v\n", err)
	}
	return zenv, nil
}

func spoolOptions(o *options, zenv *config.Zenv, where *places, file *config.File) spool.Options {
	s := spool.Options{
		Postoffice:   where.postoffice,
		HashLevels:   o.hashLevels,
		NewLimit:     o.newLimit,
		NewTime:      o.newTime,
		NotifySocket: file.Params.NotifySock.Address,
	}
	if levels, set := zenv.HashLevels(); set {
		s.HashLevels = levels
	}
	return s
}

// complete adds what the command line and the system say to what the
// configuration file says.
func complete(c *scheduler.Config, o *options, maxAgents int) *scheduler.Config {
	c.MaxAgents = maxAgents
	c.ForkRate = o.forkRate
	c.Frozen = o.frozen
	c.Only = o.only
	return c
}

func warn(log zerolog.Logger, file *config.File) {
	for _, w := range file.Warnings {
		log.Warn().Msg(w.String())
	}
}

// operands returns the control files named on the command line, which are
// absolute or below POSTOFFICE/transport.
func operands(files []string, where *places, log zerolog.Logger) []spool.Name {
	var names []spool.Name
	for _, file := range files {
		path := strings.TrimPrefix(file, where.transport()+"/")
		id, ok := ctlfile.Number(filepath.Base(path))
		if !ok || !filepath.IsLocal(path) {
			log.Error().Str("file", file).Msg("not a control file's name")
			continue
		}
		names = append(names, spool.Name{Path: filepath.Clean(path), ID: id})
	}
	return names
}

// check reads the configuration file and says what is wrong with it.
func check(o *options, zenv *config.Zenv, stdout, stderr io.Writer) int {
	name := o.config
	if name == "" {
		name = config.DefaultFile(zenv)
	}
	file, err := config.Load(name, zenv)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitFault
	}
	for _, w := range file.Warnings {
		fmt.Fprintf(stderr, "%s (warning)\n", w)
	}
	fmt.Fprintf(stdout, "%s: %d clauses, no errors\n", name, len(file.Scheduler.Clauses))
	return exitOK
}
