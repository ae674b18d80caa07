package main

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"zsched/mailq"
)

const usageLine = `usage: mailq [-46disSQtvVM] [-c channel] [-h host] [-p port|socket] [-u user]
             [-U user/password] [-Z file] [server]
       mailq --top [--every time] [server]
       mailq --show id | --find kind=value | --explain channel/host |
             --shape | --reasons | --etrn host | --verbs   [--json]
       mailq --hold | --release | --retry | --kill | --expire | --requeue |
             --reroute channel/host
             --msg id | --thread channel/host | --where key=value
             [--dry-run] [--because text]
`

// options are the command line.
type options struct {
	prefer          int // address family
	channel, host   string
	debug           bool
	owner           *int // of -i and -u
	at              string
	queue           int
	status, summary int
	verbose         int
	name, password  string
	named           bool // by -U
	version         bool
	zenv            string
	server          string

	report string // a command of the protocol that is shown as it comes
	finds  bool   // and may find nothing
	etrn   string
	order  mailq.Order
	acting []string // verbs given
	msgs   []string
	thread []string
	where  []string
	json   bool
	top    bool
	every  time.Duration
	wait   time.Duration
}

func parseOptions(args []string) (*options, error) {
	o := new(options)
	flags := newFlags(o)
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	switch rest := flags.Args(); len(rest) {
	case 0:
	case 1:
		o.server = rest[0]
	default:
		return nil, errors.New("too many hosts")
	}
	return o, o.check()
}

func newFlags(o *options) *pflag.FlagSet {
	f := pflag.NewFlagSet("mailq", pflag.ContinueOnError)
	f.SortFlags = false
	f.Usage = func() {}
	o.name, o.password = "nobody", "nobody"
	o.oldFlags(f)
	o.reportFlags(f)
	o.orderFlags(f)
	f.BoolVar(&o.top, "top", false, "watch the threads on a full screen")
	f.DurationVar(&o.every, "every", 5*time.Second, "how often --top asks")
	f.BoolVar(&o.json, "json", false, "one JSON object a line")
	f.DurationVar(&o.wait, "timeout", 2*time.Minute, "how long the server may be silent; 0: for ever")
	f.BoolVarP(&o.version, "version", "V", false, "print the version and exit")
	return f
}

// oldFlags are those of ZMailer's mailq.
func (o *options) oldFlags(f *pflag.FlagSet) {
	f.BoolFuncP("ipv4", "4", "try IPv4 before IPv6", when(func() { o.prefer = 4 }))
	f.BoolFuncP("ipv6", "6", "try IPv6 before IPv4 (default)", when(func() { o.prefer = 6 }))
	f.StringVarP(&o.channel, "channel", "c", "", "with -h: the `channel` of the one thread shown (default smtp)")
	f.StringVarP(&o.host, "host", "h", "", "show the thread of this `host` only")
	f.BoolVarP(&o.debug, "debug", "d", false, "show on standard error what the server sends")
	f.StringP("expand", "E", "", "ignored")
	_ = f.MarkHidden("expand")
	f.BoolFuncP("mine", "i", "show only messages that you sent", when(func() { o.setOwner(os.Getuid()) }))
	f.BoolFuncP("counters", "M", "show the counters, as -QQQQ", when(func() { o.queue = 4 }))
	f.StringVarP(&o.at, "port", "p", "", "`port`, service, /path or UNIX:/path of a socket")
	f.CountVarP(&o.queue, "queue", "Q", "show threads; twice: rings; three times: totals; four: counters")
	f.CountVarP(&o.status, "status", "s", "state of router and scheduler first; twice: nothing else")
	f.CountVarP(&o.summary, "summary", "S", "count messages and bytes; twice: only messages")
	f.BoolFuncP("terse", "t", "not verbose", when(func() { o.verbose = 0 }))
	f.FuncP("user", "u", "show only messages that this user sent", o.setUser)
	f.FuncP("login", "U", "user/password for the server (default nobody/nobody)", o.setLogin)
	f.Func("password-file", "file whose first line is the password", o.readPassword)
	f.CountVarP(&o.verbose, "verbose", "v", "identity, sender, recipients and diagnostics; twice: more")
	f.StringVarP(&o.zenv, "zenv", "Z", "", "zmailer.conf to read (default /opt/mail/zmailer.conf)")
}

func (o *options) reportFlags(f *pflag.FlagSet) {
	report := func(command string) { o.report, o.acting = command, append(o.acting, "a report") }
	f.Func("show", "one message: its spoolid or number", func(id string) error {
		report("SHOW MSG " + mailq.Quote(id))
		return nil
	})
	f.Func("find", "messages: recipient=, sender=, message-id= or spoolid=", func(s string) error {
		kind, value, ok := strings.Cut(s, "=")
		if !ok || value == "" {
			return fmt.Errorf("%q is not kind=value", s)
		}
		if kinds := []string{"recipient", "sender", "message-id", "spoolid"}; !slices.Contains(kinds, kind) {
			return fmt.Errorf("unknown kind %q; there are %s", kind, strings.Join(kinds, ", "))
		}
		o.finds = true
		report("FIND " + kind + " " + mailq.Quote(value))
		return nil
	})
	f.Func("explain", "what the mail for channel/host waits for", func(s string) error {
		name, err := parseName(s)
		report("EXPLAIN " + quoteName(name))
		return err
	})
	for _, simple := range []struct{ flag, command, usage string }{
		{"shape", "SHOW SHAPE", "recipients by destination and age"},
		{"reasons", "SHOW REASONS", "last diagnostics and how many have them"},
		{"verbs", "HELP", "what the server lets you do"},
	} {
		f.BoolFunc(simple.flag, simple.usage, when(func() { report(simple.command) }))
	}
	f.StringVar(&o.etrn, "etrn", "", "start the mail for this `host` now")
}

