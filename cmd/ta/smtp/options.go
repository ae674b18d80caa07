// This file holds the options: smtp(8), OPTIONS.

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"zsched/cmd/ta/internal/program"
	"zsched/internal/units"
	"zsched/ta/smtp"
)

// command is the command line and the options of package smtp that it sets.
type command struct {
	program *program.Program
	o       smtp.Options

	local, secrets, tlsFile, policy, resolver, log, timeouts string

	debug  int
	single bool
}

func newCommand(p *program.Program) *command {
	c := &command{program: p}
	c.o.Limits, c.o.Timeouts = smtp.DefaultLimits(), smtp.DefaultTimeouts()
	p.Flags.SortFlags = false
	c.oldFlags()
	c.newFlags()
	return c
}

// oldFlags adds the options of ZMailer, which have letters.
func (c *command) oldFlags() {
	f, o := c.program.Flags, &c.o
	f.BoolVarP(&c.single, "single", "1", false, "close each connection after one message")
	f.BoolVarP(&o.IPv6First, "ipv6-first", "6", false, "try IPv6 addresses first")
	f.StringVarP(&c.secrets, "secrets", "A", "", "`file` of user names and passwords for AUTH")
	f.CountVarP(&c.debug, "debug", "d", "write the protocol log to the scheduler's log too")
	f.BoolVarP(&o.ShareMX, "share-mx", "e", false, "let hosts with the same mail exchanger share connections")
	f.StringVarP(&o.Forced, "forced", "F", "", "send all mail to this `destination`: UNIX:/path, [address] or a name")
	f.StringVarP(&o.Name, "helo", "h", "", "`name` of this host, for EHLO")
	f.StringVarP(&c.local, "local", "L", "", "local `address` to connect from: iface:name, an address or a name")
	f.StringVarP(&c.log, "log", "l", "", "append the protocol log to this `file`")
	f.BoolVarP(&o.LMTP, "lmtp", "M", false, "speak LMTP; needs -p or -F UNIX:/path")
	f.IntVarP(&o.Port, "port", "p", 0, "`port` to connect to (default 25)")
	f.BoolVarP(&o.NoPipelining, "no-pipelining", "P", false, "do not pipeline")
	f.StringVarP(&c.tlsFile, "tls-file", "S", "", "`file` of certificates")
	f.StringVarP(&c.timeouts, "timeouts", "T", "", "`timeouts`, such as conn=3m,dot=20m")
	f.BoolVarP(&o.NoMX, "no-mx", "x", false, "do not look for MX records")
	f.BoolVarP(&o.LocalOK, "local-ok", "X", false, "do not regard our own addresses as a loop")
	c.program.Ignore("78EHrsW")
	f.StringArrayP("option", "O", nil, "`keyword` that has no effect; none is known")
	f.StringP("buffer", "w", "", "`bytes` of socket buffers; has no effect")
}

// newFlags adds the options that have no letters.
func (c *command) newFlags() {
	f, limits := c.program.Flags, &c.o.Limits
	f.StringVar(&c.resolver, "resolver", "", "`address` of the DNS server to ask, host:port; default: the system's")
	f.StringVar(&c.policy, "tls-policy", "", "`file` of the destinations that must have TLS")
	f.IntVar(&limits.Backlog, "backlog", limits.Backlog, "`number` of messages that a connection has in hand before another one is opened")
	f.IntVar(&limits.MessageMax, "msgsessions", limits.MessageMax, "`number` of connections that a message may always have; 0: no limit")
	f.IntVar(&limits.MessageScale, "msgscale", limits.MessageScale, "a message may have more connections while it has fewer than this `factor` times the free ones")
	f.IntVar(&limits.Jobs, "max-jobs", limits.Jobs, "`number` of messages after which a connection is closed; 0: never")
	f.Var((*units.Interval)(&limits.Age), "max-age", "`time` after which a connection in use is closed; 0: never")
	f.Var((*units.Interval)(&limits.Idle), "max-idle", "`time` after which an idle connection is closed")
	f.Var((*units.Interval)(&limits.Retry), "retry", "`time` for which a host that cannot be connected to is not tried")
}

// parse reads the command line and checks it, without the files that it names.
func (c *command) parse(args []string) error {
	if err := c.program.Parse(args); err != nil {
		return err
	}
	o, limits := &c.o, &c.o.Limits
	switch {
	case o.LMTP && o.Port == 0 && !strings.HasPrefix(strings.ToUpper(o.Forced), "UNIX:"):
		return errors.New("LMTP has no port of its own: -M needs -p or -F UNIX:/path")
	case o.Port < 0 || o.Port > 65535:
		return fmt.Errorf("port %d is not between 0 and 65535", o.Port)
	}
	if err := c.negative(); err != nil {
		return err
	}
	if c.timeouts != "" {
		if err := o.Timeouts.Set(c.timeouts); err != nil {
			return err
		}
	}
	limits.Sessions = max(c.program.Server.Sessions, 1)
	if c.single {
		limits.Jobs = 1
	}
	return c.program.Host()
}

// negative returns an error if a number is less than 0.
func (c *command) negative() (err error) {
	c.program.Flags.Visit(func(f *pflag.Flag) {
		value := f.Value.String()
		if f.Value.Type() == "int" && strings.HasPrefix(value, "-") {
			err = fmt.Errorf("--%s %s is less than 0", f.Name, value)
		}
	})
	return err
}

// options reads the files that the command line names, and gets the missing settings
// from the system.
func (c *command) options() (smtp.Options, error) {
	o := c.o
	if c.resolver != "" {
		if _, _, err := net.SplitHostPort(c.resolver); err != nil {
			c.resolver = net.JoinHostPort(strings.Trim(c.resolver, "[]"), "53")
		}
	}
	o.Resolver = smtp.NewResolver(c.resolver)
	o.TLS = smtp.NewTLS()
	for _, read := range []struct {
		name string
		by   func(string) error
	}{{c.tlsFile, o.TLS.ReadFile}, {c.policy, o.TLS.ReadPolicy}} {
		if read.name == "" {
			continue
		}
		if err := read.by(read.name); err != nil {
			return o, err
		}
	}
	var err error
	if c.secrets != "" {
		if o.Secrets, err = smtp.ReadSecrets(c.secrets); err != nil {
			return o, err
		}
	}
	if c.local != "" {
		if o.Dialer.Local, err = smtp.ParseLocal(c.local, o.Resolver); err != nil {
			return o, err
		}
	}
	if o.Name == "" {
		if o.Name, err = os.Hostname(); err != nil {
			o.Name = "localhost"
		}
	}
	return o, nil
}
