// Xfer is the agent that moves mail to another node: xfer(8).
package main

import (
	"io"
	"os"

	"zsched/cmd/ta/internal/program"
	"zsched/ctlfile"
	ta "zsched/ta/xfer"
	"zsched/xfer"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	p := program.New("xfer", ctlfile.TransferChannel, stdout, stderr)
	agent := new(ta.Agent)
	// The scheduler sets the variables.
	nodes := p.Flags.String("nodes", os.Getenv("XFERNODES"), "`file` with the table of nodes (default: PARAMxfer-nodes)")
	p.Flags.StringVar(&agent.Node, "node", os.Getenv("XFERNODE"), "`name` of this node (default: PARAMnode)")
	env, err := p.Start(args)
	if err != nil {
		return p.Exit(err)
	}
	p.LogTo(env)
	agent.Credentials = xfer.CredentialsOf(*nodes)
	agent.Nodes = func() ([]xfer.Node, error) { return xfer.ReadNodes(*nodes) }
	agent = ta.New(agent)
	defer agent.Close()
	p.Server.Deliver = agent.Deliver
	return p.Serve()
}
