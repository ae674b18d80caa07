// Xferd takes mail that other nodes move here: xfer(8).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"zsched/internal/certificate"
	"zsched/internal/listen"
	"zsched/internal/logs"
	"zsched/internal/process"
	"zsched/internal/text"
	"zsched/internal/units"
	"zsched/internal/version"
	"zsched/internal/zenv"
	"zsched/scheduler/config"
	"zsched/xfer"
	"zsched/xfer/receiver"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// Exit codes.
const (
	exitOK    = 0
	exitFault = 1
	exitUsage = 64
)

type options struct {
	foreground, version       bool
	config, zenv, postoffice  string
	maxSize, minFree, minRate int64 // bytes
	maxOrigins                int64 // bytes
}

// The defaults of the limits on a push and on what a node has not confirmed.
const (
	defaultMaxSize = 1 << 30
	defaultMinFree = 64 << 20
	defaultMinRate = 16 << 10
	// defaultMaxOrigins is enough for about 1 500 000 recipients of a node.
	defaultMaxOrigins = 256 << 20
)

func newFlags(o *options) *pflag.FlagSet {
	o.maxSize, o.minFree, o.minRate, o.maxOrigins = defaultMaxSize, defaultMinFree, defaultMinRate, defaultMaxOrigins
	f := pflag.NewFlagSet("xferd", pflag.ContinueOnError)
	f.SortFlags = false
	f.Usage = func() {}
	f.BoolVarP(&o.foreground, "interactive", "i", false, "run in the foreground, which xferd always does")
	f.StringVarP(&o.config, "config", "f", "", "configuration `file` of the scheduler instead of MAILSHARE/scheduler.cf")
	f.StringVarP(&o.zenv, "zmailer-conf", "Z", "", "read this `zmailer.conf`")
	f.StringVarP(&o.postoffice, "postoffice", "P", "", "postoffice `directory`")
	f.Func("max-size", "maximum size of a message in `bytes`, with k, M or G; 0: no limit (1G)", units.SizeFlag(&o.maxSize, 0))
	f.Func("min-free", "`bytes` of disk that a message leaves free, with k, M or G (64M)", units.SizeFlag(&o.minFree, 0))
	f.Func("min-rate", "`bytes` a second that a node has to send at least while it pushes, with k, M or G; 0: no limit (16k)", units.SizeFlag(&o.minRate, 0))
	f.Func("max-origins", "`bytes` of memory for the recipients that a node has not confirmed, with k, M or G; 0: no limit (256M)", units.SizeFlag(&o.maxOrigins, 0))
	f.BoolVarP(&o.version, "version", "V", false, "print the version and exit")
	return f
}

const usageLine = "usage: xferd [-iV] [-f FILE] [-P DIRECTORY] [-Z FILE] [--max-size BYTES] [--min-free BYTES]\n             [--min-rate BYTES] [--max-origins BYTES]\n"

func run(args []string, stdout, stderr io.Writer) int {
	o := new(options)
	flags := newFlags(o)
	err := flags.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprint(stdout, usageLine, "\n", newFlags(new(options)).FlagUsages())
		return exitOK
	case err == nil && o.version:
		fmt.Fprintln(stdout, version.Line("xferd"))
		return exitOK
	case err == nil && flags.NArg() > 0:
		err = fmt.Errorf("unexpected operand %q", flags.Arg(0))
	}
	if err != nil {
		fmt.Fprintf(stderr, "xferd: %v\n%s", err, usageLine)
		return exitUsage
	}
	if err := serve(o, zerolog.New(text.JSONWriter{To: stderr}).With().Timestamp().Logger()); err != nil {
		fmt.Fprintf(stderr, "xferd: %v\n", err)
		return exitFault
	}
	return exitOK
}

