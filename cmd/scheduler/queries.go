package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/rs/zerolog"

	"zsched/mailq/server"
	"zsched/scheduler/config"
	"zsched/scheduler/daemon"
)

// queries is how they are answered, which a reload may change.
type queries struct {
	settings atomic.Pointer[server.Settings]
	sockets  [2]config.Socket // that are open: for queries and for metrics
}

// TCP-wrappers' files, which version 1 minds.
const (
	hostsAllow = "/etc/hosts.allow"
	hostsDeny  = "/etc/hosts.deny"
)

// set takes what a configuration file and the command line say.
func (q *queries) set(s *setting, file *config.File) {
	version := max(1, s.mailqVersion)
	if auth := file.Params.AuthFile; auth != "" && syscall.Access(auth, readable) == nil {
		version = 2
	}
	to := &server.Settings{
		Version: version, Brief: s.queueMode, AuthFile: file.Params.AuthFile, UID: os.Geteuid(),
		HostsAllow: hostsAllow, HostsDeny: hostsDeny,
	}
	if program := s.env.Value("SCHEDULER_M_EXTRA"); program != "" {
		to.Extra = func(ctx context.Context) []byte { return extraCounters(ctx, program) }
	}
	q.settings.Store(to)
}

// authProblems says what is wrong with the auth file.
func authProblems(file *config.File) []error {
	if file.Params.AuthFile == "" {
		return nil
	}
	return server.CheckAuthFile(file.Params.AuthFile, os.Geteuid())
}

// readable is R_OK of access(2).
const readable = 4

// changed logs sockets that a reload names anew: the old ones stay open.
func (q *queries) changed(file *config.File, log zerolog.Logger) {
	for i, socket := range []config.Socket{file.Params.MailqSock, file.Params.Metrics} {
		if socket != q.sockets[i] {
			name := []string{"PARAMmailqpath", "PARAMmetrics"}[i]
			log.Warn().Stringer("socket", socket).Msg(name + " has changed, which has an effect at the next start")
		}
	}
}

// answer adds to the daemon's options what it needs to answer queries.
func (q *queries) answer(s *setting, file *config.File, o *daemon.Options) {
	q.sockets = [2]config.Socket{file.Params.MailqSock, file.Params.Metrics}
	o.Queries, o.Metrics = daemon.Socket(file.Params.MailqSock), daemon.Socket(file.Params.Metrics)
	o.Answering = func() server.Settings { return *q.settings.Load() }
	o.BindAddr = s.env.Value("BINDADDR")
	o.Rendezvous = s.where.rendezvous
	o.Lines = config.Lines
	o.MessageDir = filepath.Join(s.where.postoffice, "queue")
	o.LogDir = s.env.Value("LOGDIR")
	if s.where.log != "" {
		o.LogDir = filepath.Dir(s.where.log)
	}
	o.Inherited = inherited()
}

// inherited are the sockets that a service manager has opened for us
// (systemd.socket(5)).
func inherited() map[string][]net.Listener {
	listeners, err := activation.ListenersWithNames()
	if err != nil {
		return nil
	}
	for name, all := range listeners {
		var some []net.Listener
		for _, listener := range all {
			if listener != nil { // a datagram socket
				some = append(some, listener)
			}
		}
		listeners[name] = some
	}
	return listeners
}

// Bounds of the program that adds to SHOW COUNTERS.
const (
	extraTime  = 5 * time.Second
	extraBytes = 64 << 10
)

// extraCounters is what the program of SCHEDULER_M_EXTRA writes.
func extraCounters(ctx context.Context, program string) []byte {
	ctx, cancel := context.WithTimeout(ctx, extraTime)
	defer cancel()
	out := &bounded{left: extraBytes}
	cmd := exec.CommandContext(ctx, program)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = time.Second
	if cmd.Run() != nil && out.Len() == 0 {
		return nil
	}
	return out.Bytes()
}

// bounded keeps the beginning of what is written to it.
type bounded struct {
	bytes.Buffer
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	n := min(len(p), b.left)
	b.left -= n
	b.Buffer.Write(p[:n])
	return len(p), nil
}
