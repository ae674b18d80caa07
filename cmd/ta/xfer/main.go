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
	agent := &ta.Agent{Warn: p.Warn}
	var nodes string
	// The scheduler sets these variables from its PARAMs.
	for _, option := range []struct {
		to                    *string
		name, variable, usage string
	}{
		{&nodes, "nodes", "XFERNODES", "`file` with the table of nodes (default: PARAMxfer-nodes)"},
		{&agent.Node, "node", "XFERNODE", "`name` of this node (default: PARAMnode)"},
		{&agent.Credentials.Cert, "cert", "XFERCERT", "`file` with the certificate of this node (default: PARAMxfer-cert)"},
		{&agent.Credentials.Key, "key", "XFERKEY", "`file` with its key (default: PARAMxfer-key)"},
		{&agent.Credentials.CA, "ca", "XFERCA", "`file` with the authorities of the nodes' certificates (default: PARAMxfer-ca)"},
	} {
		p.Flags.StringVar(option.to, option.name, os.Getenv(option.variable), option.usage)
	}
	env, err := p.Start(args)
	if err != nil {
		return p.Exit(err)
	}
	p.LogTo(env)
	p.Server.Marking = ctlfile.AgentMarks // what has moved is marked with the node that has it
	agent.Nodes = func() ([]xfer.Node, error) { return xfer.ReadNodes(nodes) }
	agent = ta.New(agent)
	defer agent.Close()
	p.Server.Deliver, p.Server.SyncData = agent.Deliver, agent.Sync
	return p.Serve()
}
