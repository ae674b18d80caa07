package main

// Queries: the sockets, settings and rights of mailq and of the metrics.

import (
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/rs/zerolog"

	"zsched/internal/listen"
	"zsched/mailq/server"
	"zsched/scheduler/admin"
	"zsched/scheduler/config"
	"zsched/scheduler/daemon"
	"zsched/scheduler/metrics"
)

// querySettings returns the settings of the query server, from a configuration
// file and the command line.
func (s *setting) querySettings(file *config.File) server.Settings {
	version := max(1, s.mailqVersion)
	if auth := file.Params.AuthFile; auth != "" && syscall.Access(auth, readable) == nil {
		version = 2
	}
	return server.Settings{
		Version: version, Brief: s.queueMode, AuthFile: file.Params.AuthFile, UID: os.Geteuid(), Postoffice: s.where.postoffice,
	}
}

// authProblems returns the errors in the auth file.
func authProblems(file *config.File) []error {
	if file.Params.AuthFile == "" {
		return nil
	}
	return server.CheckAuthFile(file.Params.AuthFile, os.Geteuid())
}

// readable is R_OK of access(2).
const readable = 4

// mailqSockets names the sockets for queries in the log.
const mailqSockets = "mailq"

// metricsName is the name that FileDescriptorName= in a socket unit gives to the
// socket for metrics.
const metricsName = "metrics"

// adminOptions returns the options of the query server.
func (s *setting) adminOptions(file *config.File, port daemon.Port, files admin.Files, log zerolog.Logger) admin.Options {
	o := admin.Options{
		Port: port, Files: files, Log: log, Settings: s.querySettings(file),
		Rendezvous: s.where.rendezvous, Postoffice: s.where.postoffice,
		MessageDir: filepath.Join(s.where.postoffice, "queue"), ControlDir: s.where.transport(),
		LogDir: s.env.Value("LOGDIR"),
	}
	o.Nodes, o.OwnNames = s.moves.nodeNames, s.moves.ownNames()
	if s.where.log != "" {
		o.LogDir = filepath.Dir(s.where.log)
	}
	return o
}

// openSockets opens the sockets for queries and for metrics scrapes.
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
	serve := func(l net.Listener) error { return sockets.Accept(l, queries.Serve) }
	if len(forQueries) > 0 {
		sockets.Open(mailqSockets, listen.Address{}, forQueries, serve)
	} else {
		for _, at := range file.Params.MailqSocks {
			sockets.Open(mailqSockets, address(at), nil, serve)
		}
	}
	sockets.Open(metricsName, address(file.Params.Metrics), forMetrics, scrapes.Serve)
	return sockets
}

// inherited returns the sockets that the service manager has opened for this
// process, by name (systemd.socket(5)).
func inherited() map[string][]net.Listener {
	listeners, err := activation.ListenersWithNames()
	if err != nil {
		return nil
	}
	for name, all := range listeners {
		var some []net.Listener
		for _, listener := range all {
			if listener != nil { // nil: a datagram socket
				some = append(some, listener)
			}
		}
		listeners[name] = some
	}
	return listeners
}
