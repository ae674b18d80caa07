package hold

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"time"
)

// New makes an agent that asks the system: its clock, resolver and users.
// Scripts are in mailbin/bin.
func New(postoffice, mailbin string) *Agent {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return &Agent{
		Postoffice: postoffice,
		Host:       host,
		Now:        time.Now,
		LookUp:     lookUp,
		Script: func(ctx context.Context, name, argument string) error {
			return runScript(ctx, filepath.Join(mailbin, "bin", name), argument)
		},
		Home:   findHome,
		Chance: rand.IntN,
	}
}

// lookUp asks for one type of record. A type that the resolver of the standard
// library does not know is asked for as an address.
func lookUp(ctx context.Context, domain, kind string) error {
	var err error
	switch r := net.DefaultResolver; kind {
	case "MX":
		_, err = r.LookupMX(ctx, domain)
	case "NS":
		_, err = r.LookupNS(ctx, domain)
	case "TXT":
		_, err = r.LookupTXT(ctx, domain)
	case "CNAME":
		_, err = r.LookupCNAME(ctx, domain)
	case "PTR":
		_, err = r.LookupAddr(ctx, domain)
	case "A":
		_, err = r.LookupIP(ctx, "ip4", domain)
	case "AAAA":
		_, err = r.LookupIP(ctx, "ip6", domain)
	default:
		_, err = r.LookupIP(ctx, "ip", domain)
	}
	return temporary(err)
}

// temporary drops an error that is an answer: no such name, no such record.
func temporary(err error) error {
	var dns *net.DNSError
	if errors.As(err, &dns) && !dns.Temporary() && !dns.Timeout() {
		return nil
	}
	return err
}

// runScript runs a script away from the agent's socket: what it prints goes to
// the scheduler's log.
func runScript(ctx context.Context, path, argument string) error {
	cmd := exec.CommandContext(ctx, path)
	if argument != "" {
		cmd.Args = append(cmd.Args, argument)
	}
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("script %s: %w", filepath.Base(path), err)
	}
	return nil
}

func findHome(name string) error {
	u, err := user.Lookup(name)
	if err != nil {
		return err
	}
	_, err = os.Stat(u.HomeDir)
	return err
}
