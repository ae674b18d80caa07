package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"zsched/scheduler/config"
	"zsched/ta"
	"zsched/ta/mailbox"
)

// options are the command line and what the ZENV file adds to it.
type options struct {
	mailbox.Options
	version bool
	legacy  []string // options without effect, and why
}

// legacyFlags were options of old.
var legacyFlags = []struct{ letter, name, instead string }{
	{"b", "no-biff", "is without effect: nobody is told by biff"},
	{"M", "mmdf", "is without effect: there are no MMDF folders any more"},
	{"r", "no-rbiff", "is without effect: nobody is told by biff"},
	{"R", "old-R", "is without effect"},
	{"S", "return-receipts", "is without effect: receipts are asked for by NOTIFY=SUCCESS"},
	{"U", "xuidl", "is without effect: no X-UIDL header is written"},
	{"X", "crc-levels", "is without effect: -d with %X in a pattern does that"},
}

func flags(server *ta.Server, o *options) (set *pflag.FlagSet, check func() error) {
	var keep8bit bool
	var fatal, marking string
	set = pflag.NewFlagSet("mailbox", pflag.ContinueOnError)
	set.BoolVarP(&o.Decode, "decode", "8", false, "make 8-bit text of quoted-printable text")
	set.BoolVarP(&o.TouchAccess, "touch", "a", false, "do not keep the access time of mbox files")
	set.StringVarP(&server.Channel, "channel", "c", "local", "take recipients of this `channel`")
	set.BoolVarP(&o.Place.Canonical, "canonical", "C", false, "spell users as the password file does")
	set.StringVarP(&o.Place.Path, "directory", "d", "", "`path` of the directory of mbox files, or pattern of mailboxes")
	set.CountVarP(&o.Place.Letters, "letter-levels", "D", "a level of directories by the letters of the name; may be repeated")
	set.StringVarP(&fatal, "fatal", "F", "", "`error` that is final: edquot")
	set.StringVarP(&server.Host, "host", "h", "", "take recipients with this `localpart` as their host")
	set.BoolVarP(&keep8bit, "keep-headers", "H", false, "leave 8-bit headers as they are, which is always so")
	set.StringVarP(&o.Log, "log", "l", "", "`file` that gets a line for each delivery")
	set.CountVarP(&o.Place.Hashes, "hash-levels", "P", "a level of directories by a hash of the name; may be repeated")
	set.BoolVarP(&o.version, "version", "V", false, "say what this is, and leave")
	set.StringVar(&marking, "marking", "agent", "who marks recipients: agent or scheduler, as in the clause")
	set.IntVar(&server.Sessions, "sessions", 1, "job lines worked on at once, as in the clause")
	set.DurationVar(&o.LockWait, "lock-wait", 30*time.Second, "`time` to wait for a mailbox that others have locked")
	set.DurationVar(&o.TimeLimit, "time-limit", 15*time.Minute, "`time` that a command may take")
	set.StringVar(&o.RootAs, "root-as", "", "`user` for commands and files of privilege 0, instead of root")
	counts := make([]int, len(legacyFlags))
	for i, l := range legacyFlags {
		set.CountVarP(&counts[i], l.name, l.letter, l.instead)
	}
	return set, func() (err error) {
		for i, l := range legacyFlags {
			if counts[i] > 0 {
				o.legacy = append(o.legacy, "-"+l.letter+" "+l.instead)
			}
		}
		o.FatalQuota = strings.EqualFold(fatal, "edquot")
		if fatal != "" && !o.FatalQuota {
			return fmt.Errorf("-F %q: the only error that can be made final is edquot", fatal)
		}
		if o.TimeLimit <= 0 || o.LockWait < 0 {
			return fmt.Errorf("time limits of %v and %v", o.TimeLimit, o.LockWait)
		}
		server.Marking, err = ta.ParseMarking(marking)
		return err
	}
}

func parse(server *ta.Server, args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	set, check := flags(server, o)
	set.SetOutput(stderr)
	if err := set.Parse(args); err != nil {
		return o, err
	}
	if set.NArg() > 1 {
		return o, fmt.Errorf("one host at most, not %q", set.Args())
	}
	if set.NArg() == 1 {
		server.Host = set.Arg(0)
	}
	return o, check()
}

// furnish takes from the ZENV file what the command line did not say, and what
// commands are to know of it.
func furnish(o *mailbox.Options, zenv *config.Zenv) {
	if o.Place.Path == "" {
		o.Place.Path, _ = zenv.Get("MAILBOX")
	}
	o.Domain, _ = zenv.Get("ORGDOMAIN")
	path, _ := zenv.Get("PATH")
	if path == "" {
		path = "/usr/bin:/bin"
	}
	share, _ := zenv.Get("MAILSHARE")
	bin, set := zenv.Get("MAILBIN")
	if !set && filepath.IsAbs(os.Args[0]) {
		bin = filepath.Dir(filepath.Dir(os.Args[0])) // of MAILBIN/ta/mailbox
	}
	o.Environ = []string{"PATH=" + path, "MAILSHARE=" + share, "MAILBIN=" + bin}
	for _, name := range []string{"ZCONFIG", "TZ"} {
		if value, ok := os.LookupEnv(name); ok {
			o.Environ = append(o.Environ, name+"="+value)
		}
	}
}
