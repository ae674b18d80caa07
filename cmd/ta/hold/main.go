// Hold is the agent for mail that waits until a condition is met: hold(8).
package main

import (
	"io"
	"os"
	"path/filepath"

	"zsched/cmd/ta/internal/program"
	"zsched/ta/hold"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	p := program.New("hold", "hold", stdout, stderr)
	mailbin := p.Flags.String("mailbin", "", "`directory` that has bin/ with the scripts (default: the directory above that of this program)")
	env, err := p.Start(args)
	if err != nil {
		return p.Exit(err)
	}
	if *mailbin == "" {
		*mailbin = filepath.Dir(filepath.Dir(os.Args[0])) // of MAILBIN/ta/hold
	}
	// The scheduler starts agents in $POSTOFFICE/transport.
	agent := hold.New("..", *mailbin)
	agent.RouterLevels = env.RouterLevels()
	agent.RouterNotify = env.Value("ROUTERNOTIFY")
	p.Server.Deliver = agent.Deliver
	return p.Serve()
}
