// Errormail is the agent that tells senders about addresses that the router could
// not route: errormail(8).
package main

import (
	"io"
	"os"
	"path/filepath"

	"zsched/cmd/ta/internal/program"
	"zsched/ta/errormail"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	p := program.New("errormail", "error", stdout, stderr)
	headers := p.Flags.BoolP("headers-only", "n", false, "return only the header if the sender gave no RET")
	// The scheduler sets this variable from its PARAM.
	stores := p.Flags.Bool("store-errors", os.Getenv("STOREERRORS") != "", "keep notices about mail with a null sender in postman/ (default: PARAMstore-error-on-error)")
	env, err := p.Start(args)
	if err != nil {
		return p.Exit(err)
	}
	// The scheduler starts agents in $POSTOFFICE/transport.
	agent := errormail.New("..", filepath.Join(env.Value("MAILSHARE"), "forms"), env.Value("ORGDOMAIN"))
	agent.Reporter.HeadersOnly, agent.Reporter.StoreErrors = *headers, *stores
	agent.Reporter.Router.Levels = env.RouterLevels()
	agent.Reporter.Router.Notify = env.Value("ROUTERNOTIFY")
	agent.Warn = p.Warn
	p.Server.Deliver = agent.Deliver
	p.Server.MaxSize = 0 // its senders are also told of messages that are too large
	return p.Serve()
}
