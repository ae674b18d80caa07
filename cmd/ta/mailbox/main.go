// Mailbox is the agent of local delivery: mailbox(8).
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"zsched/scheduler/config"
	"zsched/ta"
	"zsched/ta/mailbox"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == mailbox.HelperArg {
		os.Exit(mailbox.Help())
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	server := &ta.Server{Name: "mailbox"}
	o, err := parse(server, args, stderr)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return ta.ExitOK
	case err == nil && o.version:
		fmt.Fprintln(stdout, "mailbox: mail queue scheduler's agent for mailboxes, files and commands")
		return ta.ExitOK
	}
	if err == nil {
		zenv, e := config.AgentZenv(os.Getenv("ZCONFIG"))
		if e != nil {
			fmt.Fprintf(stderr, "# mailbox: %v\n", e)
			return ta.ExitOSFile
		}
		furnish(&o.Options, zenv)
		server.Syslog = ta.OpenSyslog("mailbox", ta.ParseSyslogStyle(zenv.Get("SYSLOGFLG")))
		defer server.Syslog.Close()
	}
	var agent *mailbox.Agent
	if err == nil {
		agent, err = mailbox.New(o.Options)
	}
	if err != nil {
		fmt.Fprintf(stderr, "mailbox: %v\n", err)
		return ta.ExitUsage
	}
	agent.Warn = func(line string) { fmt.Fprintf(stderr, "# mailbox: %s\n", line) }
	for _, word := range o.legacy {
		agent.Warn("option " + word)
	}
	server.Deliver = agent.Deliver
	return server.Main()
}