func (o *options) orderFlags(f *pflag.FlagSet) {
	for _, act := range []struct {
		verb  mailq.Verb
		usage string
	}{
		{mailq.Hold, "keep mail back"},
		{mailq.Release, "let held mail go"},
		{mailq.Retry, "make mail due now"},
		{mailq.Kill, "drop mail without a notice"},
		{mailq.Expire, "give mail back to its sender"},
		{mailq.Requeue, "route messages anew"},
	} {
		f.BoolFunc(strings.ToLower(string(act.verb)), act.usage, when(func() {
			o.order.Verb, o.acting = act.verb, append(o.acting, string(act.verb))
		}))
	}
	f.Func("reroute", "move mail to channel/host", func(s string) (err error) {
		o.order.Verb, o.acting = mailq.Reroute, append(o.acting, string(mailq.Reroute))
		o.order.To, err = parseName(s)
		return err
	})
	f.StringArrayVar(&o.msgs, "msg", nil, "act on the message with this spoolid or number")
	f.StringArrayVar(&o.thread, "thread", nil, "act on the thread `channel/host`")
	f.StringArrayVar(&o.where, "where", nil, "act on what fits `key=value`: channel, host, sender, reason, older, younger")
	f.BoolVar(&o.order.DryRun, "dry-run", false, "only count")
	f.StringVar(&o.order.Why, "because", "", "`text` for the scheduler's log")
}

// when is the action of an option without a value; "=false" is as if it were
// not there.
func when(do func()) func(string) error {
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
		return fmt.Errorf("unknown user '%s'", name)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return err
	}
	o.setOwner(uid)
	return nil
}

// setLogin takes user and password apart at the first "/", where there is none
// at the first ":", else at the first ",".
func (o *options) setLogin(s string) error {
	o.named = true
	for _, separator := range []string{"/", ":", ","} {
		if name, password, ok := strings.Cut(s, separator); ok {
			o.name, o.password = name, password
			return nil
		}
	}
	o.name = s
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

func parseName(s string) (mailq.Name, error) {
	channel, host, ok := strings.Cut(s, "/")
	if !ok || channel == "" || host == "" {
		return mailq.Name{}, fmt.Errorf("%q is not channel/host", s)
	}
	return mailq.Name{Channel: channel, Host: host}, nil
}

func quoteName(name mailq.Name) string {
	return mailq.Quote(name.Channel) + " " + mailq.Quote(name.Host)
}

// check finds options that make no sense together.
func (o *options) check() error {
	if o.etrn != "" {
		o.acting = append(o.acting, "--etrn")
	}
	if o.top {
		o.acting = append(o.acting, "--top")
	}
	about := len(o.msgs) + len(o.thread) + len(o.where)
	switch {
	case len(o.acting) > 1:
		return errors.New("one thing at a time: more than one report or verb is asked for")
	case o.order.Verb == "" && (about > 0 || o.order.DryRun || o.order.Why != ""):
		return errors.New("--msg, --thread, --where, --dry-run and --because need a verb, such as --hold")
	case o.order.Verb != "" && about == 0:
		return fmt.Errorf("%s what? --msg, --thread or --where says it", o.order.Verb)
	case o.order.Verb == mailq.Requeue && len(o.thread) > 0:
		return errors.New("--requeue is for messages: --msg or --where")
	case o.queue > 4:
		return errors.New("-Q may be given four times at most")
	case o.every < 100*time.Millisecond:
		return errors.New("--every must be 100ms or more")
	case o.wait < 0:
		return errors.New("--timeout must not be negative")
	}
	return nil
}

// orders are those that the command line gives, one for each thing named and
// one for the selection.
func (o *options) orders() ([]mailq.Order, error) {
	var orders []mailq.Order
	for _, id := range o.msgs {
		order := o.order
		order.Message = id
		orders = append(orders, order)
	}
	for _, s := range o.thread {
		name, err := parseName(s)
		if err != nil {
			return nil, err
		}
		order := o.order
		order.Thread = &name
		orders = append(orders, order)
	}
	if len(o.where) == 0 {
		return orders, nil
	}
	// In a shell the blanks of a value are quoted by other means.
	var words []string
	for _, s := range o.where {
		key, value, _ := strings.Cut(s, "=")
		words = append(words, key+"="+mailq.Quote(value))
	}
	selection, err := mailq.ParseSelection(strings.Join(words, " "))
	if err != nil {
		return nil, fmt.Errorf("--where: %w", err)
	}
	order := o.order
	order.Where = &selection
	return append(orders, order), nil
}
