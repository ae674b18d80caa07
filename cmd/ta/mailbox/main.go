// Mailbox is the agent of local delivery: mailbox(8).
package main

import (
	"errors"
	"fmt"
	"io"
	"log/syslog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

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
	var agent *mailbox.Agent
	if err == nil {
		zenv(&o.Options, &o.syslog)
		agent, err = mailbox.New(o.Options)
	}
	if err != nil {
		fmt.Fprintf(stderr, "mailbox: %v\n", err)
		return ta.ExitUsage
	}
	warn := func(line string) { fmt.Fprintf(stderr, "# mailbox: %s\n", line) }
	for _, name := range o.legacy {
		warn("option " + name)
	}
	agent.Warn, agent.Marking = warn, server.Marking
	if o.syslog {
		agent.Syslog = systemLog()
	}
	server.Deliver = agent.Deliver
	// A file that would grow beyond a limit is an error, not our end.
	signal.Ignore(syscall.SIGXFSZ)

	ctx, stop := server.Standard()
	defer stop()
	if err := server.Serve(ctx); err != nil {
		fmt.Fprintf(stderr, "# mailbox: %v\n", err)
		return ta.ExitIOErr
	}
	return ta.ExitOK
}

// systemLog is how to write to syslog; nil where there is none.
func systemLog() func(line string) {
	w, err := syslog.New(syslog.LOG_MAIL|syslog.LOG_INFO, "mailbox")
	if err != nil {
		return nil
	}
	return func(line string) { _ = w.Info(line) }
}
