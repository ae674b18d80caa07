// Package cluster shares limits and knowledge between the schedulers of several
// nodes, through a store: Redis or Valkey. scheduler-cluster(7) describes it for
// administrators.
//
// The core of each scheduler says how many sessions it could use under each limit
// of the cluster (scheduler.Want) and is told how many it may use
// (scheduler.Allowance). The store divides each limit among the nodes with demand:
// each node has a share of it, for a limited time (ttl). So no call to the store is
// on the path of a job line.
//
//	        loop of the daemon              │  goroutine   │  store
//	core ── Want ──► Node ── batch of calls ─┼► sender ─────┼► scripts: share,
//	     ◄─ Allowance ──  ◄── replies ───────┼─             │  report, destination
//
// Node belongs to the loop. It holds what is known of each limit and decides when
// to call, and what may be used when no reply comes. It reads no clock but the one
// it is given and does no I/O, so tests run it in virtual time. The sender carries
// out one batch of calls at a time.
//
// # Why the limits hold
//
//   - A script runs alone in the store. It grants a node what others do not have,
//     and at least the sessions that the node reports as busy.
//   - From the moment a call is sent until its reply comes, the node starts no
//     session beyond the busy ones that it has reported, because the call may have
//     been carried out although the reply is lost.
//   - Each call has a number. The store refuses one that is older than another that
//     it has carried out.
//   - A node uses what it was granted until 80 % of ttl after it sent the call. The
//     store keeps it for the node until ttl after it received the call. Both count
//     by clocks that nobody sets: CLOCK_BOOTTIME, and the server's.
//   - If the store has lost its data, a new epoch begins. In its first ttl, each
//     node is granted the busy sessions that it reports, and no more.
//   - If the store cannot be reached for a ttl, each node uses its part of the limit
//     divided by the number of nodes that it knows.
package cluster

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"zsched/internal/redisurl"
	"zsched/scheduler"
	"zsched/scheduler/store"
)

// DefaultTTL is how long the store keeps the share of a node that is silent. The
// other times are fractions of it.
const DefaultTTL = 30 * time.Second

// callTimeout bounds a batch of calls. It does not depend on ttl.
const callTimeout = 250 * time.Millisecond

// maxPipeline bounds the calls in a batch.
const maxPipeline = 200

// Options are the parameters of New.
type Options struct {
	Store redisurl.Address
	Node  string // the name of this node
	// Place identifies the postoffice on its machine, so that a process that is
	// started there again is known as the successor.
	Place string
	Nonce string // identifies this process
	// Timeout bounds a batch of calls; 0: callTimeout.
	Timeout time.Duration
	Rand    *rand.Rand
	virtual virtualTime
	// Log gets a message about each change that an administrator should know.
	Log func(severity scheduler.Severity, text string)
}

// virtualTime has what tests in virtual time replace; nil: it is not replaced.
type virtualTime struct {
	clock func() time.Duration // process.SinceBoot
	dial  func(ctx context.Context, network, address string) (net.Conn, error)
}

// boot is a time by a clock that runs steadily, also while the machine sleeps, and
// that nobody sets.
type boot time.Duration

// Node is this node's part in the cluster. All methods but Woken and Close belong to
// the loop's goroutine.
type Node struct {
	options Options
	times   times
	send    func(*batch)      // gives a batch to the sender
	now     boot              // of this turn
	wall    time.Time         // the same time, as the core knows it
	events  []scheduler.Event // for the core
	spare   []scheduler.Event // the slice that take returned last

	limits   map[scheduler.ClusterLimit]*limit
	due      agenda // limits, by the time of the next call
	expiring agenda // limits, by the time at which the share may no longer be used
	backlog  []call // to be sent without delay
	flying   bool   // a batch is with the sender

	members          members
	losses, failures uint64 // how often the store was lost, and batches with a call that failed
	store            *link  // nil in tests that carry out the batches themselves
}

// agenda holds limits by the time at which something must be done about them.
type agenda = store.Heap[boot, *timed]

// timed is a place in an agenda.
type timed struct {
	index int32 // 0: it is not in the agenda
	item  *limit
}

func newAgenda() agenda { return agenda{Index: func(t *timed) *int32 { return &t.index }} }

// times are the spans that follow from ttl.
type times struct {
	ttl    time.Duration
	usable time.Duration // how long a grant is used after its call was sent
	renew  time.Duration // between two calls for a limit that does not change
	tick   time.Duration // renewals are due at multiples of it
	rotate time.Duration // nodes take turns for so long, if there are more nodes than places
	gap    time.Duration // least time between two calls for a limit that changes
	report time.Duration // between two reports of the node
	again  time.Duration // before a call that has failed is repeated
}

