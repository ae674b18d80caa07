package main

// The options of mailbox.

import (
	"fmt"
	"os"
	"strings"
	"time"

	"zsched/cmd/ta/internal/program"
	"zsched/internal/units"
	"zsched/internal/zenv"
	"zsched/ta/mailbox"
)

// command holds the options of the command line.
type command struct {
	program *program.Program
	o       mailbox.Options

	fatal string
}

func newCommand(p *program.Program) *command {
	c := &command{program: p}
	f, o := p.Flags, &c.o
	f.BoolVarP(&o.TouchAccess, "touch", "a", false, "do not keep the access time of mbox files")
	f.BoolVarP(&o.Place.Canonical, "canonical", "C", false, "use the user name of the password file, not that of the address")
	f.StringVarP(&o.Place.Path, "directory", "d", "", "`path` of the directory of mbox files, or pattern of mailboxes")
	f.StringVarP(&c.fatal, "fatal", "F", "", "`error` after which mail fails instead of waiting: edquot")
	f.StringVarP(&p.Server.Host, "host", "h", "", "take recipients with this `localpart` as their host")
	f.StringVarP(&o.Log, "log", "l", "", "`file` that gets a line for each delivery")
	o.LockWait = 30 * time.Second
	f.Var((*units.Interval)(&o.LockWait), "lock-wait", "`time` to wait for a mailbox that others have locked")
	o.TimeLimit = 15 * time.Minute
	f.Var((*units.Interval)(&o.TimeLimit), "time-limit", "`time` that a command may take")
	o.MailboxLimit = 2 * time.Minute
	f.Var((*units.Interval)(&o.MailboxLimit), "mailbox-limit", "`time` that a delivery as another user may take, in addition to --lock-wait")
	f.StringVar(&o.RootAs, "root-as", "", "`user` for commands and files of privilege 0, instead of root")
	p.Ignore("8HbMrRSUX")
	return c
}

// parse reads and checks the command line.
func (c *command) parse(args []string) error {
	if err := c.program.Parse(args); err != nil {
		return err
	}
	c.o.FatalQuota = strings.EqualFold(c.fatal, "edquot")
	if c.fatal != "" && !c.o.FatalQuota {
		return fmt.Errorf("-F %q: the only error that can be made final is edquot", c.fatal)
	}
	if c.o.TimeLimit <= 0 || c.o.MailboxLimit <= 0 || c.o.LockWait < 0 {
		return fmt.Errorf("--time-limit %v and --mailbox-limit %v must be positive, and --lock-wait %v must not be negative", c.o.TimeLimit, c.o.MailboxLimit, c.o.LockWait)
	}
	return c.program.Host()
}

// addZenv takes our domain and the environment of commands from zmailer.conf. It
// takes the pattern of mailboxes too if the command line gives none.
func addZenv(o *mailbox.Options, env *zenv.File) {
	if o.Place.Path == "" {
		o.Place.Path = env.Value("MAILBOX")
	}
	o.Domain = env.Value("ORGDOMAIN")
	path := env.Value("PATH")
	if path == "" {
		path = "/usr/bin:/bin"
	}
	share := env.Value("MAILSHARE")
	o.Environ = []string{"PATH=" + path, "MAILSHARE=" + share, "MAILBIN=" + program.Mailbin(env)}
	for _, name := range []string{"ZCONFIG", "TZ"} {
		if value, ok := os.LookupEnv(name); ok {
			o.Environ = append(o.Environ, name+"="+value)
		}
	}
}
