package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"

	"zsched/internal/zenv"
	"zsched/mailq/client"
	"zsched/scheduler/config"
)

// This file finds the server to ask: that of the command line, that of MAILSERVER in
// zmailer.conf, or the scheduler of this host. The sockets of the last are those of
// PARAMmailqsock (or PARAMmailqpath) in scheduler.cf.

// target is the server to ask and its postoffice.
type target struct {
	client.Address
	spool *client.Postoffice
	local bool // the server is on this host
	// own says that the scheduler of spool is meant: one that has another postoffice is not
	// asked.
	own bool
	// inactive is the error to report if the server does not answer and no scheduler
	// seems to have run here. If it is nil, the error of the connection is reported.
	// A scheduler that was started on a full disk answers, but has no pid file.
	inactive error
	// badConfig is why scheduler.cf cannot be read without errors; nil: it can, or
	// does not matter.
	badConfig error
}

// errNeverActive says that no scheduler was ever started in POSTOFFICE.
var errNeverActive = errors.New("not active")

// findTarget finds the server. The command line comes first, then MAILSERVER, then
// the scheduler of POSTOFFICE, at the sockets that scheduler.cf names.
func findTarget(a *asker, dead bool) (*target, error) {
	env := a.env
	dir := env.Value("POSTOFFICE")
	at := &target{spool: &client.Postoffice{Dir: dir}, local: true}
	at.Host, at.Port = a.server, servicePort()
	if at.Host == "" {
		at.Host = env.Value("MAILSERVER")
	}
	named := at.Host != ""
	if !named {
		at.Host = "localhost"
	}
	switch {
	case a.address != "":
		socket, err := config.ParseSocket(a.address, "", lookup)
		if err != nil {
			return nil, usageError(fmt.Sprintf("-p %q: %v", a.address, err))
		}
		at.Address = addressOf(socket, at.Host)
	case !named:
		at.own = true
		at.Address, at.badConfig = configured(env, at.Address)
	}
	if !named && a.address == "" && !dead && !at.spool.EverActive() {
		at.inactive = fmt.Errorf("%s is %w (%q does not exist)", dir, errNeverActive, filepath.Join(dir, ".pid.scheduler"))
		if at.Path == "" {
			return nil, at.inactive
		}
	}
	at.local = at.Path != "" || isLocal(at.Host)
	return at, nil
}

func servicePort() int {
	if port, err := lookup("mailq"); err == nil && port > 0 {
		return port
	}
	return config.MailqPort
}

func lookup(service string) (int, error) { return net.LookupPort("tcp", service) }

// addressOf returns the address at which a server that listens on a socket answers. host is that of
// a socket on all addresses.
func addressOf(socket config.Socket, host string) client.Address {
	if socket.Network == "unix" {
		return client.Address{Path: socket.Address}
	}
	at, port, _ := net.SplitHostPort(socket.Address)
	if bound, err := netip.ParseAddr(at); at == "" || err == nil && bound.IsUnspecified() {
		at = host
	}
	number, _ := strconv.Atoi(port)
	return client.Address{Host: at, Port: number}
}

// configured returns the address of PARAMmailqsock at which the scheduler of this host answers, or
// fallback if there is none. A UNIX socket comes first, because there the scheduler knows the user
// without a password. The error says what is wrong with scheduler.cf; its PARAMs without errors
// are used nevertheless.
func configured(env *zenv.File, fallback client.Address) (client.Address, error) {
	params, err := config.LoadParams(config.DefaultFile(env), env)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	address := fallback
	for _, socket := range params.MailqSocks {
		at := addressOf(socket, fallback.Host)
		if address == fallback || at.Path != "" && address.Path == "" {
			address = at
		}
	}
	var wrong config.Errors
	if errors.As(err, &wrong) && len(wrong) > 1 {
		err = fmt.Errorf("%w (%d errors: scheduler --check)", wrong[0], len(wrong))
	}
	return address, err
}

// isLocal reports whether a host is this one, as its name or address says.
func isLocal(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}
