// Mailbox is the agent for local delivery: mailbox(8).
package main

import (
	"io"
	"os"

	"zsched/cmd/ta/internal/program"
	"zsched/ta/mailbox"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == mailbox.HelperArg {
		os.Exit(mailbox.RunHelper())
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	p := program.New("mailbox", "local", stdout, stderr)
	c := newCommand(p)
	if err := c.parse(args); err != nil {
		return p.Exit(err)
	}
	env, err := p.Zenv()
	if err != nil {
		return p.Exit(err)
	}
	addZenv(&c.o, env)
	agent, err := mailbox.New(c.o)
	if err != nil {
		return p.Exit(err)
	}
	agent.Warn = p.Warn
	p.LogTo(env)
	p.Server.Deliver = agent.Deliver
	return p.Serve()
}
