package main

// Moves between nodes: the table of nodes and the environment of their agent.

import (
	"os"
	"strings"
	"sync/atomic"

	"zsched/internal/zenv"
	"zsched/scheduler/config"
	"zsched/xfer"
)

// moves has what moves between nodes need.
type moves struct {
	zenv    *zenv.File
	node    string // the name of this node, since the start
	inForce atomic.Pointer[moveParams]
}

// moveParams are the parameters since the last reload.
type moveParams struct {
	*config.Params
	env map[string]string // of agents; it is not changed
}

// newMoves returns the moves with the parameters at the start.
func newMoves(env *zenv.File, node string, p *config.Params) *moves {
	m := &moves{zenv: env, node: node}
	m.reload(p)
	return m
}

// reload puts parameters in force.
func (m *moves) reload(p *config.Params) { m.inForce.Store(&moveParams{p, m.newEnv(p)}) }

// ownNames returns the names of this node, in lower case. Without PARAMnode, the name of
// the host alone is one too.
func (m *moves) ownNames() []string {
	names := []string{strings.ToLower(m.node)}
	if m.inForce.Load().Node != "" {
		return names
	}
	if host, err := os.Hostname(); err == nil {
		names = append(names, strings.ToLower(host))
	}
	return names
}

// agentEnv returns the environment of an agent that is started now.
func (m *moves) agentEnv() map[string]string { return m.inForce.Load().env }

// newEnv makes the environment of agents: the variables of zmailer.conf, PARAMstore-error-on-error
// for errormail(8) and, for xfer(8), the parameters of moves between nodes.
func (m *moves) newEnv(p *config.Params) map[string]string {
	all := m.zenv.Known()
	delete(all, "STOREERRORS")
	if p.StoreErrorOnError {
		all["STOREERRORS"] = "yes"
	}
	if p.XferNodes != "" {
		all["XFERNODES"], all["XFERNODE"] = p.XferNodes, m.node
	}
	return all
}

// nodeNames returns the names in the table of nodes; nil: there is no table.
func (m *moves) nodeNames() (names []string, err error) {
	table := m.inForce.Load().XferNodes
	if table == "" {
		return nil, nil
	}
	nodes, err := xfer.ReadNodes(table)
	names = make([]string, 0, len(nodes))
	for _, node := range nodes {
		names = append(names, node.Name)
	}
	return names, err
}
