package main

// Options: those of the command line and of smtpserver.cf, which have the same names.

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"zsched/internal/command"
	"zsched/internal/listen"
	"zsched/internal/units"
	"zsched/internal/zenv"
	"zsched/queue"
	"zsched/smtpserver"
)

const usageLine = `usage: smtpserver [-iV] [-Z zenvfile] [-f configfile] [-l address] [--option value ...]
`

// options are the values from the command line and the configuration file.
type options struct {
	zenv, config     string
	check            bool
	listen           []address
	metrics          listen.Address
	certificate, key string
	checkRecipients  bool
	smtpserver.Options
}

// address is an address to listen on, and its protocol.
type address struct {
	text     string
	at       listen.Address
	protocol smtpserver.Protocol
}

func (a address) String() string { return a.text }

// parseAddress reads [smtp:|smtps:]host:port or [smtp:]/path, and the word require-auth after it.
func parseAddress(text string) (a address, err error) {
	a.text = text
	where, word, _ := strings.Cut(text, " ")
	if word = strings.TrimSpace(word); word != "" && word != "require-auth" {
		return a, fmt.Errorf("%q after an address is not require-auth", word)
	}
	where, _ = strings.CutPrefix(where, "smtp:")
	where, a.protocol.TLS = strings.CutPrefix(where, "smtps:")
	a.protocol.RequireAuth = word != ""
	err = a.at.Set(where)
	return a, err
}

func newFlags(o *options) *pflag.FlagSet {
	*o = options{Options: smtpserver.Default()}
	f := command.Flags("smtpserver")
	f.BoolP("interactive", "i", false, "run in the foreground, which the server always does")
	f.BoolVar(&o.check, "check", false, "report what is wrong with the configuration, and exit")
	f.StringVarP(&o.zenv, "zmailer-conf", "Z", "", "read this `zmailer.conf`")
	f.StringVarP(&o.config, "config", "f", "", "configuration `file` instead of MAILSHARE/smtpserver.cf")
	f.FuncP("listen", "l", "`address` to listen on: [smtp:|smtps:]host:port or /path, and require-auth after it (127.0.0.1:25)", func(text string) error {
		a, err := parseAddress(text)
		o.listen = append(o.listen, a)
		return err
	})
	f.Func("metrics", "`address` for metrics and health checks by HTTP: host:port or /path", o.metrics.Set)
	f.Func("hostname", "`name` of this host", func(text string) error {
		o.Hostname = text
		return checkDomain(text)
	})
	f.Func("domain", "`domain` to accept mail for; with a dot at the start, all domains below it (the host's name)", func(text string) error {
		o.Domains = append(o.Domains, strings.ToLower(text))
		return checkDomain(strings.TrimPrefix(text, "."))
	})
	f.Func("network", "`network` whose clients may send anywhere, besides this machine", prefixes(&o.Networks))
	f.BoolVar(&o.checkRecipients, "check-recipients", false, "refuse addresses that router(8) could not route by its tables")
	f.StringVar(&o.certificate, "certificate", "", "PEM `file` with the certificate for TLS; without it there is neither STARTTLS nor AUTH")
	f.StringVar(&o.key, "key", "", "PEM `file` with the certificate's key, if it is not in the same file")
	f.StringVar(&o.Passwords, "passwords", "", "`file` of lines user:bcrypt-hash, for AUTH")
	f.Func("max-size", "maximum size of a message in `bytes`, with k, M or G (50M)", units.SizeFlag(&o.MaxSize, 1))
	f.IntVar(&o.MaxRecipients, "max-recipients", o.MaxRecipients, "maximum number of recipients of a message")
	f.IntVar(&o.MaxSessions, "max-sessions", o.MaxSessions, "maximum number of sessions at once")
	f.IntVar(&o.MaxFromAddress, "max-sessions-address", o.MaxFromAddress, "maximum number of sessions at once from one address outside known networks")
	f.IntVar(&o.MaxErrors, "max-errors", o.MaxErrors, "maximum number of errors between two messages of a client outside known networks")
	f.Func("rate-login", "`recipients/time` that a user who has logged in may have at most, such as 500/1h", rateFlag(&o.LoginRate))
	f.Func("rate-client", "`recipients/time` that an address block outside known networks may have at most", rateFlag(&o.ClientRate))
	f.Func("rate-network", "`recipients/time` that an address in known networks, or a user of this machine, may have at most", rateFlag(&o.NetworkRate))
	f.Func("min-free", "`bytes` of disk to leave free, with k, M or G (64M); 0: none", units.SizeFlag(&o.MinFree, 0))
	f.IntVar(&o.RouterMax, "router-max", o.RouterMax, "number of files in router/ at which mail is delayed; 0: no limit")
	f.Var((*units.Interval)(&o.CommandTimeout), "command-timeout", "`time` to wait for a command, or for more of a message")
	f.Var((*units.Interval)(&o.DataTimeout), "data-timeout", "`time` for a message, plus a second for each kilobyte")
	f.Var((*units.Interval)(&o.SessionTimeout), "session-timeout", "`time` that a session may last without a message")
	return f
}

// maxRate bounds the number of recipients in a rate.
const maxRate = 1_000_000

