package main

// Moves between nodes: the table of nodes, the environment of their agent, and the question
// to another node which recipients it has.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"zsched/ctlfile"
	"zsched/internal/certificate"
	"zsched/internal/zenv"
	"zsched/scheduler/config"
	"zsched/xfer"
)

// moves has what moves between nodes need.
type moves struct {
	zenv    *zenv.File
	node    string // the name of this node, since the start
	inForce atomic.Pointer[moveParams]

	certificate certificate.File // PARAMxfer-cert

	mu     sync.Mutex
	failed map[string]failure // nodes that could not be asked
}

// moveParams are the parameters since the last reload.
type moveParams struct {
	*config.Params
	env map[string]string // of agents; it is not changed
}

// failure is why a node could not be asked, and when.
type failure struct {
	err error
	at  time.Time
}

// failurePause is how long a node that could not be asked is not asked about mail again: an
// order may be about thousands of messages, and each question may wait for a connection.
const failurePause = 30 * time.Second

// newMoves returns the moves with the parameters at the start.
func newMoves(env *zenv.File, node string, p *config.Params) *moves {
	m := &moves{zenv: env, node: node, failed: make(map[string]failure)}
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

// certificateEnd returns when PARAMxfer-cert ends, or the zero time without one.
func (m *moves) certificateEnd() time.Time {
	if p := m.inForce.Load(); p.XferNodes != "" && p.XferCert != "" {
		return m.certificate.End(p.XferCert)
	}
	return time.Time{}
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
	if p.XferNodes == "" {
		return all
	}
	for name, value := range map[string]string{
		"XFERNODES": p.XferNodes, "XFERCERT": p.XferCert, "XFERKEY": p.XferKey, "XFERCA": p.XferCA, "XFERNODE": m.node,
	} {
		if value != "" {
			all[name] = value
		}
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

// taken asks a node which recipients it has. A node that is not in the table is not asked:
// it will not come back.
func (m *moves) taken(ctx context.Context, name string, origins []ctlfile.Origin) (map[string]bool, error) {
	p := m.inForce.Load()
	if p.XferNodes == "" {
		return nil, nil
	}
	nodes, err := xfer.ReadNodes(p.XferNodes)
	if err != nil {
		return nil, err
	}
	node, known := xfer.FindNode(nodes, name)
	if !known || strings.EqualFold(name, m.node) {
		return nil, nil
	}
	m.mu.Lock()
	before, failed := m.failed[node.Name]
	m.mu.Unlock()
	if failed && len(origins) > 0 && time.Since(before.at) < failurePause {
		return nil, before.err
	}
	taken, err := xfer.Taken(ctx, node, &xfer.Credentials{Cert: p.XferCert, Key: p.XferKey, CA: p.XferCA}, m.node, origins)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err == nil:
		delete(m.failed, node.Name)
	case ctx.Err() == nil: // otherwise the question was given up, which says nothing about the node
		m.failed[node.Name] = failure{err, time.Now()}
	}
	return taken, err
}

// answers returns an error if a node cannot be asked.
func (m *moves) answers(ctx context.Context, name string) error {
	_, err := m.taken(ctx, name, nil)
	if err == nil || errors.Is(err, ctx.Err()) {
		return err
	}
	return fmt.Errorf("node %s cannot be asked which of the mail in %s/%s it has, which would be delivered twice: %w; order it again when the node answers, or, if it never will, take it out of the table of nodes",
		name, ctlfile.TransferChannel, name, err)
}
