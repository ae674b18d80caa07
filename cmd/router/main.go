// Router is the static router: it takes submissions out of $POSTOFFICE/router,
// routes them by a table of routes and one of aliases, and passes them to the
// scheduler (router(8), routes(5), aliases(5)).
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"zsched/internal/command"
	"zsched/internal/header"
	"zsched/internal/listen"
	"zsched/internal/metrics"
	"zsched/internal/process"
	"zsched/internal/text"
	"zsched/internal/zenv"
	"zsched/router"
	"zsched/router/table"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

type options struct {
	zenv       string
	check      bool
	once       bool
	checkUsers bool
	maxHops    int
	verbose    bool
	metrics    listen.Address
}

func newFlags(o *options) *pflag.FlagSet {
	f := command.Flags("router")
	f.BoolP("interactive", "i", false, "run in the foreground, which the router always does")
	f.StringVarP(&o.zenv, "zmailer-conf", "Z", "", "read this `zmailer.conf`")
	f.BoolVar(&o.check, "check", false, "check both tables, print what is wrong, and exit")
	f.BoolVar(&o.once, "once", false, "route the waiting submissions, and exit")
	f.BoolVar(&o.checkUsers, "check-users", false, "fail mail to local users that this machine does not have")
	f.IntVar(&o.maxHops, "max-hops", header.MaxHops, "fail a message with more Received fields than this `number`")
	f.Func("metrics", "`address` for metrics and health checks by HTTP: host:port or /path", o.metrics.Set)
	f.BoolVarP(&o.verbose, "verbose", "v", false, "log each message that is routed")
	return f
}

const usageLine = "usage: router [-iv] [-Z FILE] [--check | --once] [--check-users] [--max-hops N] [--metrics ADDRESS]\n"

func run(args []string, stdout, stderr io.Writer) int {
	o := new(options)
	line := command.Line{Flags: newFlags(o), Usage: usageLine, Stdout: stdout, Stderr: stderr}
	if status, ended := line.Parse(args); ended {
		return status
	}
	if o.maxHops < 1 {
		return line.Wrong(fmt.Errorf("--max-hops %d is less than 1", o.maxHops))
	}
	if !o.check {
		signal.Ignore(syscall.SIGHUP, syscall.SIGUSR1) // the tables are read now in any case
		process.CoarsenTimers()
	}
	env, err := zenv.Read(o.zenv)
	if err != nil {
		fmt.Fprintf(stderr, "router: %v\n", err)
		return command.ExitFault
	}
	loader := table.NewLoader(env.Value("MAILSHARE"), env.Value("ORGDOMAIN"), hostname())
	if o.checkUsers {
		loader.HasUser = table.MachineHasUser
	}
	if err := loader.Load(); err != nil {
		fmt.Fprintln(stderr, err)
		return command.ExitFault
	}
	if o.check {
		t := loader.Table()
		for _, doubt := range t.Routes.Doubts(loader.RoutesFile) {
			fmt.Fprintf(stderr, "warning: %v\n", doubt)
		}
		fmt.Fprintf(stdout, "%d routes, %d aliases\n", len(t.Routes.All()), t.Aliases.Len())
		return 0
	}
	log := newLog(stderr, o.verbose)
	if err := serve(o, env, loader, log); err != nil {
		log.Error().Err(err).Msg("router stopped")
		return command.ExitFault
	}
	return 0
}

// serve runs the router.
func serve(o *options, env *zenv.File, loader *table.Loader, log zerolog.Logger) error {
	r, err := router.New(router.Options{Env: env, Loader: loader, Host: hostname(), MaxHops: o.maxHops, Log: log})
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGINT, syscall.SIGTERM)
	signal.Ignore(syscall.SIGPIPE)
	sockets := listen.New(log)
	defer sockets.Close()
	sockets.Open("metrics", o.metrics, nil, func(l net.Listener) error {
		return metrics.Serve(l, numbers(r), func() string { return unhealthy(r.Counts(), time.Now()) })
	})
	return r.Run(signals, o.once)
}

func hostname() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		return "localhost"
	}
	return strings.ToLower(host)
}

// newLog writes one JSON object a line.
func newLog(stderr io.Writer, verbose bool) zerolog.Logger {
	level := zerolog.InfoLevel
	if verbose {
		level = zerolog.DebugLevel
	}
	return zerolog.New(text.JSONWriter{To: stderr}).Level(level).With().Timestamp().Logger()
}
