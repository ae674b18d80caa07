package receiver

// Peers: the open connections of other nodes. A question of a node (HAVE) ends those on which
// the node pushes.

import (
	"context"
	"strings"
	"sync"
)

// peers are the open connections.
type peers struct {
	mu   sync.Mutex
	open map[*connection]*peer
}

// peer is an open connection.
type peer struct {
	interrupt context.CancelFunc // ends its reading
	ended     chan struct{}      // closed when all that it has pushed is taken or dropped
}

// enter adds a connection, whose node is not known yet. leave is called when it has ended.
func (p *peers) enter(c *connection, interrupt context.CancelFunc) (leave func()) {
	entered := &peer{interrupt, make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		p.open = make(map[*connection]*peer)
	}
	p.open[c] = entered
	return func() {
		p.mu.Lock()
		delete(p.open, c)
		p.mu.Unlock()
		close(entered.ended)
	}
}

// name notes which node has opened a connection.
func (p *peers) name(c *connection, node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.node = strings.ToLower(node)
}

// endPushes marks a connection as one that asks, and ends the others of its node, except
// those that ask too: they push nothing, and may be waiting for this one.
func (p *peers) endPushes(c *connection) {
	p.mu.Lock()
	c.asks = true
	var others []*peer
	for other, at := range p.open {
		if other != c && other.node == c.node && !other.asks {
			others = append(others, at)
		}
	}
	p.mu.Unlock()
	for _, other := range others {
		other.interrupt()
	}
	for _, other := range others {
		<-other.ended
	}
}