func timesOf(ttl time.Duration) times {
	return times{
		ttl: ttl, usable: ttl / 10 * 8, renew: ttl / 10, tick: ttl / 300, rotate: ttl / 6,
		gap: ttl / 120, report: ttl / 15, again: ttl / 30,
	}
}

// newNode makes a Node that sends its batches with send.
func newNode(o Options, send func(*batch)) *Node {
	n := &Node{
		options: o, times: timesOf(cmp.Or(o.Store.TTL, DefaultTTL)), send: send,
		limits: make(map[scheduler.ClusterLimit]*limit),
		due:    newAgenda(), expiring: newAgenda(),
	}
	if n.options.Log == nil {
		n.options.Log = func(scheduler.Severity, string) {}
	}
	n.options.Node = escape(o.Node)
	n.members.init(n.options)
	return n
}

// Perform takes an action of the core that is about the cluster.
func (n *Node) Perform(a scheduler.Action) {
	switch a := a.(type) {
	case scheduler.Want:
		n.want(a)
	case scheduler.Destination:
		n.destination(a)
	}
}

// Turn is called when a turn of the loop begins, before anything else is given to
// the core. It returns events for the core, which stay valid during the next call of
// Turn or Flush, but not during the one after that.
func (n *Node) Turn(wall time.Time) []scheduler.Event {
	n.advance(wall, boot(n.store.clock()))
	for {
		select {
		case a := <-n.store.answers:
			n.answered(a)
		default:
			return n.take()
		}
	}
}

// take returns the events that have come up.
func (n *Node) take() []scheduler.Event {
	out := n.events
	n.events, n.spare = n.spare[:0], out
	return out
}

// advance sets the time, and says what may no longer be used.
func (n *Node) advance(wall time.Time, now boot) {
	if !n.members.started {
		n.members.start(now)
	}
	n.wall, n.now = wall, max(n.now, now)
	n.checkLost()
	n.expire()
}

// Flush is called at the end of a turn. It sends the calls that are due, and
// returns events that the core must get before anything else.
func (n *Node) Flush() []scheduler.Event {
	if n.flying {
		return n.take()
	}
	b := &batch{sentAt: n.now}
	n.reportDue(b)
	if n.members.joined {
		n.backlogDue(b)
	}
	n.callsDue(b)
	if len(b.calls) > 0 {
		n.flying = true
		n.send(b)
	}
	return n.take()
}

// Next returns the time of the next Turn, if nothing else happens first.
func (n *Node) Next() time.Time {
	next := n.expiring.Next()
	if !n.flying {
		next = min(next, n.members.reports)
		if n.members.joined || n.members.lost {
			next = min(next, n.due.Next())
		}
		if n.members.joined && len(n.backlog) > 0 {
			next = n.now
		}
	}
	return n.wall.Add(time.Duration(next - n.now))
}

// never is later than every time.
const never boot = 1<<63 - 1

// allow tells the core what may be used under a limit until a time, if that has
// changed.
func (n *Node) allow(l *limit, sessions int, until boot) {
	if l.told == sessions && l.toldUntil == until {
		return
	}
	l.told, l.toldUntil = sessions, until
	n.tell(l)
}

func (n *Node) tell(l *limit) {
	n.events = append(n.events, scheduler.Allowance{Limit: l.id, Sessions: l.told, Until: n.coreTime(l.toldUntil)})
}

// coreTime converts a time to that of the core.
func (n *Node) coreTime(b boot) time.Time {
	if b == never {
		return farFuture
	}
	return n.wall.Add(time.Duration(b - n.now))
}

// farFuture is the time of an allowance that does not end.
var farFuture = time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)

// sortedLimits returns the limits in the order of their names.
func (n *Node) sortedLimits() []*limit {
	all := make([]*limit, 0, len(n.limits))
	for _, l := range n.limits {
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b *limit) int { return cmp.Compare(a.name, b.name) })
	return all
}

// backlogDue adds the calls that are sent without delay.
func (n *Node) backlogDue(b *batch) {
	room := min(len(n.backlog), maxPipeline-len(b.calls))
	b.calls = append(b.calls, n.backlog[:room]...)
	n.backlog = append(n.backlog[:0], n.backlog[room:]...)
}

// callsDue adds the calls about limits that are due, as many as a batch may have. While the store
// is lost, there are none.
func (n *Node) callsDue(b *batch) {
	lost := n.members.lost
	if !n.members.joined && !lost {
		return
	}
	for len(b.calls) < maxPipeline && n.due.Next() <= n.now {
		if l := n.due.Pop().item; !lost {
			n.share(b, l)
		}
	}
}

// keyPrefix begins all keys in the store. The braces are those of version 0.9, so that nodes of
// both versions share limits.
const keyPrefix = "{zs}:"
