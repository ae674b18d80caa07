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

// A place is where the questions go.
type place struct {
	client.Address
	spool *client.Postoffice
	local bool // the server is on this machine
}

// errNoPostoffice is the absence of a scheduler to ask.
var errNoPostoffice = errors.New("not active")

// findPlace finds the server: that of the command line, else that of
// MAILSERVER, else the one of the postoffice, which says in its scheduler.cf
// where it listens, if we may read that.
func findPlace(o *options, env *zenv.File) (*place, error) {
	dir := env.Value("POSTOFFICE")
	at := &place{spool: &client.Postoffice{Dir: dir}, local: true}
	at.Host, at.Port = o.server, servicePort()
	if at.Host == "" {
		at.Host = env.Value("MAILSERVER")
	}
	asked := at.Host != ""
	if !asked {
		at.Host = mountedFrom(dir)
	}
	switch {
	case o.at != "":
		var err error
		if at.Address, err = client.ParseAddress(o.at, at.Address); err != nil {
			return nil, usageError("-p " + err.Error())
		}
	case !asked && at.Host == "localhost":
		at.Address = configured(env, at.Address)
	}
	if !asked && o.at == "" && o.status == 0 && !at.spool.Active() {
		return nil, fmt.Errorf("%s is %w (%q does not exist)", dir, errNoPostoffice, filepath.Join(dir, ".pid.scheduler"))
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

// configured is where scheduler.cf says that its scheduler answers, or unset
// if that cannot be read.
func configured(env *zenv.File, unset client.Address) client.Address {
	file, err := config.Load(config.DefaultFile(env), env)
	if err != nil {
		return unset
	}
	switch socket := file.Params.MailqSock; socket.Network {
	case "unix":
		return client.Address{Path: socket.Address}
	case "tcp":
		host, port, err := net.SplitHostPort(socket.Address)
		if err != nil {
			return unset
		}
		if bound, err := netip.ParseAddr(host); host == "" || err == nil && bound.IsUnspecified() {
			host = unset.Host
		}
		if at, err := client.ParseAddress(port, client.Address{Host: host}); err == nil {
			return at
		}
	}
	return unset
}

// mountedFrom is the machine that a directory is mounted from over NFS, or
// localhost.
func mountedFrom(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "localhost"
	}
	return serverOf(dir, string(mounts))
}

func serverOf(dir, mounts string) string {
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

// isLocal reports whether every address of a host is one of this machine.
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

// canonical is the name under which a server shows up above its queue.
func canonical(host string) string {
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
