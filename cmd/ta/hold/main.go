// Hold is the agent for mail that waits until something comes true: hold(8).
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"zsched/scheduler/config"
	"zsched/ta"
	"zsched/ta/hold"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	server := &ta.Server{Name: "hold"}
	var marking, mailbin string
	var version bool

	flags := pflag.NewFlagSet("hold", pflag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVarP(&server.Channel, "channel", "c", "hold", "take recipients of this `channel`")
	flags.StringVar(&marking, "marking", "agent", "who marks recipients: agent or scheduler, as in the clause")
	flags.IntVar(&server.Sessions, "sessions", 1, "job lines worked on at once, as in the clause")
	flags.StringVar(&mailbin, "mailbin", "", "`directory` that has bin/ with the scripts (default: above this program's)")
	flags.BoolVarP(&version, "version", "V", false, "say what this is, and leave")

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
	if err != nil {
		fmt.Fprintf(stderr, "hold: %v\n", err)
		return ta.ExitUsage
	}
	if version {
		fmt.Fprintln(stdout, "hold: mail queue scheduler's agent for mail that waits")
		return ta.ExitOK
	}
	zenv, err := config.AgentZenv(os.Getenv("ZCONFIG"))
	if err != nil {
		fmt.Fprintf(stderr, "# hold: %v\n", err)
		return ta.ExitOSFile
	}
	if mailbin == "" {
		mailbin = filepath.Dir(filepath.Dir(os.Args[0])) // of MAILBIN/ta/hold
	}
	// The scheduler starts agents in $POSTOFFICE/transport.
	agent := hold.New("..", mailbin)
	agent.RouterLevels = zenv.RouterLevels()
	agent.RouterNotify, _ = zenv.Get("ROUTERNOTIFY")
	server.Deliver = agent.Deliver
	return server.Main()
}
