package main

// Options: the command line of scheduler(8).

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"zsched/scheduler/rule"
)

// options is the command line. It is read from left to right: the last of -d, -i
// and -v applies, and -W changes the -v before it.
type options struct {
	daemon       bool
	verbose      bool
	verboseLater bool // -W: from the end of the startup scan
	check        bool
	tryReply     string // with --check: a reply; the rules that match it are printed
	version      bool
	init         string // directory to make a postoffice in; "": none

	config, zenv, postoffice string // "": the default
	log, statistics          string // "": the default log, no statistics
	rendezvous               string // for the query dump of SIGUSR2
	queueMode                bool   // -Q: replies in version 1 list no messages
	mailqVersion             int    // 0: not given
	returnHeaders            bool   // -n: RET is HDRS unless the sender set it

	hashLevels  int
	frozen      bool
	synchronous bool
	only        rule.Selection
	agentFiles  uint64
	forkRate    int
}

const usageLine = `usage: scheduler [-divFHnQSVW] [-E new[,seconds]] [-f configfile] [-l statisticslog]
	[-L logfile] [-M 1|2] [-N files] [-P postoffice] [-p channel/host] [-q rendezvous]
	[-R forks] [-Z zenvfile] [--check [--try-reply text]]
       scheduler --init directory
`

func parseOptions(args []string) (*options, error) {
	o := new(options)
	flags := newFlags(o)
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected operand %q", flags.Arg(0))
	}
	return o, nil
}

func newFlags(o *options) *pflag.FlagSet {
	*o = options{daemon: true, agentFiles: 32, forkRate: 30}
	f := pflag.NewFlagSet("scheduler", pflag.ContinueOnError)
	f.SortFlags = false
	f.Usage = func() {}
	on := func(name, short, usage string, set func()) {
		f.BoolFuncP(name, short, usage, func(string) error { set(); return nil })
	}
	on("daemon", "d", "run as a daemon, even after -v", func() { o.daemon = true })
	on("interactive", "i", "do not detach", func() { o.daemon = false })
	on("verbose", "v", "log everything, and do not detach", func() { o.verbose, o.daemon = true, false })
	on("delay-verbose", "W", "after -v: only after the startup scan", func() {
		o.verbose, o.verboseLater = false, o.verbose || o.verboseLater
	})
	f.BoolVarP(&o.version, "version", "V", false, "print the version")
	f.BoolVar(&o.check, "check", false, "report what is wrong with the files of the installation, and exit")
	f.StringVar(&o.init, "init", "", "make a postoffice with a configuration in this empty `directory`, and exit")
	f.StringVar(&o.tryReply, "try-reply", "", "with --check: print the reply rules that match this `text` of a server")
	f.StringVarP(&o.config, "config", "f", "", "configuration `file` instead of MAILSHARE/scheduler.cf")
	f.StringVarP(&o.zenv, "zmailer-conf", "Z", "", "read this `zmailer.conf`")
	f.StringVarP(&o.postoffice, "postoffice", "P", "", "postoffice `directory`")
	f.StringVarP(&o.log, "log", "L", "", "log `file` instead of LOGDIR/scheduler")
	f.StringVarP(&o.statistics, "statistics", "l", "", "append delivery statistics to this `file`")
	f.StringVarP(&o.rendezvous, "rendezvous", "q", "", "`file` into which SIGUSR2 dumps the queue")
	f.BoolVarP(&o.queueMode, "queue-mode", "Q", false, "list no messages in replies in version 1")
	f.FuncP("mailq", "M", "`version` of the mailq protocol, 1 or 2", o.setMailq)
	on("hash", "H", "use one level of hash directories; given twice, two", func() { o.hashLevels = min(2, o.hashLevels+1) })
	f.StringP("new-entries", "E", "", "accepted and ignored: `n[,seconds]` limited a scan of ZMailer's scheduler")
	f.BoolVarP(&o.frozen, "freeze", "F", false, "start no agents")
	f.BoolVarP(&o.synchronous, "synchronous", "S", false, "load the whole queue before the first agent starts")
	f.FuncP("agent-files", "N", "`files` an agent may have open (32)", o.setAgentFiles)
	on("headers-only", "n", "return only headers, unless the sender set RET", func() { o.returnHeaders = !o.returnHeaders })
	f.FuncP("thread", "p", "run `channel/host` only", o.setThread)
	f.FuncP("fork-rate", "R", "maximum number of `agents` started in one second (30)", o.setForkRate)
	return f
}

func (o *options) setMailq(s string) error {
	if s != "1" && s != "2" {
		return errors.New("the argument of -M is 1 or 2")
	}
	o.mailqVersion = int(s[0] - '0')
	return nil
}

func (o *options) setThread(s string) error {
	channel, host, ok := strings.Cut(strings.ToLower(s), "/")
	if !ok {
		return errors.New("the argument of -p is channel/host")
	}
	o.only = rule.Selection{Channel: channel, Host: host}
	return nil
}

func (o *options) setAgentFiles(s string) error {
	n, err := number(s)
	if n >= 10 {
		o.agentFiles = uint64(n)
	}
	return err
}

func (o *options) setForkRate(s string) error {
	n, err := number(s)
	o.forkRate = max(1, n)
	return err
}

func number(s string) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil {
		return 0, fmt.Errorf("not a number: %q", s)
	}
	return n, nil
}
