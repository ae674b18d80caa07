// Xferd takes mail that other nodes move here: xfer(8).
package main

import (
	"cmp"
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

	"zsched/internal/command"
	"zsched/internal/listen"
	"zsched/internal/logs"
	"zsched/internal/process"
	"zsched/internal/text"
	"zsched/internal/version"
	"zsched/internal/zenv"
	"zsched/queue"
	"zsched/scheduler/config"
	"zsched/xfer"
	"zsched/xfer/receiver"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

type options struct{ config, zenv, postoffice string }

func newFlags(o *options) *pflag.FlagSet {
	f := command.Flags("xferd")
	f.BoolP("interactive", "i", false, "run in the foreground, which xferd always does")
	f.StringVarP(&o.config, "config", "f", "", "configuration `file` of the scheduler instead of MAILSHARE/scheduler.cf")
	f.StringVarP(&o.zenv, "zmailer-conf", "Z", "", "read this `zmailer.conf`")
	f.StringVarP(&o.postoffice, "postoffice", "P", "", "postoffice `directory`")
	return f
}

const usageLine = "usage: xferd [-iV] [-f FILE] [-P DIRECTORY] [-Z FILE]\n"

func run(args []string, stdout, stderr io.Writer) int {
	o := new(options)
	line := command.Line{Flags: newFlags(o), Usage: usageLine, Stdout: stdout, Stderr: stderr}
	if status, ended := line.Parse(args); ended {
		return status
	}
	if err := serve(o, zerolog.New(text.JSONWriter{To: stderr}).With().Timestamp().Logger()); err != nil {
		fmt.Fprintf(stderr, "xferd: %v\n", err)
		return command.ExitFault
	}
	return 0
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
	claim, err := process.NewClaim(o.postoffice, "xferd", queue.XferStaging)
	if err != nil {
		return err
	}
	defer claim.Close()
	r, at, err := newReceiver(o, file, log)
	if err != nil {
		return err
	}
	store, err := openStore(o, env, file, claim.Check)
	if err != nil {
		return err
	}
	defer store.Close()
	r.Store = store

	committing, stopCommitting := context.WithCancel(context.Background())
	var committer sync.WaitGroup
	committer.Go(func() { r.Run(committing) })
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	sockets := listen.New(log)
	sockets.Open("xfer", at, nil, func(l net.Listener) error { return sockets.Accept(l, r.Serve) })
	log.Info().Str("node", r.Node).Str("address", at.Address).Str("version", version.Number).Msg("xferd started")
	_, _ = daemon.SdNotify(false, daemon.SdNotifyReady)
	err = wait(stop, claim.Check)
	_, _ = daemon.SdNotify(false, daemon.SdNotifyStopping)
	sockets.Close()
	stopCommitting()
	committer.Wait()
	if err == nil {
		log.Info().Msg("xferd stopped")
	}
	return err
}

// checkInterval is how often the claim to the postoffice is checked.
const checkInterval = 5 * time.Second

// wait waits until a signal comes, or the postoffice was replaced, and returns that error.
func wait(stop context.Context, check func() error) error {
	ticker := time.NewTicker(checkInterval)
	defer ticker.Stop()
	for {
		select {
		case <-stop.Done():
			return nil
		case <-ticker.C:
			if err := check(); errors.Is(err, process.ErrReplaced) {
				return err
			}
		}
	}
}

// newReceiver returns the receiver that the PARAMs of scheduler.cf describe, and where it
// listens: at the address of this node in the table.
func newReceiver(o *options, file *config.File, log zerolog.Logger) (*receiver.Receiver, listen.Address, error) {
	p := &file.Params
	if p.XferNodes == "" {
		return nil, listen.Address{}, fmt.Errorf("%s has no PARAMxfer-nodes", o.config)
	}
	nodes, err := xfer.ReadNodes(p.XferNodes)
	if err != nil {
		return nil, listen.Address{}, err
	}
	name := p.NodeName(o.postoffice)
	self, known := xfer.FindNode(nodes, name)
	if !known {
		return nil, listen.Address{}, fmt.Errorf("this node, %s, is not in %s", name, p.XferNodes)
	}
	return receiver.New(&receiver.Receiver{
		Node: name, Credentials: xfer.CredentialsOf(p.XferNodes), Log: logConnections(log),
		Nodes: func() ([]xfer.Node, error) { return xfer.ReadNodes(p.XferNodes) },
	}), listen.Address{Network: self.Network, Address: self.Address}, nil
}

// openStore opens the postoffice for mail of other nodes.
func openStore(o *options, env *zenv.File, file *config.File, check func() error) (*receiver.Store, error) {
	levels, _ := env.HashLevels()
	notify := cmp.Or(file.Params.NotifySock.Address, filepath.Join(o.postoffice, ".scheduler.notify"))
	return receiver.OpenStore(o.postoffice, levels, strings.TrimPrefix(notify, "UNIX:"), check)
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
		kind, text := "peers", "connection of another node"
		if peer == "" {
			kind, text = "this node", "mail of another node is not taken"
		}
		missing, ok := lines.Take(kind, time.Now())
		if !ok {
			return
		}
		line := log.Warn().Err(err)
		if peer != "" {
			line = line.Str("peer", peer)
		}
		if missing > 0 {
			line = line.Int("unlogged", missing)
		}
		line.Msg(text)
	}
}
