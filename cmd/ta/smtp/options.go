package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"zsched/cmd/ta/internal/program"
	"zsched/ta/smtp"
)

// command is the command line.
type command struct {
	program *program.Program
	o       smtp.Options

	local, secrets, tlsFile, policy, resolver, log, timeouts string

	keywords []string
	seven    int
	debug    int
	single   bool
	title    bool
	wks      bool
	warnings []string // options without effect
}

func newCommand(p *program.Program) *command {
	c := &command{program: p}
	c.o.Limits, c.o.Timeouts = smtp.DefaultLimits(), smtp.DefaultTimeouts()
	p.Flags.SortFlags = false
	c.oldFlags()
	c.newFlags()
	return c
}

// oldFlags are ZMailer's, by their letters.
func (c *command) oldFlags() {
	f, o := c.program.Flags, &c.o
	f.BoolVarP(&c.single, "single", "1", false, "one message a connection")
	f.BoolVarP(&o.IPv6First, "ipv6-first", "6", false, "try IPv6 addresses first")
	f.CountVarP(&c.seven, "seven-bit", "7", "send 7 bits, quoted-printable where needed; twice: and no ESMTP")
	f.BoolVarP(&o.EightClean, "eight-bit", "8", false, "the channel is 8-bit clean")
	f.StringVarP(&c.secrets, "secrets", "A", "", "`file` of names and passwords")
	f.IntVarP(&o.Limits.PerHost, "per-host", "C", 0, "`number` of connections to one mail exchanger; 0 for any")
	f.CountVarP(&c.debug, "debug", "d", "the protocol goes to the scheduler's log too")
	f.BoolVarP(&o.ShareMX, "share-mx", "e", false, "hosts with the same mail exchanger share connections")
	f.BoolVarP(&o.Disabled.ESMTPUnannounced, "ehlo-if-said", "E", false, "say EHLO only where the greeting has ESMTP in it")
	f.StringVarP(&o.Forced, "forced", "F", "", "all mail goes to this `destination`: UNIX:/path, [address] or a name")
	f.StringVarP(&o.Name, "helo", "h", "", "our own `name`, for EHLO")
	f.BoolVarP(&o.KeepHeaders, "keep-headers", "H", false, "do not encode headers")
	f.StringVarP(&c.local, "local", "L", "", "local `address`: iface:name, an address or a name")
	f.StringVarP(&c.log, "log", "l", "", "protocol log, a `file`")
	f.BoolVarP(&o.LMTP, "lmtp", "M", false, "LMTP; needs -p or -F UNIX:")
	f.StringArrayVarP(&c.keywords, "option", "O", nil, "a `keyword`; none is known")
	f.IntVarP(&o.Port, "port", "p", 0, "`port` to connect to (default 25)")
	f.BoolVarP(&o.Disabled.Pipelining, "no-pipelining", "P", false, "do not pipeline")
	f.BoolVarP(&o.Dialer.LowPort, "low-port", "r", false, "connect from a port below 1024")
	f.BoolVarP(&c.title, "show", "s", false, "the title of the process says what is being done")
	f.StringVarP(&c.tlsFile, "tls-file", "S", "", "`file` of certificates and the like")
	f.StringVarP(&c.timeouts, "timeouts", "T", "", "time `limits`, such as conn=3m,dot=20m")
	f.IntVarP(&o.Dialer.Buffer, "buffer", "w", 0, "`bytes` of the sockets' buffers; 0 for the system's")
	f.BoolVarP(&c.wks, "wks", "W", false, "without effect")
	f.BoolVarP(&o.NoMX, "no-mx", "x", false, "do not look for MX records")
	f.BoolVarP(&o.LocalOK, "local-ok", "X", false, "our own addresses are no loop")
}

// newFlags have no letters.
func (c *command) newFlags() {
	f, limits := c.program.Flags, &c.o.Limits
	f.StringVar(&c.resolver, "resolver", "", "`address` of the DNS server to ask, host:port; default: the system's")
	f.StringVar(&c.policy, "tls-policy", "", "`file` that says which destinations must have TLS")
	f.IntVar(&limits.Backlog, "backlog", limits.Backlog, "`number` of jobs on a connection before another is opened")
	f.IntVar(&limits.MessageMax, "msgsessions", limits.MessageMax, "`number` of connections that a message has at any rate; 0 for any")
	f.IntVar(&limits.MessageScale, "msgscale", limits.MessageScale, "`factor` of the free connections that it may have beyond that")
	f.IntVar(&limits.Jobs, "max-jobs", limits.Jobs, "`number` of jobs after which a connection is closed; 0 for any")
	f.DurationVar(&limits.Age, "max-age", limits.Age, "`time` after which a connection in use is closed; 0 for any")
	f.DurationVar(&limits.Idle, "max-idle", limits.Idle, "`time` after which one that is not is closed")
	f.DurationVar(&limits.Retry, "retry", limits.Retry, "`time` for which a host that cannot be connected to is not tried")
	f.DurationVar(&limits.Forget, "forget", limits.Forget, "`time` after which nothing is known of a host")
}

// parse reads the command line and what can be checked without the files that
// it names.
func (c *command) parse(args []string) error {
	if err := c.program.Parse(args); err != nil {
		return err
	}
	o, limits := &c.o, &c.o.Limits
	switch {
	case o.LMTP && o.Port == 0 && !strings.HasPrefix(strings.ToUpper(o.Forced), "UNIX:"):
		return errors.New("LMTP has no port of its own: -M needs -p or -F UNIX:/path")
	case o.Port < 0 || o.Port > 65535:
		return fmt.Errorf("port %d", o.Port)
	case min(limits.PerHost, limits.Backlog, limits.MessageMax, limits.MessageScale, limits.Jobs, o.Dialer.Buffer) < 0:
		return errors.New("a number is less than 0")
	case min(limits.Age, limits.Idle, limits.Retry, limits.Forget) < 0:
		return errors.New("a time is less than 0")
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
	o.Disabled.EightBit, o.Disabled.ESMTP = c.seven > 0, c.seven > 1 && !o.LMTP
	if c.wks {
		c.warnings = append(c.warnings, "option -W is without effect: WKS records are no longer used")
	}
	for _, k := range c.keywords {
		c.warnings = append(c.warnings, fmt.Sprintf("option -O %q is without effect", k))
	}
	return c.program.Host()
}

// options reads the files and asks the system for what was not given.
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
	for _, word := range o.TLS.Ignored {
		c.warnings = append(c.warnings, fmt.Sprintf("%s: %q is without effect", c.tlsFile, word))
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