func rateFlag(rate *smtpserver.Rate) func(string) error {
	return func(text string) error {
		number, span, _ := strings.Cut(text, "/")
		n, err := strconv.Atoi(number)
		d, e := units.ParseInterval(span)
		if errors.Join(err, e) != nil || n < 1 || n > maxRate || d < time.Second {
			return fmt.Errorf("%q is not a number of recipients, up to %d, and a time, such as 500/1h", text, maxRate)
		}
		*rate = smtpserver.Rate{Number: n, Per: d}
		return nil
	}
}

// checkDomain returns an error if a text cannot be the name of a domain or host.
func checkDomain(text string) error {
	for label := range strings.SplitSeq(text, ".") {
		if label == "" || strings.ContainsAny(label, "*?@/:[]<>, \t") || strings.Trim(label, "-") != label {
			return errors.New("is not a domain such as example.org")
		}
	}
	return nil
}

func prefixes(list *[]netip.Prefix) func(string) error {
	return func(text string) error {
		prefix, err := netip.ParsePrefix(text)
		if addr, e := netip.ParseAddr(text); e == nil {
			prefix, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil {
			return errors.New("is not a network such as 192.0.2.0/24 or 2001:db8::/32")
		}
		*list = append(*list, prefix)
		return nil
	}
}

// repeatable are the options that may be given more than once.
var repeatable = []string{"listen", "domain", "network"}

// readFile reads the configuration file: a line has the name of an option and its
// value. The command line overrides the file, except that an option that can be
// repeated has the values of both. Any other stands once in the file. Without option -f the file may
// be missing.
func (o *options) readFile(flags *pflag.FlagSet, share string) error {
	path := o.config
	if path == "" {
		path = filepath.Join(share, "smtpserver.cf")
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && o.config == "" {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	given := make(map[string]bool)
	flags.Visit(func(f *pflag.Flag) { given[f.Name] = !slices.Contains(repeatable, f.Name) })
	lines := make(map[string]int) // where the options were
	for i, line := range strings.Split(string(data), "\n") {
		line, _, _ = strings.Cut(line, "#")
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "" || given[name] {
			continue
		}
		flag := flags.Lookup(name)
		if flag == nil || flag.Shorthand != "" && name != "listen" {
			return fmt.Errorf("%s:%d: no option %q", path, i+1, name)
		}
		if lines[name] > 0 && !slices.Contains(repeatable, name) {
			return fmt.Errorf("%s:%d: option %q is also in line %d", path, i+1, name, lines[name])
		}
		lines[name] = i + 1
		value = strings.TrimSpace(value)
		if on, err := units.ParseYesNo(value); err == nil && flag.Value.Type() == "bool" {
			value = strconv.FormatBool(on)
		}
		if err := flags.Set(name, value); err != nil {
			return fmt.Errorf("%s:%d: %w", path, i+1, command.Plain(err))
		}
	}
	return nil
}

// server returns the options of the server, completed from zmailer.conf.
func (o *options) server(env *zenv.File) (smtpserver.Options, error) {
	s := o.Options
	if s.Hostname = cmp.Or(s.Hostname, env.Value("HOSTNAME")); s.Hostname == "" {
		name, err := os.Hostname()
		if err != nil {
			return s, err
		}
		s.Hostname = name
	}
	limit, err := env.RouterMaxSize()
	if err != nil {
		return s, err
	}
	if limit > 0 {
		s.MaxSize = min(s.MaxSize, limit) // the router takes no larger message
	}
	if len(s.Domains) == 0 {
		s.Domains = []string{strings.ToLower(s.Hostname)}
	}
	if len(o.listen) == 0 {
		o.listen = []address{{"127.0.0.1:25", listen.Address{Network: "tcp", Address: "127.0.0.1:25"}, smtpserver.SMTP}}
	}
	for _, n := range []int{s.MaxRecipients, s.MaxSessions, s.MaxFromAddress, s.MaxErrors} {
		if n < 1 {
			return s, fmt.Errorf("a limit is %d, but has to be at least 1", n)
		}
	}
	for _, d := range []time.Duration{s.CommandTimeout, s.DataTimeout, s.SessionTimeout} {
		if d < time.Second {
			return s, fmt.Errorf("a timeout is %v, but has to be at least 1s", d)
		}
	}
	share := env.Value("MAILSHARE")
	s.Passwords = absolute(share, s.Passwords)
	s.Router = queue.Router{Postoffice: env.Value("POSTOFFICE"), Levels: env.RouterLevels(), Notify: env.Value("ROUTERNOTIFY")}
	s.NotifySock = env.Value("SCHEDULERNOTIFY")
	for _, a := range o.listen {
		switch p := a.protocol; {
		case o.certificate == "" && (p.TLS || p.RequireAuth):
			return s, fmt.Errorf("address %s needs TLS, and there is no certificate", a.text)
		case s.Passwords == "" && p.RequireAuth:
			return s, fmt.Errorf("address %s needs AUTH, and there are no passwords", a.text)
		}
	}
	if o.certificate == "" {
		return s, nil
	}
	s.TLS, err = smtpserver.TLSConfig(o.certificateFiles(share))
	return s, err
}

// certificateFiles returns the files of the certificate and of its key, whose names may be
// relative to MAILSHARE.
func (o *options) certificateFiles(share string) (certificate, key string) {
	return absolute(share, o.certificate), absolute(share, cmp.Or(o.key, o.certificate))
}
