package cluster

// Opening: how a node begins to speak to the store, and ends it.

import "context"

// Open makes a Node and begins to speak to the store. Close ends it.
func Open(o Options) *Node {
	s := openLink(o)
	n := newNode(o, func(b *batch) { s.batches <- b })
	n.store = s
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	go s.run(ctx)
	return n
}

// Woken says that the store has answered, so that Turn has something to do.
func (n *Node) Woken() <-chan struct{} { return n.store.woken }

// Close gives back the shares of this node, as far as the store answers at once,
// and disconnects.
func (n *Node) Close() {
	s := n.store
	s.stop()
	<-s.ended
	if n.members.joined && !n.members.lost {
		n.leave(context.Background())
	}
	_ = s.client.Close()
}

// leave reports that nothing is wanted any more, and that this node is gone. The
// sessions of agents that are still at work stay reported until ttl.
func (n *Node) leave(ctx context.Context) {
	b := new(batch)
	for _, l := range n.sortedLimits() {
		l.claimed, l.want, l.waiting = l.busy, l.busy, false
		n.share(b, l)
	}
	b.add(reportScript, n.reportKeys(), n.reportArgs(true), nil)
	for calls := append(n.backlog, b.calls...); len(calls) > 0; {
		part := min(len(calls), maxPipeline)
		if _, err := n.store.exec(ctx, calls[:part]); err != nil {
			return
		}
		calls = calls[part:]
	}
}
