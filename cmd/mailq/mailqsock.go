package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"path/filepath"
	"slices"

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
	// others are more addresses of the same server, which are tried in turn if no
	// process answers at Address.
	others []client.Address
	spool  *client.Postoffice
	local  bool // the server is on this host
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
func findTarget(o *options, env *zenv.File) (*target, error) {
	dir := env.Value("POSTOFFICE")
	at := &target{spool: &client.Postoffice{Dir: dir}, local: true}
	at.Host, at.Port = o.server, servicePort()
	if at.Host == "" {
		at.Host = env.Value("MAILSERVER")
	}
	named := at.Host != ""
	if !named {
		at.Host = "localhost"
	}
	switch {
	case o.address != "":
		var err error
		if at.Address, err = client.ParseAddress(o.address, at.Address); err != nil {
			return nil, usageError("-p " + err.Error())
		}
	case !named:
		at.own = true
		addresses, err := knownAddresses(env, at.Address)
		at.Address, at.others, at.badConfig = addresses[0], addresses[1:], err
	}
	if !named && o.address == "" && o.status == 0 && !at.spool.EverActive() {
		at.inactive = fmt.Errorf("%s is %w (%q does not exist)", dir, errNeverActive, filepath.Join(dir, ".pid.scheduler"))
		if at.Path == "" {
			return nil, at.inactive
		}
	}
	at.local = at.Path != "" || isLocal(at.Host)
	return at, nil
}

func servicePort() int {
	if port, err := net.LookupPort("tcp", "mailq"); err == nil && port > 0 {
		return port
	}
	return client.Port
}

// knownAddresses returns the addresses at which the scheduler of this host may
// answer, the likeliest first: those of PARAMmailqsock, or fallback if there are none.
// UNIX sockets come first, because there the scheduler knows the user without a password.
// The error says what is wrong with scheduler.cf; its PARAMs without errors are used
// nevertheless.
func knownAddresses(env *zenv.File, fallback client.Address) (addresses []client.Address, err error) {
	params, err := config.LoadParams(config.DefaultFile(env), env)
	for _, socket := range params.MailqSocks {
		if at, ok := clientAddress(socket.String(), fallback); ok && !slices.Contains(addresses, at) {
			addresses = append(addresses, at)
		}
	}
	if len(addresses) == 0 {
		addresses = []client.Address{fallback}
	}
	slices.SortStableFunc(addresses, func(a, b client.Address) int {
		return map[bool]int{true: 1}[a.Path == ""] - map[bool]int{true: 1}[b.Path == ""]
	})
	var wrong config.Errors
	switch {
	case errors.As(err, &wrong) && len(wrong) > 1:
		err = fmt.Errorf("%w (%d errors: scheduler --check)", wrong[0], len(wrong))
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	return addresses, err
}

// clientAddress returns the address to connect to for one at which the scheduler
// listens.
func clientAddress(text string, fallback client.Address) (at client.Address, ok bool) {
	at, err := client.ParseAddress(text, fallback)
	if err != nil {
		return at, false
	}
	if bound, err := netip.ParseAddr(at.Host); err == nil && bound.IsUnspecified() {
		at.Host = fallback.Host
	}
	return at, true
}

// isLocal reports whether a host is this one, as its name or address says.
func isLocal(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}
