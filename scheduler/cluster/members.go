package cluster

// Members: the nodes of the cluster, and who counts as one.

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"zsched/scheduler"
)

// rememberNodes is how long a silent node counts as one that may use a part of a
// limit.
const rememberNodes = 10 * time.Minute

// members has the nodes of the cluster and this node's connection with the store.
type members struct {
	known map[string]boot // the last report of each other node, by our clock
	self  string

	joined  bool   // the store has accepted this process under its name
	refused string // the claim of another process on the name; "": none
	number  int64  // of the last call of share
	reports boot   // when the next report is due
	lastOK  boot   // when the last answered batch was sent
	late    int    // batches that failed and were sent a ttl or more after lastOK
	lost    bool
	// returningUntil is the end of the time in which the store grants this node no
	// more than its busy sessions, because it was lost.
	returningUntil boot
	born           int64 // of the epoch, ms of the store's clock
	started        bool
}

func (m *members) init(o Options) {
	m.self, m.known = o.Node, make(map[string]boot)
}

// start is called in the first turn.
func (m *members) start(now boot) {
	m.started, m.lastOK, m.reports = true, now, now
}

// names returns the known nodes, this one included, sorted.
func (m *members) names() []string {
	names := append(slices.Collect(maps.Keys(m.known)), m.self)
	slices.Sort(names)
	return names
}

// parts is the number of nodes among which limits are divided without the store: those
// that are known, and at least as many as PARAMcluster says. It is 0 if this process has never
// reached the store, and PARAMcluster does not say how many there are.
func (n *Node) parts() int {
	if n.members.born == 0 && n.options.Store.Nodes == 0 {
		return 0
	}
	return max(len(n.members.names()), n.options.Store.Nodes)
}

// reportDue adds the report of this node, if it is due.
func (n *Node) reportDue(b *batch) {
	m := &n.members
	if m.reports > n.now {
		return
	}
	m.reports = n.now + boot(n.times.report)
	b.add(reportScript, n.reportKeys(), n.reportArgs(false), func(reply any, err error) error { return n.reported(b.sentAt, reply, err) })
}

func (n *Node) reportKeys() []string {
	return []string{keyPrefix + "nodes", keyPrefix + "name:" + n.options.Node, keyPrefix + "epoch"}
}

func (n *Node) reportArgs(leave bool) []any {
	o, flag := &n.options, 0
	if leave {
		flag = 1
	}
	return []any{o.Node, o.Place, o.Nonce, n.times.ttl.Milliseconds(), rememberNodes.Milliseconds(), flag}
}

// reported takes the reply to a report, and returns what is wrong with it.
func (n *Node) reported(sentAt boot, reply any, err error) error {
	m := &n.members
	values, _ := reply.([]any)
	values = append(values, make([]any, max(0, 4-len(values)))...)
	accepted, _ := values[0].(int64)
	said, _ := values[1].(string) // the claim or the time
	switch {
	case err != nil:
		return err
	case said == "":
		return errReply
	case accepted != 1:
		if m.refused != said {
			n.options.Log(scheduler.Error, "cluster: the name "+n.options.Node+" belongs to another process, so the store is not used: set PARAMnode")
		}
		m.refused, m.joined = said, false
		return nil
	}
	m.refused = ""
	base, err := strconv.ParseInt(said, 10, 64)
	nodes, ok := values[3].([]any)
	if err != nil || !ok {
		return errReply
	}
	if !m.joined {
		// The numbers of a process are higher than those of its predecessor.
		m.number = max(m.number, base)
		m.joined = true
	}
	born, _ := values[2].(int64)
	n.epochIs(born)
	n.learnNodes(sentAt, nodes)
	return nil
}

// learnNodes takes the list of nodes from the reply to a report.
func (n *Node) learnNodes(sentAt boot, values []any) {
	m := &n.members
	for pair := range slices.Chunk(values[:len(values)&^1], 2) {
		name, _ := pair[0].(string)
		ago, _ := pair[1].(int64)
		if name != m.self {
			m.known[name] = sentAt - boot(ago)*boot(time.Millisecond)
		}
	}
	// A store that has lost its memory lists only the nodes that have reported
	// since. A node that has left cannot be told from one that is cut off.
	maps.DeleteFunc(m.known, func(_ string, at boot) bool { return n.now-at >= boot(rememberNodes) })
}

// epochIs notes the epoch that a reply names.
func (n *Node) epochIs(born int64) {
	m := &n.members
	if born == 0 || born == m.born {
		return
	}
	if m.born != 0 {
		n.options.Log(scheduler.Warning, "cluster: the store has begun a new epoch; for "+n.times.ttl.String()+" no new session is granted")
	}
	m.born = born
}

// batchEnded notes whether the store answers.
func (n *Node) batchEnded(sentAt boot, err error) {
	m := &n.members
	switch {
	case err == nil && m.refused == "":
		m.lastOK, m.late = max(m.lastOK, sentAt), 0
		if m.lost {
			n.returned()
		}
	case sentAt >= m.lastOK+boot(n.times.ttl):
		m.late++
		n.checkLost()
	}
	if err != nil {
		n.failures++
		m.reports = n.now + boot(n.times.again) // with the calls about limits that failed
	}
}

// lateBatches is how many batches in a row must fail after a ttl without the store
// before it counts as lost. The first one after a pause of this process may fail
// because its connection has timed out.
const lateBatches = 2

// checkLost begins the time without the store. It needs failed batches, because a node
// that was paused has not tried to reach the store meanwhile.
func (n *Node) checkLost() {
	m := &n.members
	if m.lost || m.late < lateBatches {
		return
	}
	m.lost = true
	n.losses++
	what := "each limit of the cluster is divided among " + strconv.Itoa(n.parts()) + " nodes"
	if n.parts() == 0 {
		what = "nothing under its limits is started before it is reached, because PARAMcluster has no nodes="
	}
	n.options.Log(scheduler.Error, "cluster: the store is lost: "+what)
	waiting := n.backlog
	n.backlog = nil
	for i := range waiting {
		_ = waiting[i].ended(reply{err: errLost})
	}
	for _, l := range n.sortedLimits() {
		n.divide(l)
	}
}

// errLost is the error of calls that were not sent because the store is lost.
var errLost = errors.New("the store is lost")

// returned ends the time without the store. Nothing is started before a reply has
// granted the busy sessions.
func (n *Node) returned() {
	m := &n.members
	m.lost, m.late = false, 0
	m.returningUntil = n.now + boot(n.times.ttl)
	for name := range m.known { // a store that is empty does not list them at once
		m.known[name] = n.now
	}
	n.options.Log(scheduler.Warning, "cluster: the store is back")
	for _, l := range n.sortedLimits() {
		l.mayUse = 0
		n.allow(l, 0, never)
		n.planCall(l, n.now)
	}
}
