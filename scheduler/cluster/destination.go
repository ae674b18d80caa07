package cluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"zsched/scheduler"
)

// Dead destinations: what this node has found is recorded in the store (learn.lua) and
// told to the other nodes in the stream of news; what they have found comes from the
// stream. The right to try a dead destination is a key in the store (probe.lua).
// Without the store, each node tries for itself, and tells what it has found once the
// store is reached.

const (
	// keepDestination is how long the store keeps what is known of a destination after
	// its next attempt.
	keepDestination = 24 * time.Hour
	// maxProbe is how long the right to try a destination is renewed, in case the
	// scheduler does not say that the attempt is over.
	maxProbe = time.Hour
	// maxBacklog bounds the calls that wait while a batch is with the store, and the
	// destinations that wait for the store to be reached. What is found about further
	// ones is not told.
	maxBacklog = 10_000
	// maxNews bounds the stream of news.
	maxNews = 100_000
)

// destination names a destination.
type destination struct{ channel, host string }

func (d destination) compare(other destination) int {
	return cmp.Or(strings.Compare(d.channel, other.channel), strings.Compare(d.host, other.host))
}

// probe is the right to try a dead destination, which this node has or asks for.
type probe struct {
	destination
	asked bool // the core waits for an answer
	until boot // it is no longer renewed then
	call  timed
}

// destinationKey returns the name of a key about a destination. The braces put all keys
// about one destination into one hash slot of a Redis Cluster.
func (n *Node) destinationKey(d destination, what string) string {
	return n.options.Prefix + ":{" + escape(d.channel) + "/" + escape(d.host) + "}:" + what
}

// identity is this process, as the owner of rights to try destinations.
func (n *Node) identity() string { return n.options.Node + " " + n.options.Nonce }

// backlogAdd adds a call that is sent without delay.
func (n *Node) backlogAdd(c call) { n.backlog = append(n.backlog, c) }

// reachable reports whether calls are sent at all.
func (n *Node) reachable() bool { return n.members.joined && !n.members.lost }

// untold has what this node has found about destinations and could not give to the store,
// because the store had not been reached yet or was lost: the last of each destination.
type untold struct {
	found map[destination]scheduler.Destination
	at    boot // when they are sent again, if the store can be reached then
}

// keep adds what was found about a destination, unless something newer is there.
func (u *untold) keep(a scheduler.Destination, newest bool) {
	d := destination{a.Channel, a.Host}
	_, known := u.found[d]
	if known && !newest || !known && len(u.found) >= maxBacklog {
		return
	}
	if u.found == nil {
		u.found = make(map[destination]scheduler.Destination)
	}
	u.found[d] = a
}

// untoldDue reports whether there is something to tell and the store can be reached.
func (n *Node) untoldDue() bool { return n.reachable() && len(n.untold.found) > 0 }

// tellUntold tells what could not be told when it was found, if the store can be
// reached now.
func (n *Node) tellUntold() {
	if !n.untoldDue() || n.untold.at > n.now {
		return
	}
	found := n.untold.found
	n.untold.found = nil
	for _, d := range slices.SortedFunc(maps.Keys(found), destination.compare) {
		n.tellDestination(found[d])
	}
}

// tellDestination performs a Destination of the core: it tells the store and the other
// nodes what this node has found.
func (n *Node) tellDestination(a scheduler.Destination) {
	if !n.reachable() || len(n.backlog) >= maxBacklog {
		n.untold.keep(a, true)
		return
	}
	state, span := "alive", int64(0)
	if a.Dead {
		state, span = "dead", max(0, a.Until.Sub(n.wall).Milliseconds())
	}
	reason := strings.ToValidUTF8(a.Reason, "")
	n.backlogAdd(call{
		script: learnScript, keys: []string{n.destinationKey(destination{a.Channel, a.Host}, "k")},
		args: []any{state, span, a.Window, reason, n.options.Node, keepDestination.Milliseconds()},
		done: func([]int64, error) {},
	})
	n.backlogAdd(call{
		whole: func(_ any, err error) {
			if err != nil {
				n.untold.keep(a, false)
				n.untold.at = n.now + boot(n.times.again)
			}
		},
		xadd: &redis.XAddArgs{Stream: n.key("news"), MaxLen: maxNews, Approx: true, Values: []string{
			"channel", a.Channel, "host", a.Host, "state", state, "for", strconv.FormatInt(span, 10),
			"window", strconv.Itoa(a.Window), "reason", reason, "node", n.options.Node, "by", n.options.Nonce,
		}},
	})
}

// probing performs a Probing of the core.
func (n *Node) probing(a scheduler.Probing) {
	d := destination{a.Channel, a.Host}
	p := n.probes[d]
	if a.Release {
		if p != nil {
			delete(n.probes, d)
			n.due.put(&p.call, never)
		}
		if n.reachable() {
			n.backlogAdd(n.probeCall(d, 0, false, func(any, error) {}))
		}
		return
	}
	if p == nil {
		p = &probe{destination: d}
		p.call.item = p
		n.probes[d] = p
	}
	p.asked = true
	if n.members.lost {
		n.grantProbe(p)
		return
	}
	n.backlogAdd(n.probeCall(d, n.times.probe, false, func(reply any, err error) { n.probeTaken(p, reply, err) }))
}

