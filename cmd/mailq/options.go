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
             [-U user/password] [-Z file] [--json]
             [--sort size|age|rate|next] [--limit number]
             [--where key=value] [server]
       mailq --top [--every time] [server]
       mailq --show id | --find kind=value [--limit number] | --explain channel/host |
             --held | --suspended | --rules | --cluster | --shape | --reasons | --etrn host |
             --verbs   [--json]
       mailq --senders | --sender-domains [--sort size|age|bytes|recipients]
             [--limit number] [--json]
       mailq --trace message|address [--event-log file] [--json]
       mailq --hold | --release | --retry | --kill | --expire | --requeue |
             --reroute channel/host
             [--msg id] [--thread channel/host] [--where key=value]
             [--for time] [--dry-run] [--yes] [--because text]
       mailq --suspend channel/host [--for time] [--because text] [--dry-run]
       mailq --lift channel/host [--because text] [--dry-run]
       mailq --move --to node --all | [--msg id] [--thread channel/host]
             [--where key=value] [--dry-run] [--yes] [--because text]
`

// options are the options of the command line.
type options struct {
	prefer          int          // address family to try first: 0, 4 or 6
	thread          threadFilter // -c and -h
	debug           bool
	owner           *int // -i and -u
	address         string
	queue           int // how many -Q
	status, summary int
	verbose         int
	user, password  string
	userGiven       bool // -U
	version         bool
	sort            string // a key of sortKeys; "": the order of the server
	limit           int    // messages or threads that are listed; 0: all
	zenv            string
	server          string

	report         string // the command of a report
	mayFindNothing bool   // the report is a search
	etrn           string
	trace          string // a message or an address
	eventLog       string
	order          mailq.Order // without a target
	to             string      // the node of --move
	all            bool        // --move --all
	chosen         []string    // reports and verbs given; more than one is an error
	yes            bool
	messages       []string
	threads        []string
	subjects       []string // what --suspend and --lift name; --thread cannot be added to them
	where          []string
	json           bool
	top            bool
	every          time.Duration
	timeout        time.Duration
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
	o.user, o.password = "nobody", "nobody"
	o.listFlags(f)
	o.serverFlags(f)
	o.reportFlags(f)
	o.orderFlags(f)
	f.BoolVar(&o.top, "top", false, "show a live view of the queue")
	f.DurationVar(&o.every, "every", 5*time.Second, "`time` between two updates of --top")
	f.BoolVar(&o.json, "json", false, "print JSON, one object a line")
	f.BoolVarP(&o.version, "version", "V", false, "print the version and exit")
	return f
}

// listFlags are the options of ZMailer's mailq about what is shown. The usage of
// a flag that is counted begins with two back quotes, so that --help shows no
// value.
func (o *options) listFlags(f *pflag.FlagSet) {
	f.StringVarP(&o.thread.channel, "channel", "c", "", "show this `channel` only; with -h the default is smtp")
	f.StringVarP(&o.thread.host, "host", "h", "", "show the thread of this `host` only")
	f.BoolFuncP("mine", "i", "show only messages that you sent", flagAction(func() { o.setOwner(os.Getuid()) }))
	f.FuncP("user", "u", "show only messages that this `user` sent", o.setUser)
	f.CountVarP(&o.verbose, "verbose", "v", "``show Message-Id, sender, recipients and diagnostics; twice: more")
	f.BoolFuncP("terse", "t", "undo -v", flagAction(func() { o.verbose = 0 }))
	f.CountVarP(&o.summary, "summary", "S", "``show the number of messages and bytes of each thread; twice: only messages")
	f.CountVarP(&o.queue, "queue", "Q", "``show threads; twice: rings; three times: totals; four times: counters")
	f.BoolFuncP("counters", "M", "show counters, as -QQQQ", flagAction(func() { o.queue = 4 }))
	f.Func("sort", "sort threads by `size|age|rate|next`: messages, oldest message, deliveries a minute, next attempt; senders by size, age, bytes or recipients", o.setSort)
	f.IntVar(&o.limit, "limit", 0, "list at most this `number` of messages, of threads (with -Q) or of senders")
	f.CountVarP(&o.status, "status", "s", "``show the state of router and scheduler first; twice: nothing else")
	f.StringP("expand", "E", "", "ignored")
	_ = f.MarkHidden("expand")
}

// serverFlags are the options about the server and the user.
func (o *options) serverFlags(f *pflag.FlagSet) {
	f.BoolFuncP("ipv4", "4", "try IPv4 addresses first", flagAction(func() { o.prefer = 4 }))
	f.BoolFuncP("ipv6", "6", "try IPv6 addresses first (the default)", flagAction(func() { o.prefer = 6 }))
	f.StringVarP(&o.address, "port", "p", "", "`port`, TCP service, or /path of a UNIX socket")
	f.FuncP("login", "U", "log in with this `user/password` (default nobody/nobody)", o.setLogin)
	f.Func("password-file", "read the password from the first line of this `file`", o.readPassword)
	f.DurationVar(&o.timeout, "timeout", 2*time.Minute, "longest `time` that the server may be silent; 0: no limit")
	f.StringVarP(&o.zenv, "zenv", "Z", "", "read this zmailer.conf `file` (default /opt/mail/zmailer.conf)")
	f.BoolVarP(&o.debug, "debug", "d", false, "print every line from the server on standard error")
}

func (o *options) reportFlags(f *pflag.FlagSet) {
	report := func(flag, command string) { o.report, o.chosen = command, append(o.chosen, flag) }
	f.Func("show", "show the message with this `id`: its spoolid or number", func(id string) error {
		report("--show", mailq.ShowMessage(id))
		return nil
	})
	f.Func("find", "show messages that match `kind=value`: recipient, sender, message-id or spoolid", func(s string) error {
		kind, value, ok := strings.Cut(s, "=")
		if !ok || value == "" {
			return fmt.Errorf("%q is not kind=value", s)
		}
		if kinds := []string{"recipient", "sender", "message-id", "spoolid"}; !slices.Contains(kinds, kind) {
			return fmt.Errorf("unknown kind %q; the kinds are %s", kind, strings.Join(kinds, ", "))
		}
		o.mayFindNothing = true
		report("--find", "FIND "+kind+" "+mailq.Quote(value))
		return nil
	})
	f.Func("explain", "say what the mail for `channel/host` waits for", func(s string) error {
		name, err := mailq.ParseName(s)
		report("--explain", mailq.Explain(name))
		return err
	})
	for _, simple := range []struct{ flag, command, usage string }{
		{"held", "SHOW HELD", "show what is held: by whom, since when, why and until when"},
		{"suspended", "SHOW SUSPENDED", "show the threads that --suspend suspends: by whom, since when, why and until when"},
		{"rules", "SHOW RULES", "show the reply rules and how often they have matched"},
		{"cluster", "SHOW CLUSTER", "show the nodes of the cluster, their shares of each limit, and the store"},
		{"shape", "SHOW SHAPE", "show recipients by destination and age"},
		{"reasons", "SHOW REASONS", "show the last diagnostics and how many recipients have them"},
		{"senders", "SHOW SENDERS", "show messages, recipients, bytes and ages by sender"},
		{"sender-domains", "SHOW SENDERS DOMAINS", "show the same by the domain of the sender"},
		{"verbs", "HELP", "show the commands of the protocol that you may use"},
	} {
		f.BoolFunc(simple.flag, simple.usage, flagAction(func() { report("--"+simple.flag, simple.command) }))
	}
	f.Func("trace", "print what happened to a message, named by spoolid, Message-Id or file, or to all mail of an `address`", func(what string) error {
		if what == "" {
			return errors.New("a message or an address is needed")
		}
		o.trace, o.chosen = what, append(o.chosen, "--trace")
		return nil
	})
	f.StringVar(&o.eventLog, "event-log", "", "with --trace and --top: read this `file` instead of that of PARAMevent-log")
	f.StringVar(&o.etrn, "etrn", "", "start delivery of the mail for this `host` now")
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
		{mailq.Expire, "return mail to its senders"},
		{mailq.Requeue, "give messages back to the router"},
	} {
		flag := strings.ToLower(string(act.verb))
		f.BoolFunc(flag, act.usage, flagAction(func() {
			o.order.Verb, o.chosen = act.verb, append(o.chosen, "--"+flag)
		}))
	}
	f.Func("reroute", "send mail to `channel/host` instead", func(s string) (err error) {
		o.order.Verb, o.chosen = mailq.Reroute, append(o.chosen, "--reroute")
		o.order.To, err = mailq.ParseName(s)
		return err
	})
	for _, act := range []struct {
		verb  mailq.Verb
		usage string
	}{
		{mailq.Suspend, "deliver nothing to `channel/host`; the mail expires as usual"},
		{mailq.Lift, "end what --suspend and reply rules do to `channel/host`"},
	} {
		flag := strings.ToLower(string(act.verb))
		f.Func(flag, act.usage, func(s string) error {
			o.order.Verb, o.chosen = act.verb, append(o.chosen, "--"+flag)
			o.subjects = append(o.subjects, s)
			return nil
		})
	}
	f.BoolFunc("move", "move mail to another node", flagAction(func() {
		o.order.Verb, o.chosen = mailq.Reroute, append(o.chosen, "--move")
	}))
	f.StringVar(&o.to, "to", "", "with --move: the `node` to which mail is moved")
	f.BoolVar(&o.all, "all", false, "with --move: move all mail, held mail too, and wait until it has arrived")
	f.StringArrayVar(&o.messages, "msg", nil, "apply the order to the message with this `id`; several are alternatives")
	f.StringArrayVar(&o.threads, "thread", nil, "apply the order to the thread `channel/host`; with --msg or --where, to what of it they select")
	f.StringArrayVar(&o.where, "where", nil, "apply the order to mail that matches `key=value`, or list it: thread, msg, channel, host, sender, recipient, message-id, state, reason, older, younger, larger, smaller")
	f.Func("for", "end the hold or suspension after this `time`, such as 2h or 1d12h", o.setFor)
	f.BoolVar(&o.yes, "yes", false, "give the order even if it affects more than a hundred messages")
	f.BoolVar(&o.order.DryRun, "dry-run", false, "only count what the order would do")
	f.StringVar(&o.order.Why, "because", "", "give this `text` as the reason in the scheduler's log")
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
		return fmt.Errorf("unknown user '%s': -u takes a local login; --where sender= takes an address", name)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return err
	}
	o.setOwner(uid)
	return nil
}

// setFor sets the time after which a hold ends.
func (o *options) setFor(s string) (err error) {
	o.order.For, err = mailq.ParseSpan("--for", s)
	return err
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
