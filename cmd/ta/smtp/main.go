// Smtp is the agent that delivers over SMTP and LMTP: smtp(8).
package main

import (
	"io"
	"os"

	"zsched/cmd/ta/internal/program"
	"zsched/ta/smtp"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run runs the program and returns its exit code.
func run(args []string, stdout, stderr io.Writer) int {
	p := program.New("smtp", "smtp", stdout, stderr)
	c := newCommand(p)
	err := c.parse(args)
	var o smtp.Options
	if err == nil {
		o, err = c.options()
	}
	if err != nil {
		return p.Exit(err)
	}
	if !p.Check {
		if o.Log, err = openLog(c.log, c.debug, stderr); err != nil {
			p.Warn("no protocol log: " + err.Error())
		}
	}
	env, err := p.Zenv()
	if err != nil {
		p.Warn(err.Error())
	}
	p.LogTo(env)
	agent := smtp.New(o)
	p.Server.Deliver = agent.Deliver
	p.Server.Commits = true
	status := p.Serve()
	if !p.Server.Left() {
		agent.Close()
	}
	return status
}
