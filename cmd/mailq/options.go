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
	"zsched/mailq/report"
)

// options is what the command line says.
type options struct {
	// ZMailer's list.
	thread  threadFilter // -c and -h
	owner   *int         // -i and -u
	queue   int          // how many -Q
	status  int          // how many -s
	summary bool
	verbose bool
	version bool

	// Subcommands.
	sort     string // the title of a column; "": the first order of the table
	limit    int    // messages, or rows of a table, that are listed; 0: all
	json     bool
	every    time.Duration
	eventLog string
	last     time.Duration // of trace; 0: any time
	order    mailq.Order   // without a target
	yes      bool
}

// listFlags are the options of ZMailer's mailq about what is shown. The usage of
// a flag that is counted begins with two back quotes, so that help shows no value.
func (o *options) listFlags(f *pflag.FlagSet) {
	f.StringVarP(&o.thread.channel, "channel", "c", "", "show this `channel` only; with -h the default is smtp")
	f.StringVarP(&o.thread.host, "host", "h", "", "show the thread of this `host` only")
	f.BoolFuncP("mine", "i", "show only messages that you sent", flagAction(func() { o.setOwner(os.Getuid()) }))
	f.FuncP("user", "u", "show only messages that this `user` sent", o.setUser)
	o.verboseFlag(f)
	f.BoolFuncP("terse", "t", "undo -v", flagAction(func() { o.verbose = false }))
	f.BoolVarP(&o.summary, "summary", "S", false, "show the number of messages of each thread")
	f.CountVarP(&o.queue, "queue", "Q", "``show threads; twice: rings; three times: totals; four times: counters")
	f.BoolFuncP("counters", "M", "show counters, as -QQQQ", flagAction(func() { o.queue = 4 }))
	f.CountVarP(&o.status, "status", "s", "``show the state of router and scheduler first; twice: nothing else")
	f.StringP("expand", "E", "", "ignored")
	_ = f.MarkHidden("expand")
	f.BoolVarP(&o.version, "version", "V", false, "print the version and exit")
}

func (o *options) verboseFlag(f *pflag.FlagSet) {
	f.BoolVarP(&o.verbose, "verbose", "v", false, "show Message-Id, sender, recipients and diagnostics")
}

func (o *options) jsonFlag(f *pflag.FlagSet) {
	f.BoolVar(&o.json, "json", false, "print JSON, one object a line")
}

func (o *options) limitFlag(f *pflag.FlagSet) {
	f.Func("limit", "list at most this `number` of messages or lines", func(s string) (err error) {
		if o.limit, err = strconv.Atoi(s); err != nil || o.limit < 1 {
			return errors.New("a number above zero is needed")
		}
		return nil
	})
}

// sortFlag returns the option that sorts a table.
func (o *options) sortFlag(table *report.Table) func(*pflag.FlagSet) {
	return func(f *pflag.FlagSet) {
		f.Func("sort", "sort by this `column`", func(title string) error {
			if _, found := table.Column(title); !found {
				return fmt.Errorf("%q is not one of %s", title, strings.Join(table.Titles(), ", "))
			}
			o.sort = title
			return nil
		})
	}
}

// forFlag is the option of a hold.
func (o *options) forFlag(f *pflag.FlagSet) {
	spanFlag(f, &o.order.For, "for", "end it after this `time`, such as 2h or 1d12h")
}

func (o *options) eventLogFlag(f *pflag.FlagSet) {
	f.StringVar(&o.eventLog, "event-log", "", "read this `file` instead of that of PARAMevent-log")
}

func (o *options) lastFlag(f *pflag.FlagSet) {
	spanFlag(f, &o.last, "last", "only what happened in the last `time`, such as 2h or 1d12h")
}

// orderFlags are the options of all orders.
func (o *options) orderFlags(f *pflag.FlagSet) {
	f.StringVar(&o.order.Because, "because", "", "give this `text` as the reason; it is logged and listed")
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
	o.verbose = true
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
