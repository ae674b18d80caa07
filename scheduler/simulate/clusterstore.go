package simulate

import (
	"cmp"
	"slices"
	"time"

	"zsched/scheduler"
	"zsched/scheduler/rule"
)

// Several nodes with one limit (clustermax), and an outage of the store that divides
// it (scheduler-cluster(7)).
//
// The nodes have the real core. The store and what speaks to it are models of package
// cluster and its script, because that package needs a server: with the division, the
// times and the rules for a call under way, for an outage and for the return, but
// without lost or late replies, turns and rates. The tests of package cluster have
// those, with the script itself.

// Times of scheduler-cluster(7).
const (
	clusterTTL    = 30 * time.Second
	clusterUsable = 24 * time.Second // of a grant, from its call
	clusterRenew  = 10 * time.Second // between two calls that change nothing
	clusterReport = 2 * time.Second  // between two reports of a node
	callTime      = time.Millisecond // to the store, or back
	callTimeout   = 250 * time.Millisecond
	callAgain     = time.Second // before a call that has failed is repeated
)

// clusterStore is the store, with one limit.
type clusterStore struct {
	*Clock
	limit int
	up    bool
	born  time.Duration  // when the epoch began
	parts []*clusterPart // in the order of the nodes' names
}

// clusterPart is what the store has about a node.
type clusterPart struct {
	node                      *clusterNode
	expires                   time.Duration
	want, busy, grant, target int
}

// reply is the store's answer to share.
type reply struct {
	allowed int // sessions that the node may have before it starts another
	grant   int // sessions that are kept for it
	waiting bool
}

// share divides the limit, and grants the node its part.
func (s *clusterStore) share(n *clusterNode, want, busy int, returning bool) reply {
	s.parts = slices.DeleteFunc(s.parts, func(p *clusterPart) bool { return p.expires <= s.now || p.node == n && want == 0 && busy == 0 })
	if want == 0 && busy == 0 {
		return reply{}
	}
	own := s.obtainPart(n)
	own.want, own.busy, own.expires = max(want, busy), busy, s.now+clusterTTL
	others := 0
	for _, p := range s.parts {
		if p != own {
			others += p.grant
		}
	}
	targets, before := s.divide(), own.grant
	own.target = targets[own]
	own.grant = max(busy, min(own.target, s.limit-others), 0)
	allowed := max(0, min(own.target, s.limit-others))
	if s.now-s.born < clusterTTL || returning {
		own.grant, allowed = busy, min(busy, max(0, s.limit-others))
	}
	r := reply{allowed: allowed, grant: own.grant}
	for _, p := range s.parts {
		if p == own {
			continue
		}
		r.waiting = r.waiting || p.want > p.grant
		target := targets[p]
		if target < p.grant && target < p.target || target > p.grant && own.grant < before {
			s.After(callTime, p.node.heard)
		}
		p.target = target
	}
	return r
}

func (s *clusterStore) obtainPart(n *clusterNode) *clusterPart {
	if i := slices.IndexFunc(s.parts, func(p *clusterPart) bool { return p.node == n }); i >= 0 {
		return s.parts[i]
	}
	p := &clusterPart{node: n}
	s.parts = append(s.parts, p)
	slices.SortFunc(s.parts, func(a, b *clusterPart) int { return cmp.Compare(a.node.name, b.node.name) })
	return p
}

// divide divides the limit max-min: small demands are met in full, and the rest is
// divided into even parts.
func (s *clusterStore) divide() map[*clusterPart]int {
	byWant := slices.Clone(s.parts)
	slices.SortStableFunc(byWant, func(a, b *clusterPart) int { return a.want - b.want })
	targets, left := make(map[*clusterPart]int), s.limit
	for i, p := range byWant {
		targets[p] = min(p.want, left/(len(byWant)-i))
		left -= targets[p]
	}
	return targets
}

// fail stops the store; begin starts it again, empty.
func (s *clusterStore) fail() { s.up = false }

func (s *clusterStore) begin() { s.up, s.born, s.parts = true, s.now, nil }

// call calls do in the store after the time to it, and then answered, or failed if the
// store is away.
func (s *clusterStore) call(do, answered, failed func()) {
	s.After(callTime, func() {
		if !s.up {
			s.After(callTimeout-callTime, failed)
			return
		}
		do()
		s.After(callTime, answered)
	})
}

