// Package program holds what the mains of the bundled agents share: the options
// that every agent has (-c, --marking, --sessions, --check, -V), the host operand, the
// zmailer.conf that the scheduler names, the system's log, and the exit status.
//
//	p := program.New("discard", "", stdout, stderr)
//	p.Flags.IntVar(…)
//	if err := p.Parse(args); err != nil {
//		return p.Exit(err)
//	}
//	p.Server.Deliver = …
//	return p.Serve()
package program

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"zsched/internal/command"
	"zsched/internal/version"
	"zsched/internal/zenv"
	"zsched/ta"
)

// Program is one agent's command line and what it is run with.
type Program struct {
	Server *ta.Server
	Flags  *pflag.FlagSet // the caller adds the agent's own options before Parse
	// Check says that the agent is to read its options and files only: it opens no log, and
	// Serve returns at once.
	Check bool

	name           string
	marking        string
	version        bool
	stdout, stderr io.Writer
}

// New defines the options that all agents share. channel is the default of -c;
// with "" the agent takes the recipients of any channel.
func New(name, channel string, stdout, stderr io.Writer) *Program {
	p := &Program{
		Server: &ta.Server{Name: name},
		Flags:  pflag.NewFlagSet(name, pflag.ContinueOnError),
		name:   name, stdout: stdout, stderr: stderr,
	}
	p.Flags.SetOutput(stderr)
	p.Flags.StringVarP(&p.Server.Channel, "channel", "c", channel, "take recipients of this `channel`; any if empty")
	p.Flags.StringVar(&p.marking, "marking", "scheduler", "who marks recipients: scheduler, if it can, or agent")
	p.Flags.IntVar(&p.Server.Sessions, "sessions", 1, "job lines worked on at once, as in the clause")
	p.Flags.BoolVar(&p.Server.SenderOwned, "sender-owned", false, "as root, accept control files that belong to their senders (ZMailer's scheduler)")
	p.Flags.BoolVar(&p.Check, "check", false, "report what is wrong with the options and with the files that they name, and exit")
	p.Flags.BoolVarP(&p.version, "version", "V", false, "print the version and exit")
	return p
}

// Ignore accepts options of ZMailer's agent that have no effect here, as often as they are given.
func (p *Program) Ignore(letters string) {
	for _, letter := range letters {
		name := "ignored-" + string(letter)
		p.Flags.CountP(name, string(letter), "no effect")
		p.Flags.Lookup(name).Hidden = true
	}
}

// errVersion ends a program that has printed its version.
var errVersion = errors.New("version printed")

// Parse reads the command line. The error is for Exit; it is also set if the
// program has nothing more to do, after --help and --version.
func (p *Program) Parse(args []string) error {
	if err := p.Flags.Parse(args); err != nil {
		return command.Plain(err)
	}
	if p.version {
		fmt.Fprintln(p.stdout, version.Line(p.name))
		return errVersion
	}
	var err error
	if p.Server.Marking, err = ta.ParseMarking(p.marking); err == nil && p.Server.Sessions < 0 {
		err = fmt.Errorf("--sessions %d is less than 0", p.Server.Sessions)
	}
	return err
}

// Host takes the operands of an agent that accepts at most one, the host.
func (p *Program) Host() error {
	if p.Flags.NArg() > 1 {
		return fmt.Errorf("one host at most, not %q", p.Flags.Args())
	}
	if p.Flags.NArg() == 1 {
		p.Server.Host = p.Flags.Arg(0)
	}
	return nil
}

// Start does what most agents do first: it parses the options and the operand, and reads
// zmailer.conf. Exit takes its error.
func (p *Program) Start(args []string) (*zenv.File, error) {
	err := p.Parse(args)
	if err == nil {
		err = p.Host()
	}
	if err != nil {
		return nil, err
	}
	return p.Zenv()
}

// Exit reports an error of Parse, Host, Zenv or the agent's own checks, and
// returns the exit status that goes with it.
func (p *Program) Exit(err error) int {
	if errors.Is(err, pflag.ErrHelp) || err == errVersion {
		return ta.ExitOK
	}
	fmt.Fprintf(p.stderr, "%s: %v\n", p.name, err)
	return ta.ExitUsage
}

// Warn writes a line for the scheduler's log.
func (p *Program) Warn(line string) { fmt.Fprintf(p.stderr, "# %s: %s\n", p.name, line) }

// Zenv reads the zmailer.conf that the scheduler names in ZCONFIG, and sets the limit on
// the size of message files.
func (p *Program) Zenv() (*zenv.File, error) {
	env, err := zenv.Read(os.Getenv("ZCONFIG"))
	if err != nil {
		return nil, err
	}
	p.Server.MaxSize, err = env.RouterMaxSize()
	return env, err
}

// Mailbin is the MAILBIN that zmailer.conf sets. If it sets none, Mailbin returns
// the parent of this program's directory, which is MAILBIN/ta.
func Mailbin(env *zenv.File) string {
	dir, set := env.Lookup("MAILBIN")
	if set || !filepath.IsAbs(os.Args[0]) {
		return dir
	}
	return filepath.Dir(filepath.Dir(os.Args[0]))
}

// LogTo makes the agent write a line for each recipient to the system's log,
// in the style of SYSLOGFLG (zmailer.conf(5)).
func (p *Program) LogTo(env *zenv.File) {
	if !p.Check {
		p.Server.Syslog = ta.OpenSyslog(p.name, ta.ParseSyslogStyle(env.Lookup("SYSLOGFLG")))
	}
}

// Serve runs the agent until the scheduler ends it, and returns its exit status.
func (p *Program) Serve() int {
	if p.Check {
		return ta.ExitOK
	}
	defer p.Server.Syslog.Close()
	return p.Server.Main()
}
