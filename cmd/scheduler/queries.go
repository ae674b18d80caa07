package main

// Queries: the sockets, settings and rights of mailq and of the metrics.

import (
	"bytes"
	"context"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/rs/zerolog"

	"zsched/internal/listen"
	"zsched/mailq/server"
	"zsched/scheduler/admin"
	"zsched/scheduler/config"
	"zsched/scheduler/daemon"
	"zsched/scheduler/metrics"
)

// TCP-wrappers' files, which version 1 minds.
const (
	hostsAllow = "/etc/hosts.allow"
	hostsDeny  = "/etc/hosts.deny"
)

// querySettings is how queries are answered, according to a configuration file
// and the command line.
func (s *setting) querySettings(file *config.File) server.Settings {
	version := max(1, s.mailqVersion)
	if auth := file.Params.AuthFile; auth != "" && syscall.Access(auth, readable) == nil {
		version = 2
	}
	to := server.Settings{
		Version: version, Brief: s.queueMode, AuthFile: file.Params.AuthFile, UID: os.Geteuid(),
		HostsAllow: hostsAllow, HostsDeny: hostsDeny,
	}
	if program := s.env.Value("SCHEDULER_M_EXTRA"); program != "" {
		to.Extra = func(ctx context.Context) []byte { return extraCounters(ctx, program) }
	}
	return to
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

// metricsName is the name of the socket for metrics in a service manager's
// FileDescriptorName.
const metricsName = "metrics"

// adminOptions is what the query server is made of.
func (s *setting) adminOptions(file *config.File, port daemon.Port, files admin.Files, log zerolog.Logger) admin.Options {
	o := admin.Options{
		Port: port, Files: files, Log: log, Settings: s.querySettings(file),
		Rendezvous: s.where.rendezvous, Params: config.Lines,
		MessageDir: filepath.Join(s.where.postoffice, "queue"), ControlDir: s.where.transport(),
		LogDir: s.env.Value("LOGDIR"),
	}
	if s.where.log != "" {
		o.LogDir = filepath.Dir(s.where.log)
	}
	return o
}

// openSockets opens the sockets at which queries and scrapes are answered.
func (s *setting) openSockets(file *config.File, queries *admin.Server, scrapes *metrics.Server) *listen.Sockets {
	sockets, handed := listen.New(scrapes.Log), inherited()
	forMetrics := handed[metricsName]
	delete(handed, metricsName)
	var forQueries []net.Listener
	for _, name := range slices.Sorted(maps.Keys(handed)) {
		forQueries = append(forQueries, handed[name]...)
	}
	address := func(a config.Socket) listen.Address {
		return listen.Address{Network: a.Network, Address: a.Address, BindAddr: s.env.Value("BINDADDR")}
	}
	sockets.Open("mailq", address(file.Params.MailqSock), forQueries, func(l net.Listener) error {
		return sockets.Accept(l, queries.Serve)
	})
	sockets.Open(metricsName, address(file.Params.Metrics), forMetrics, scrapes.Serve)
	return sockets
}

// warnChangedSockets logs sockets that a reload names anew: the old ones stay
// open.
func warnChangedSockets(opened, now *config.File, log zerolog.Logger) {
	for name, both := range map[string][2]config.Socket{
		"PARAMmailqpath": {opened.Params.MailqSock, now.Params.MailqSock},
		"PARAMmetrics":   {opened.Params.Metrics, now.Params.Metrics},
	} {
		if both[0] != both[1] {
			log.Warn().Stringer("socket", both[1]).Msg(name + " has changed, which has an effect at the next start")
		}
	}
	if opened.Params.EventLog != now.Params.EventLog {
		log.Warn().Str("place", now.Params.EventLog).Msg("PARAMevent-log has changed, which has an effect at the next start")
	}
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