// clusterNode is a node with its connection to the store.
type clusterNode struct {
	*Node
	name  string
	store *clusterStore
	// lostPart is what it uses of the limit while the store is lost.
	lostPart int

	wanted   scheduler.Want // the last one
	reported scheduler.Want // of the last call
	last     reply
	mayUse   int
	until    time.Duration // of mayUse
	told     scheduler.Allowance

	flying, again  bool // a call is under way; something has changed since
	callAt         time.Duration
	lastOK         time.Duration // when the last call that was answered was sent
	late           int           // failed calls a ttl after that
	lost           bool
	returningUntil time.Duration
}

// newClusterNode makes a node without mail.
func newClusterNode(s *clusterStore, name string, p rule.Params, lostPart int) *clusterNode {
	n := &clusterNode{Node: NewNode(s.Clock, p, nil, steady(2*time.Second, 3*time.Second)), name: name, store: s, lostPart: lostPart}
	n.Wanted = n.want
	s.Every(clusterReport, n.report)
	s.Every(100*time.Millisecond, n.expire)
	return n
}

// want takes what the core wants, and calls if the store should know of it.
func (n *clusterNode) want(w scheduler.Want) {
	n.wanted = w
	r := n.reported
	switch {
	case r.Want == 0 && w.Want > 0, n.last.grant > n.last.allowed && w.Busy < r.Busy,
		w.Want > r.Want && w.Busy >= n.mayUse, n.last.waiting && max(w.Want, w.Busy) < min(r.Want, n.last.grant):
		n.callSoon(0)
	}
}

// heard is called when another node has changed the division.
func (n *clusterNode) heard() { n.callSoon(0) }

// callSoon plans a call after d, unless one is planned before that.
func (n *clusterNode) callSoon(d time.Duration) {
	if n.flying {
		n.again = true
		return
	}
	at := n.now + d
	if n.callAt != 0 && n.callAt <= at {
		return
	}
	n.callAt = at
	n.After(d, func() {
		if n.callAt == at {
			n.callAt = 0
			n.share()
		}
	})
}

// share sends a call. Until its reply comes, the node starts no session beyond those
// that it reports as busy.
func (n *clusterNode) share() {
	sent, w, returning := n.now, n.wanted, n.now < n.returningUntil
	n.flying, n.again, n.reported = true, false, w
	if !n.lost {
		n.mayUse = min(n.mayUse, w.Busy)
		n.allow(n.mayUse, n.until)
	}
	var r reply
	n.store.call(func() { r = n.store.share(n, w.Want, w.Busy, returning) }, func() {
		n.flying, n.last = false, r
		n.answered(sent)
		n.mayUse, n.until = r.allowed, sent+clusterUsable
		n.allow(n.mayUse, n.until)
		next := clusterRenew
		if now := n.now; now < n.returningUntil {
			next = min(next, n.returningUntil-now)
		} else if end := n.store.born + clusterTTL; now < end {
			next = min(next, end-now)
		}
		if n.again {
			next = 0
		}
		n.callSoon(next)
	}, func() { n.flying = false; n.failed(sent); n.callSoon(callAgain) })
}

// report tells the store that the node is there, and finds out whether the store is.
func (n *clusterNode) report() {
	sent := n.now
	n.store.call(func() {}, func() { n.answered(sent) }, func() { n.failed(sent) })
}

// answered ends the time without the store, in which the node has used its own part.
func (n *clusterNode) answered(sent time.Duration) {
	n.lastOK, n.late = max(n.lastOK, sent), 0
	if !n.lost {
		return
	}
	n.lost, n.returningUntil, n.mayUse = false, n.now+clusterTTL, 0
	n.allow(0, n.now)
	n.callSoon(0)
}

// failed begins the time without the store, after a ttl.
func (n *clusterNode) failed(sent time.Duration) {
	if sent < n.lastOK+clusterTTL {
		return
	}
	if n.late++; n.late < 2 || n.lost {
		return
	}
	n.lost = true
	n.allow(n.lostPart, noRetry)
}

// expire ends a share that was not renewed.
func (n *clusterNode) expire() {
	if !n.lost && n.mayUse > 0 && n.now >= n.until {
		n.mayUse = 0
		n.allow(0, n.now)
	}
}

// allow tells the core what it may use, after the event that it is handling.
func (n *clusterNode) allow(sessions int, until time.Duration) {
	a := scheduler.Allowance{Limit: n.wanted.Limit, Sessions: sessions, Until: beginning.Add(until)}
	if a != n.told {
		n.told = a
		n.answer(a)
	}
}

// busy is how many sessions the node has.
func (n *clusterNode) busy() int { return n.core.Counts().Sessions }
