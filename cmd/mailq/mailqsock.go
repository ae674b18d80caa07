package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"zsched/internal/zenv"
	"zsched/mailq/client"
	"zsched/scheduler/config"
)

// This file finds the server to ask: that of the command line, that of MAILSERVER
// in zmailer.conf, or the one whose socket PARAMmailqsock (or PARAMmailqpath) in
// scheduler.cf names.

// target is the server to ask and its postoffice.
type target struct {
	client.Address
	spool *client.Postoffice
	local bool // the server is on this host
	// inactive is the error if the server does not answer, because no scheduler
	// seems to have run; nil: that of the connection. A scheduler that was started
	// on a full disk answers, but has no pid file.
	inactive error
}

// errNoPostoffice says that no scheduler was ever started in POSTOFFICE.
var errNoPostoffice = errors.New("not active")

// findTarget finds the server. The command line comes first, then MAILSERVER, then
// the scheduler of POSTOFFICE: on the host that exports the directory over NFS, or
// on this host, at the socket that scheduler.cf names if the user may read that.
func findTarget(o *options, env *zenv.File) (*target, error) {
	dir := env.Value("POSTOFFICE")
	at := &target{spool: &client.Postoffice{Dir: dir}, local: true}
	at.Host, at.Port = o.server, servicePort()
	if at.Host == "" {
		at.Host = env.Value("MAILSERVER")
	}
	named := at.Host != ""
	if !named {
		at.Host = mountedFrom(dir)
	}
	switch {
	case o.address != "":
		var err error
		if at.Address, err = client.ParseAddress(o.address, at.Address); err != nil {
			return nil, usageError("-p " + err.Error())
		}
	case !named && at.Host == "localhost":
		at.Address = configuredAddress(env, at.Address)
	}
	if !named && o.address == "" && o.status == 0 && !at.spool.EverActive() {
		at.inactive = fmt.Errorf("%s is %w (%q does not exist)", dir, errNoPostoffice, filepath.Join(dir, ".pid.scheduler"))
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

// configuredAddress returns the address of PARAMmailqsock in scheduler.cf, or
// fallback if that file cannot be read or has none.
func configuredAddress(env *zenv.File, fallback client.Address) client.Address {
	file, err := config.Load(config.DefaultFile(env), env)
	if err != nil {
		return fallback
	}
	switch socket := file.Params.MailqSock; socket.Network {
	case "unix":
		return client.Address{Path: socket.Address}
	case "tcp":
		host, port, err := net.SplitHostPort(socket.Address)
		if err != nil {
			return fallback
		}
		if bound, err := netip.ParseAddr(host); host == "" || err == nil && bound.IsUnspecified() {
			host = fallback.Host
		}
		if at, err := client.ParseAddress(port, client.Address{Host: host}); err == nil {
			return at
		}
	}
	return fallback
}

// mountedFrom returns the host that a directory is mounted from over NFS, or
// localhost.
func mountedFrom(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "localhost"
	}
	return nfsServer(dir, string(mounts))
}

// nfsServer is mountedFrom for the text of /proc/self/mounts.
func nfsServer(dir, mounts string) string {
	host, longest := "localhost", -1
	for line := range strings.Lines(mounts) {
		f := strings.Fields(line)
		if len(f) < 3 || len(f[1]) < longest || !within(dir, f[1]) {
			continue
		}
		host, longest = "localhost", len(f[1])
		if server, _, ok := strings.Cut(f[0], ":/"); ok && strings.HasPrefix(f[2], "nfs") {
			host = strings.Trim(server, "[]")
		}
	}
	return host
}

func within(dir, top string) bool {
	return top == "/" || dir == top || strings.HasPrefix(dir, top+"/")
}

// isLocal reports whether every address of a host is an address of this host.
func isLocal(host string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil || len(addresses) == 0 {
		return false
	}
	ours, _ := net.InterfaceAddrs()
	return !slices.ContainsFunc(addresses, func(a netip.Addr) bool {
		a = a.Unmap()
		return !a.IsLoopback() && !slices.ContainsFunc(ours, func(o net.Addr) bool {
			prefix, err := netip.ParsePrefix(o.String())
			return err == nil && prefix.Addr().Unmap() == a
		})
	})
}

// canonicalName returns the name of a server for the first line of the output.
func canonicalName(host string) string {
	if _, err := netip.ParseAddr(host); err == nil {
		return host
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if name, err := net.DefaultResolver.LookupCNAME(ctx, host); err == nil && name != "" {
		return strings.TrimSuffix(name, ".")
	}
	return host
}
