// Discard is an agent that throws mail away: discard(8).
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"zsched/ta"
	"zsched/ta/discard"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	server := &ta.Server{Name: "discard"}
	var options discard.Options
	var marking string

	flags := pflag.NewFlagSet("discard", pflag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVarP(&server.Channel, "channel", "c", "", "take recipients of this `channel`; any if not given")
	flags.StringVar(&marking, "marking", "agent", "who marks recipients: agent or scheduler, as in the clause")
	flags.IntVar(&server.Sessions, "sessions", 1, "job lines worked on at once, as in the clause")
	flags.IntVar(&options.Fail, "fail", 0, "`percent` of the recipients that fail")
	flags.IntVar(&options.Defer, "defer", 0, "`percent` of the recipients that are deferred")
	flags.IntVar(&options.DeferAll, "deferall", 0, "`percent` of the messages whose destination is out of order")
	flags.StringVar(&options.RetryAt, "retryat", "", "make deferrals say `when`: +seconds, or seconds since the epoch")
	flags.DurationVar(&options.Delay, "delay", 0, "`time` that a message takes, such as 50ms")
	flags.IntVar(&options.DieAfter, "die-after", 0, "be killed after `number` deliveries, with the last unreported")
	flags.StringVar(&options.Log, "log", "", "`file` that gets a line \"path offset\" for each delivery")
	flags.Uint64Var(&options.Seed, "seed", 0, "seed of all chances; 0 for another each time")

	err := flags.Parse(args)
	if errors.Is(err, pflag.ErrHelp) {
		return ta.ExitOK
	}
	if err == nil && flags.NArg() > 1 {
		err = fmt.Errorf("one host at most, not %q", flags.Args())
	}
	if err == nil {
		server.Host = flags.Arg(0)
		server.Marking, err = ta.ParseMarking(marking)
	}
	var agent *discard.Agent
	if err == nil {
		agent, err = discard.New(options)
	}
	if err != nil {
		fmt.Fprintf(stderr, "discard: %v\n", err)
		return ta.ExitUsage
	}
	server.Deliver = agent.Deliver
	return server.Main()
}