// serve takes mail until SIGTERM or SIGINT.
func serve(o *options, log zerolog.Logger) error {
	_ = syscall.Umask(0o022)       // modes are set explicitly
	signal.Ignore(syscall.SIGPIPE) // the reader of the log may have gone
	env, err := zenv.Read(o.zenv)
	if err != nil {
		return err
	}
	if env, err = env.WithPostoffice(o.postoffice); err != nil {
		return err
	}
	if o.config == "" {
		o.config = config.DefaultFile(env)
	}
	if o.postoffice == "" {
		o.postoffice = env.Value("POSTOFFICE")
	}
	file, err := config.Load(o.config, env)
	if err != nil {
		return err
	}
	// Before anything of the postoffice is read: the files that a start cleans up may be
	// those that another xferd is writing.
	claim, err := process.NewClaim(o.postoffice, "xferd", process.XferdDir, "transport", "queue")
	if err != nil {
		return err
	}
	defer claim.Close()
	r, at, err := newReceiver(o, env, file, log)
	if err != nil {
		return err
	}
	defer r.Store.Close()
	checked := make(chan error, 1)
	r.Store.Check = func() error {
		err := claim.Check()
		if errors.Is(err, process.ErrReplaced) {
			select {
			case checked <- err:
			default: // one is enough
			}
		}
		return err
	}

	committing, stopCommitting := context.WithCancel(context.Background())
	var committer sync.WaitGroup
	committer.Go(func() { r.Run(committing) })
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	sockets := listen.New(log)
	sockets.Open("xfer", at, nil, func(l net.Listener) error { return sockets.Accept(l, r.Serve) })
	log.Info().Str("node", r.Node).Str("address", at.Address).Str("version", version.Number).Msg("xferd started")
	_, _ = daemon.SdNotify(false, daemon.SdNotifyReady)
	err = wait(stop, r.Store.Check, checked)
	_, _ = daemon.SdNotify(false, daemon.SdNotifyStopping)
	sockets.Close()
	stopCommitting()
	committer.Wait()
	if err == nil {
		log.Info().Msg("xferd stopped")
	}
	return err
}

// checkInterval is how often the directories of the postoffice are examined while no node
// pushes.
const checkInterval = 5 * time.Second

// wait waits until a signal comes, or a directory was replaced, and returns that error.
func wait(stop context.Context, check func() error, replaced <-chan error) error {
	ticker := time.NewTicker(checkInterval)
	defer ticker.Stop()
	for {
		select {
		case <-stop.Done():
			return nil
		case err := <-replaced:
			return err
		case <-ticker.C:
			_ = check()
		}
	}
}

// newReceiver returns the receiver that the PARAMs of scheduler.cf describe, and where it
// listens.
func newReceiver(o *options, env *zenv.File, file *config.File, log zerolog.Logger) (*receiver.Receiver, listen.Address, error) {
	p := &file.Params
	if p.XferNodes == "" {
		return nil, listen.Address{}, fmt.Errorf("%s has no PARAMxfer-nodes", o.config)
	}
	nodes, err := xfer.ReadNodes(p.XferNodes)
	if err != nil {
		return nil, listen.Address{}, err
	}
	name := p.NodeName(o.postoffice)
	at := listen.Address{Network: p.XferListen.Network, Address: p.XferListen.Address}
	if self, known := xfer.FindNode(nodes, name); known && at.Network == "" {
		at = listen.Address{Network: self.Network, Address: self.Address}
	}
	if at.Network == "" {
		return nil, at, fmt.Errorf("no address: set PARAMxfer-listen, or add this node, %s, to %s", name, p.XferNodes)
	}
	levels, _ := env.HashLevels()
	notify := p.NotifySock.Address
	if notify == "" {
		notify = filepath.Join(o.postoffice, ".scheduler.notify")
	}
	keep := file.LongestExpiry()
	if keep == 0 {
		keep = receiver.UntilConfirmed
	}
	store, err := receiver.OpenStore(receiver.Options{
		Postoffice: o.postoffice, HashLevels: levels, Notify: strings.TrimPrefix(notify, "UNIX:"), Keep: keep,
		Channels: strings.Fields(p.XferChannels), Programs: p.XferPrograms, MaxSize: o.maxSize, MinFree: o.minFree,
		MaxOrigins: o.maxOrigins,
	})
	if err != nil {
		return nil, at, err
	}
	r := receiver.New(store)
	r.Node, r.MinRate = name, o.minRate
	r.Nodes = func() ([]xfer.Node, error) { return xfer.ReadNodes(p.XferNodes) }
	credentials := xfer.Credentials{Cert: p.XferCert, Key: p.XferKey, CA: p.XferCA}
	r.Certificates = xfer.NewCertificates(credentials, func(end time.Time) {
		if warning := certificate.Warning(end, time.Now()); warning != "" {
			log.Warn().Str("file", p.XferCert).Msg(warning)
		}
	})
	_ = r.Certificates.Load() // a connection over TCP reports the error
	r.Log = logConnections(log)
	return r, at, nil
}

// maxLines is how many lines are logged in a second: anybody who reaches the port can
// cause them.
const maxLines = 5

// logConnections returns a function that logs what is wrong with connections, and how
// many lines were left out before it. Faults of this node, without a peer, are counted
// apart.
func logConnections(log zerolog.Logger) func(peer string, err error) {
	lines := logs.Throttle{Number: maxLines, Period: time.Second}
	return func(peer string, err error) {
		kind := "peers"
		if peer == "" {
			kind = "this node"
		}
		missing, ok := lines.Take(kind, time.Now())
		if !ok {
			return
		}
		line := log.Warn().Err(err).Str("peer", peer)
		if missing > 0 {
			line = line.Int("unlogged", missing)
		}
		line.Msg("connection of another node")
	}
}
