package main

// Options: ZMailer's, which list the queue, and those of subcommands.

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"zsched/internal/units"
	"zsched/mailq"
)

// options is what the command line says.
type options struct {
	// The server and the user.
	prefer         int    // address family to try first: 0, 4 or 6
	server         string // a host
	address        string // -p
	user, password string
	userGiven      bool // -U
	zenv           string
	timeout        time.Duration
	debug          bool

	// ZMailer's list.
	thread          threadFilter // -c and -h
	owner           *int         // -i and -u
	queue           int          // how many -Q
	status, summary int
	verbose         int
	version         bool

	// Subcommands.
	sort     string // a key of sortKeys or mailq.SenderSorts; "": the order of the server
	limit    int    // messages, threads or senders that are listed; 0: all
	json     bool
	domains  bool // senders by domain
	every    time.Duration
	eventLog string
	order    mailq.Order // without a target
	targets  targets
	yes      bool
	drains   bool // mailq drain
}

// listFlags are the options of ZMailer's mailq about what is shown. The usage of
// a flag that is counted begins with two back quotes, so that help shows no value.
func (o *options) listFlags(f *pflag.FlagSet) {
	f.StringVarP(&o.thread.channel, "channel", "c", "", "show this `channel` only; with -h the default is smtp")
	f.StringVarP(&o.thread.host, "host", "h", "", "show the thread of this `host` only")
	f.BoolFuncP("mine", "i", "show only messages that you sent", flagAction(func() { o.setOwner(os.Getuid()) }))
	f.FuncP("user", "u", "show only messages that this `user` sent", o.setUser)
	o.verboseFlag(f)
	f.BoolFuncP("terse", "t", "undo -v", flagAction(func() { o.verbose = 0 }))
	f.CountVarP(&o.summary, "summary", "S", "``show the number of messages and bytes of each thread; twice: only messages")
	f.CountVarP(&o.queue, "queue", "Q", "``show threads; twice: rings; three times: totals; four times: counters")
	f.BoolFuncP("counters", "M", "show counters, as -QQQQ", flagAction(func() { o.queue = 4 }))
	f.CountVarP(&o.status, "status", "s", "``show the state of router and scheduler first; twice: nothing else")
	f.StringP("expand", "E", "", "ignored")
	_ = f.MarkHidden("expand")
	f.BoolVarP(&o.version, "version", "V", false, "print the version and exit")
}

func (o *options) verboseFlag(f *pflag.FlagSet) {
	f.CountVarP(&o.verbose, "verbose", "v", "``show Message-Id, sender, recipients and diagnostics; twice: more")
}

// serverFlags are the options about the server and the user. Every subcommand has them.
func (o *options) serverFlags(f *pflag.FlagSet) {
	o.user, o.password, o.timeout = "nobody", "nobody", 2*time.Minute
	f.StringVar(&o.server, "server", "", "ask the scheduler of this `host`")
	f.StringVarP(&o.address, "port", "p", "", "`port`, TCP service, or /path of a UNIX socket")
	f.BoolFuncP("ipv4", "4", "try IPv4 addresses first", flagAction(func() { o.prefer = 4 }))
	f.BoolFuncP("ipv6", "6", "try IPv6 addresses first (the default)", flagAction(func() { o.prefer = 6 }))
	f.FuncP("login", "U", "log in with this `user/password` (default nobody/nobody)", o.setLogin)
	f.Func("password-file", "read the password from the first line of this `file`", o.readPassword)
	spanFlag(f, &o.timeout, "timeout", "longest `time` that the server may be silent (default 2m)")
	f.StringVarP(&o.zenv, "zmailer-conf", "Z", "", "read this zmailer.conf `file` (default /opt/mail/zmailer.conf)")
	f.BoolVarP(&o.debug, "debug", "d", false, "print every line from the server on standard error")
	f.Bool("help", false, "print this help")
}

func (o *options) jsonFlag(f *pflag.FlagSet) {
	f.BoolVar(&o.json, "json", false, "print JSON, one object a line")
}

func (o *options) limitFlag(f *pflag.FlagSet, what string) {
	f.Func("limit", "list at most this `number` of "+what, func(s string) (err error) {
		if o.limit, err = strconv.Atoi(s); err != nil || o.limit < 1 {
			return errors.New("a number above zero is needed")
		}
		return nil
	})
}

// forFlag is the option of holds and suspensions.
func (o *options) forFlag(f *pflag.FlagSet) {
	spanFlag(f, &o.order.For, "for", "end it after this `time`, such as 2h or 1d12h")
}

