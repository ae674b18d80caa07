package cluster

// Limits of the cluster: this node's share of one.

import (
	"slices"
	"strconv"
	"time"

	"zsched/scheduler"
)

// limit is one limit on sessions, or a rate in thousandths, and this node's share of it (share.lua).
type limit struct {
	id         scheduler.ClusterLimit
	name       string // in keys
	max        int    // as configured on this node
	want, busy int    // as the core said last
	// claimed is the most that was wanted since the last call. That much is
	// reported while no other node waits, so that a short pause in the demand
	// gives no share away.
	claimed int

	reported demand // of the last call that was sent
	grant    int    // of the last reply: what the store keeps for this node
	allowed  int    // of the last reply: how many it may have before it starts another
	waiting  bool   // another node wants more than it has
	least    int    // of the last reply: the least of the nodes' settings; 0: no reply yet
	// mayUse is how many sessions may be busy before the time until.
	mayUse int
	until  boot

	told      int // sessions of the last Allowance
	toldUntil boot
	sentAt    boot
	flying    bool  // a call is with the sender
	again     bool  // something has changed since the call was sent
	call      timed // in Node.due
	expiry    timed // in Node.expiring
}

// demand is what a call reports.
type demand struct{ want, busy int }

// nameOf returns the name of a limit in keys, without the braces that
// mean something in a Redis Cluster.
func nameOf(id scheduler.ClusterLimit) string {
	return id.Setting + ":" + escape(id.Channel) + "/" + escape(id.Name)
}

// escape writes "{", "}", "~", "%" and blanks as in URLs.
func escape(s string) string {
	var b []byte
	for i := range len(s) {
		switch c := s[i]; c {
		case '{', '}', '~', '%', ' ':
			b = append(b, '%')
			b = strconv.AppendUint(b, uint64(c), 16)
		default:
			b = append(b, c)
		}
	}
	return string(b)
}

// want takes what the core wants under a limit, and plans a call if the store
// should know of it before the next renewal.
func (n *Node) want(w scheduler.Want) {
	l := n.limits[w.Limit]
	if l == nil {
		if w.Want == 0 && w.Busy == 0 {
			return
		}
		l = &limit{id: w.Limit, name: nameOf(w.Limit), told: -1}
		l.call.item, l.expiry.item = l, l
		n.limits[w.Limit] = l
		if n.members.lost {
			l.max = w.Max
			n.divide(l)
		}
	}
	if l.want == 0 && l.busy == 0 && w.Want > 0 && l.told > 0 {
		n.tell(l) // the core may have forgotten it
	}
	changed := l.max != w.Max
	l.max, l.want, l.busy = w.Max, w.Want, w.Busy
	l.claimed = max(l.claimed, w.Want)
	if changed && n.members.lost {
		n.divide(l)
	}
	if at := l.changeCallAt(n, changed); at < never && (!n.due.Contains(&l.call) || at < n.due.KeyOf(&l.call)) {
		n.planCall(l, at)
	}
}

// changeCallAt returns when a change of the demand must be reported; never: it can
// wait for the renewal.
func (l *limit) changeCallAt(n *Node, setting bool) boot {
	r := l.reported
	soon := max(n.now, l.sentAt+boot(n.times.gap))
	switch {
	case l.sentAt == 0 || setting || r.want == 0 && l.want > 0:
		return n.now
	case l.grant > l.allowed && l.busy < r.busy: // it owes the others places
		return max(n.now, l.sentAt+boot(n.times.gap/10))
	case l.want > r.want && l.busy >= l.mayUse:
		return soon
	case l.waiting && max(l.want, l.busy) < min(r.want, l.grant):
		return soon
	}
	return never
}

func (n *Node) planCall(l *limit, at boot) {
	if l.flying {
		l.again = true
		return
	}
	n.due.Put(at, &l.call)
}

// share adds a call for a limit. Until a reply comes, the node starts no session
// beyond those that it reports as busy.
func (n *Node) share(b *batch, l *limit) {
	want := l.claimed
	if l.waiting {
		want = max(l.want, l.busy)
	}
	l.reported, l.claimed = demand{want, l.busy}, l.want
	l.sentAt, l.flying, l.again = n.now, true, false
	if !n.members.lost {
		l.mayUse = min(l.mayUse, l.busy)
		n.allow(l, l.mayUse, l.until)
	}
	m := &n.members
	m.number++
	returning := 0
	if n.now < m.returningUntil {
		returning = 1
	}
	b.add(shareScript, []string{keyPrefix + "limit:" + l.name, keyPrefix + "epoch"}, []any{
		n.options.Node, n.options.Nonce, m.number, l.max, want, l.busy,
		n.times.ttl.Milliseconds(), n.times.rotate.Milliseconds(), returning,
	}, func(reply any, err error) error {
		values, err := numbers(reply, err)
		if err == nil && (len(values) < 9 || values[0] != 1) {
			err = errReply
		}
		n.shared(l, b.sentAt, values, err)
		return err
	})
}

// shared handles the reply to a call of share.
func (n *Node) shared(l *limit, sentAt boot, reply []int64, err error) {
	l.flying = false
	if err != nil {
		n.due.Put(n.now+boot(n.times.again), &l.call)
		return
	}
	l.grant, l.allowed, l.waiting = int(reply[1]), int(reply[2]), reply[5] == 1
	l.least = int(reply[8])
	n.epochIs(reply[7])
	if l.reported == (demand{}) && l.want == 0 && l.busy == 0 {
		n.forget(l)
		return
	}
	if !n.members.lost {
		l.mayUse, l.until = l.allowed, sentAt+boot(n.times.usable)
		n.expiring.Put(l.until, &l.expiry)
		n.allow(l, l.mayUse, l.until)
	}
	next := n.renewal(sentAt)
	if int(reply[4]) > l.allowed { // others owe it places
		next = min(next, n.now+boot(n.times.again))
	}
	if change := boot(reply[6]) * boot(time.Millisecond); change > 0 {
		next = min(next, n.now+change+boot(time.Millisecond))
	}
	if n.now < n.members.returningUntil {
		next = min(next, n.members.returningUntil)
	}
	if l.again {
		next = n.now
	}
	n.due.Put(min(next, l.changeCallAt(n, false)), &l.call)
}

// renewal returns when a call that was sent at a time is repeated. Renewals are at
// multiples of a tick, so that a batch has many.
func (n *Node) renewal(sentAt boot) boot {
	at := sentAt + boot(n.times.renew)
	return at - at%boot(max(1, n.times.tick))
}

// forget drops a limit for which the store keeps nothing for this node.
func (n *Node) forget(l *limit) {
	n.due.Remove(&l.call)
	n.expiring.Remove(&l.expiry)
	delete(n.limits, l.id)
}

// expire says which shares may no longer be used.
func (n *Node) expire() {
	for n.expiring.Next() <= n.now {
		l := n.expiring.Pop().item
		l.mayUse = 0
		if !n.members.lost {
			n.allow(l, 0, never)
		}
	}
}

// divide gives this node its part of a limit while the store is lost: L/n, the limit
// divided by the number of nodes. If that is 0, the first nodes by name have 1 each, if
// all are known.
func (n *Node) divide(l *limit) {
	l.mayUse = 0
	limit := l.max
	if l.least > 0 {
		limit = min(limit, l.least)
	}
	nodes, parts := n.members.names(), n.parts()
	if parts == 0 {
		n.allow(l, 0, never)
		return
	}
	part := limit / parts
	if part == 0 && len(nodes) == parts && slices.Index(nodes, n.options.Node) < limit {
		part = 1
	}
	n.allow(l, part, never)
}
