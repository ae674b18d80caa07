// Discard is an agent that discards mail: discard(8).
package main

import (
	"io"
	"os"

	"zsched/cmd/ta/internal/program"
	"zsched/ta/discard"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	p := program.New("discard", "", stdout, stderr)
	var options discard.Options
	p.Flags.IntVar(&options.Fail, "fail", 0, "`percent` of the recipients that fail")
	p.Flags.IntVar(&options.Defer, "defer", 0, "`percent` of the recipients that are deferred")
	p.Flags.IntVar(&options.DeferAll, "deferall", 0, "`percent` of the messages that are answered with deferall")
	p.Flags.StringVar(&options.RetryAt, "retryat", "", "`when` deferred recipients are to be tried again: +seconds from now, or seconds since the epoch")
	p.Flags.DurationVar(&options.Delay, "delay", 0, "`time` that each message takes, such as 50ms")
	p.Flags.IntVar(&options.DieAfter, "die-after", 0, "end by SIGKILL after this `number` of deliveries, with the last one unreported")
	p.Flags.StringVar(&options.Log, "log", "", "`file` that gets a line \"path offset\" for each delivery")
	p.Flags.Uint64Var(&options.Seed, "seed", 0, "`seed` of the random numbers; 0 for a different one each time")

	err := p.Parse(args)
	if err == nil {
		err = p.Host()
	}
	var agent *discard.Agent
	if err == nil {
		agent, err = discard.New(options)
	}
	if err != nil {
		return p.Exit(err)
	}
	p.Server.Deliver = agent.Deliver
	return p.Serve()
}