func (o *options) eventLogFlag(f *pflag.FlagSet) {
	f.StringVar(&o.eventLog, "event-log", "", "read this `file` instead of that of PARAMevent-log")
}

// orderFlags are the options of all orders.
func (o *options) orderFlags(f *pflag.FlagSet) {
	f.StringVar(&o.order.Why, "because", "", "give this `text` as the reason; it is logged and listed")
	f.BoolVar(&o.order.DryRun, "dry-run", false, "only count what the order would do")
	f.BoolVar(&o.yes, "yes", false, "give the order even if it affects more than a hundred messages")
	o.jsonFlag(f)
}

// spanFlag is an option whose value is a time above zero.
func spanFlag(f *pflag.FlagSet, span *time.Duration, name, usage string) {
	f.Func(name, usage, func(s string) error {
		d, err := units.ParseInterval(s)
		if err == nil && d == 0 {
			err = errors.New("it must be more than zero")
		}
		*span = d
		return err
	})
}

// flagAction is the action of an option without a value. "=false" means that the
// option is not given.
func flagAction(do func()) func(string) error {
	return func(value string) error {
		yes, err := strconv.ParseBool(value)
		if yes {
			do()
		}
		return err
	}
}

func (o *options) setOwner(uid int) {
	o.owner = &uid
	o.verbose = max(o.verbose, 1)
}

func (o *options) setUser(name string) error {
	u, err := user.Lookup(name)
	if err != nil {
		return fmt.Errorf("unknown user '%s': -u takes a local login; mailq list sender=... takes an address", name)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return err
	}
	o.setOwner(uid)
	return nil
}

// setLogin splits user and password at the first "/", or at the first ":" if there
// is no "/", or else at the first ",".
func (o *options) setLogin(s string) error {
	o.userGiven = true
	for _, separator := range []string{"/", ":", ","} {
		if name, password, ok := strings.Cut(s, separator); ok {
			o.user, o.password = name, password
			return nil
		}
	}
	o.user = s
	return nil
}

func (o *options) readPassword(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	o.password, _, _ = strings.Cut(string(text), "\n")
	return nil
}

// replaced has the long options of version 0.9, and what is given instead.
var replaced = map[string]string{
	"all": "mailq drain NODE", "domains": "mailq senders --domains", "find": "mailq find KIND=VALUE",
	"json": "mailq list --json, or a report with it", "limit": "mailq list --limit, or a report with it",
	"move": "mailq move --to NODE TARGET, or mailq drain NODE", "msg": "the message as an argument: mailq kill S860194HfBVWBh",
	"reroute": "mailq reroute --to CHANNEL/HOST TARGET", "sender-domains": "mailq senders --domains",
	"sort": "mailq list --sort, or a report with it", "thread": "the thread as an argument: mailq hold smtp/example.com",
	"where": "the condition as an argument: mailq list older=1d", "zenv": "--zmailer-conf", "config": "--zmailer-conf",
	"because": "an order with it: mailq hold smtp/example.com --because TEXT", "dry-run": "an order with it: mailq kill older=3d --dry-run",
	"yes": "an order with it: mailq kill older=3d --yes", "for": "mailq hold TARGET --for TIME", "to": "mailq move --to NODE TARGET",
	"every": "mailq top --every TIME", "event-log": "mailq trace ID --event-log FILE",
	"show": "mailq show ID", "explain": "mailq explain CHANNEL/HOST", "trace": "mailq trace ID", "etrn": "mailq etrn HOST",
	"hold": "mailq hold TARGET", "release": "mailq release TARGET", "retry": "mailq retry TARGET", "kill": "mailq kill TARGET",
	"expire": "mailq expire TARGET", "requeue": "mailq requeue TARGET", "suspend": "mailq suspend CHANNEL/HOST", "lift": "mailq lift CHANNEL/HOST",
	"held": "mailq held", "suspended": "mailq suspended", "rules": "mailq rules", "cluster": "mailq cluster", "shape": "mailq shape",
	"reasons": "mailq reasons", "senders": "mailq senders", "verbs": "mailq verbs", "top": "mailq top",
}

// flagError names the subcommand that replaces an option of version 0.9.
func flagError(err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		if instead := replaced[unknown.GetSpecifiedName()]; instead != "" {
			return usageError(fmt.Sprintf("--%s is not an option here; give %s", unknown.GetSpecifiedName(), instead))
		}
	}
	return usageError(err.Error())
}
