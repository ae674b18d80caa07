// Sm is the agent that gives mail to programs: sm(8).
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"zsched/cmd/ta/internal/program"
	"zsched/internal/units"
	"zsched/ta/sm"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	p := program.New("sm", "", stdout, stderr)
	agent := sm.New(nil)
	file := p.Flags.StringP("file", "f", "", "read this `file`, not sm.conf or sm.cf in MAILSHARE")
	p.Flags.StringVarP(&p.Server.Host, "host", "h", "", "take recipients at this `host` where a job line names none")
	p.Ignore("8QH")
	p.Flags.Var((*units.Interval)(&agent.Limit), "limit", "`time` that a run of the program may take; 0 for no limit")

	err := p.Parse(args)
	switch {
	case err != nil:
	case p.Server.Channel == "" && p.Server.Host == "":
		err = errors.New("-c channel or -h host is needed")
	case p.Flags.NArg() != 1:
		err = fmt.Errorf("one mailer, not %q", p.Flags.Args())
	case agent.Limit < 0:
		err = fmt.Errorf("limit %v is negative", agent.Limit)
	}
	if err != nil {
		return p.Exit(err)
	}
	env, err := p.Zenv()
	if err == nil {
		agent.Mailer, err = readMailer(env, *file, p.Flags.Arg(0), stderr)
	}
	if err == nil && p.Check {
		_, err = exec.LookPath(agent.Mailer.Program)
	}
	if err != nil {
		return p.Exit(err)
	}
	p.LogTo(env)
	p.Server.Deliver = agent.Deliver
	return p.Serve()
}
