// Smtp is the agent of SMTP and LMTP: smtp(8).
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"zsched/scheduler/config"
	"zsched/ta"
	"zsched/ta/smtp"
)

func main() {
	title := takeTitle()
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr, title))
}

// run is the program. title makes a text the title of the process.
func run(args []string, stdout, stderr io.Writer, title func(string)) int {
	server := &ta.Server{Name: "smtp"}
	c := newCommand(server, stderr)
	err := c.parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return ta.ExitOK
	case err == nil && c.version:
		fmt.Fprintln(stdout, "smtp: mail queue scheduler's agent for SMTP and LMTP")
		return ta.ExitOK
	}
	var o smtp.Options
	if err == nil {
		o, err = c.options()
	}
	if err != nil {
		fmt.Fprintf(stderr, "smtp: %v\n", err)
		return ta.ExitUsage
	}
	warn := func(what string) { fmt.Fprintf(stderr, "# smtp: %s\n", what) }
	for _, what := range c.warnings {
		warn(what)
	}
	if o.Log, err = openLog(c.log, c.debug, stderr); err != nil {
		warn("no protocol log: " + err.Error())
	}
	zenv, err := config.AgentZenv(os.Getenv("ZCONFIG"))
	if err != nil {
		warn(err.Error())
	}
	server.Syslog = ta.OpenSyslog("smtp", ta.ParseSyslogStyle(zenv.Get("SYSLOGFLG")))
	defer server.Syslog.Close()
	if c.title {
		o.Title = title
	}
	agent := smtp.New(o)
	server.Deliver = agent.Deliver
	defer agent.Close()
	return server.Main()
}