func (n *Node) probeCall(d destination, span time.Duration, renew bool, whole func(any, error)) call {
	flag := 0
	if renew {
		flag = 1
	}
	return call{
		script: probeScript, keys: []string{n.destinationKey(d, "probe")},
		args: []any{n.identity(), span.Milliseconds(), flag}, whole: whole,
	}
}

// probeTaken handles the reply to the question whether this node may try a destination.
// If the store does not answer, it may: then local rules apply.
func (n *Node) probeTaken(p *probe, reply any, err error) {
	if n.probes[p.destination] != p || !p.asked {
		return
	}
	values, _ := reply.([]any)
	if err != nil || len(values) < 3 {
		n.grantProbe(p)
		return
	}
	p.asked = false
	delete(n.probes, p.destination)
	wait, _ := values[1].(int64)
	owner, _ := values[2].(string)
	node, _, _ := strings.Cut(owner, " ")
	until := n.now + min(boot(wait)*boot(time.Millisecond), boot(n.times.renew))
	if n.options.Rand != nil { // so that the nodes do not all ask at the same moment
		until += boot(n.options.Rand.Int64N(int64(n.times.renew) / 10))
	}
	n.events = append(n.events, scheduler.ProbeAnswer{Channel: p.channel, Host: p.host, Node: node, Until: n.coreTime(until)})
}

// grantProbe tells the core that it may try a destination, and plans the renewal.
func (n *Node) grantProbe(p *probe) {
	p.asked, p.until = false, n.now+boot(maxProbe)
	n.events = append(n.events, scheduler.ProbeAnswer{Channel: p.channel, Host: p.host, Granted: true})
	n.due.put(&p.call, n.now+boot(n.times.renewProbe))
}

// grantProbes answers all questions that the store has not answered, because it is
// lost.
func (n *Node) grantProbes() {
	for _, d := range slices.SortedFunc(maps.Keys(n.probes), destination.compare) {
		if p := n.probes[d]; p.asked {
			n.grantProbe(p)
		}
	}
}

// renewProbe renews the right to try a destination while the attempt runs.
func (n *Node) renewProbe(b *batch, p *probe) {
	if n.now >= p.until {
		return
	}
	n.due.put(&p.call, n.now+boot(n.times.renewProbe))
	if !n.members.lost {
		b.calls = append(b.calls, n.probeCall(p.destination, n.times.probe, true, func(any, error) {}))
	}
}

// news is a line of the stream of news.
type news struct {
	limit string // the name of a limit whose division has changed
	by    string // the nonce of the process that wrote it
	// The other fields are about a destination.
	destination
	dead         bool
	until        boot
	reason, node string
}

// newsOf reads a line. now is the time of the server, and since the same time by
// BootTime.
func newsOf(id string, values map[string]any, now time.Time, since boot) news {
	text := func(name string) string { v, _ := values[name].(string); return v }
	line := news{
		limit: text("limit"), by: text("by"), destination: destination{text("channel"), text("host")},
		dead: text("state") == "dead", reason: text("reason"), node: text("node"),
	}
	ms, _, _ := strings.Cut(id, "-")
	written, _ := strconv.ParseInt(ms, 10, 64)
	span, _ := strconv.ParseInt(text("for"), 10, 64)
	line.until = since + boot(time.UnixMilli(written).Sub(now)) + boot(min(span, maxSpan.Milliseconds()))*boot(time.Millisecond)
	return line
}

// maxSpan bounds the time for which a destination is called dead.
const maxSpan = 366 * 24 * time.Hour

// heard handles a line of the stream of news.
func (n *Node) heard(line news) {
	if line.limit != "" {
		n.limitNews(line.limit)
	}
	if line.channel == "" {
		return
	}
	n.events = append(n.events, scheduler.DestinationNews{
		Channel: line.channel, Host: line.host, Dead: line.dead, Until: n.coreTime(line.until), Node: line.node, Reason: line.reason,
	})
}

// Destination is what the store has recorded about a destination.
type Destination struct {
	Dead   bool
	Until  time.Time // when it is tried again, by the clock of the store
	Window int
	Reason string
	Node   string
	Calls  int64 // how often it was recorded
}

// Destination asks the store for what it has recorded about a destination; nil:
// nothing. Any goroutine may call it.
func (n *Node) Destination(ctx context.Context, channel, host string) (*Destination, error) {
	ctx, cancel := context.WithTimeout(ctx, n.store.timeout)
	defer cancel()
	fields, err := n.store.reader.HGetAll(ctx, n.destinationKey(destination{channel, host}, "k")).Result()
	if err != nil {
		return nil, fmt.Errorf("asking the store about a destination: %w", err)
	}
	if len(fields) == 0 {
		return nil, nil
	}
	d := &Destination{Dead: fields["state"] == "dead", Reason: fields["reason"], Node: fields["node"]}
	until, _ := strconv.ParseInt(fields["until"], 10, 64)
	d.Until = time.UnixMilli(until)
	d.Window, _ = strconv.Atoi(fields["window"])
	d.Calls, _ = strconv.ParseInt(fields["n"], 10, 64)
	return d, nil
}
