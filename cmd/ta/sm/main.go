// Sm is the agent that gives mail to programs: sm(8).
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"zsched/scheduler/config"
	"zsched/ta"
	"zsched/ta/sm"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	server := &ta.Server{Name: "sm"}
	agent := sm.New(nil)
	var marking, file string
	var version bool

	flags := pflag.NewFlagSet("sm", pflag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVarP(&server.Channel, "channel", "c", "", "take recipients of this `channel`")
	flags.StringVarP(&server.Host, "host", "h", "", "take recipients at this `host` where a job line names none")
	flags.StringVarP(&file, "file", "f", "", "read this `file`, not sm.conf or sm.cf in MAILSHARE")
	flags.BoolVarP(&agent.EightBit, "eight-bit", "8", false, "the program is 8-bit clean; decode quoted-printable text")
	flags.BoolVarP(&agent.Narrow, "narrow", "Q", false, "TABs and blanks do not survive the way; encode them")
	flags.BoolVarP(&agent.KeepHeader, "keep-header", "H", false, "leave 8-bit headers as they are")
	flags.DurationVar(&agent.Limit, "limit", agent.Limit, "`time` that a run of the program may take; 0 for any")
	flags.StringVar(&marking, "marking", "agent", "who marks recipients: agent or scheduler, as in the clause")
	flags.IntVar(&server.Sessions, "sessions", 1, "job lines worked on at once, as in the clause")
	flags.BoolVarP(&version, "version", "V", false, "say what this is, and leave")

	err := flags.Parse(args)
	if errors.Is(err, pflag.ErrHelp) {
		return ta.ExitOK
	}
	if err == nil && version {
		fmt.Fprintln(stdout, "sm: mail queue scheduler's agent that gives mail to programs")
		return ta.ExitOK
	}
	if err == nil {
		server.Marking, err = ta.ParseMarking(marking)
	}
	switch {
	case err != nil:
	case server.Channel == "" && server.Host == "":
		err = errors.New("-c channel or -h host is needed")
	case flags.NArg() != 1:
		err = fmt.Errorf("one mailer, not %q", flags.Args())
	case agent.Limit < 0:
		err = fmt.Errorf("limit %v is in the past", agent.Limit)
	}
	if err != nil {
		fmt.Fprintf(stderr, "sm: %v\n", err)
		return ta.ExitUsage
	}
	zenv, err := config.AgentZenv(os.Getenv("ZCONFIG"))
	if err != nil {
		fmt.Fprintf(stderr, "# sm: %v\n", err)
		return ta.ExitOSFile
	}
	var status int
	if agent.Mailer, status = readMailer(zenv, file, flags.Arg(0), stderr); agent.Mailer == nil {
		return status
	}
	server.Syslog = ta.OpenSyslog("sm", ta.ParseSyslogStyle(zenv.Get("SYSLOGFLG")))
	defer server.Syslog.Close()
	server.Deliver = agent.Deliver
	return server.Main()
}
