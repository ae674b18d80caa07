package cluster

import (
	"math"
	"strconv"
	"time"

	"zsched/scheduler"
)

// rate is one rate of the cluster, from which this node draws tokens ahead
// (draw.lua). Each token is a recipient.
type rate struct {
	id     scheduler.ClusterLimit
	name   string // in keys
	max    int    // tokens in each per
	per    time.Duration
	wanted int  // tokens that the core waits for; 0: none
	drawn  boot // when the last draw was sent
	call   timed
	flying bool
	// arrival is the theoretical arrival time of this node's part of the rate while
	// the store is lost.
	arrival boot
}

const (
	// drawSpan is the time for which tokens are drawn ahead, and drawGap the least
	// time between two draws.
	drawSpan = 2 * time.Second
	drawGap  = time.Second
	// drawAgain is how long after a failed draw the next one is tried.
	drawAgain = time.Second
)

// interval is the time for one token.
func (r *rate) interval() time.Duration { return max(1, r.per/time.Duration(max(1, r.max))) }

// burst is how many tokens the bucket holds.
func (r *rate) burst() int {
	return max(1, int(math.Ceil(float64(drawSpan)/float64(r.interval()))))
}

// draw performs a Draw of the core.
func (n *Node) draw(d scheduler.Draw) {
	r := n.rates[d.Limit]
	if r == nil {
		r = &rate{id: d.Limit, name: nameOf(d.Limit)}
		r.call.item = r
		n.rates[d.Limit] = r
	}
	if r.max != d.Max || r.per != d.Per {
		r.max, r.per, r.arrival = d.Max, d.Per, 0
	}
	if d.Tokens <= 0 {
		r.wanted = 0
		n.due.Remove(&r.call)
		if d.Tokens < 0 && !n.members.lost && n.members.joined {
			b := new(batch)
			n.addDraw(b, r, d.Tokens, nil)
			n.backlog = append(n.backlog, b.calls...)
		}
		return
	}
	r.wanted = d.Tokens
	n.planDraw(r)
}

// planDraw plans the next draw of a rate whose tokens are wanted.
func (n *Node) planDraw(r *rate) {
	if r.wanted > 0 && !r.flying && r.call.index == 0 {
		n.due.Put(max(n.now, r.drawn+boot(drawGap)), &r.call)
	}
}

// drawTokens adds a draw to a batch: at most the tokens of drawSpan. The script
// divides them among the nodes with demand.
func (n *Node) drawTokens(b *batch, r *rate) {
	r.drawn, r.flying = n.now, true
	n.addDraw(b, r, min(r.wanted, r.burst()), func(reply any, err error) {
		values, err := numbers(reply, err)
		n.drew(r, b.sentAt, values, err)
	})
}

func (n *Node) addDraw(b *batch, r *rate, tokens int, done func(any, error)) {
	key := keyPrefix + "rate:" + r.name + ":" + strconv.Itoa(r.max) + ":" + r.per.String()
	interval := float64(r.per.Microseconds()) / float64(r.max)
	b.add(drawScript, []string{key, key + ":nodes", keyPrefix + "epoch"}, []any{
		n.options.Node, n.options.Nonce, strconv.FormatFloat(interval, 'f', 3, 64), r.burst(), tokens,
		n.times.ttl.Milliseconds(), drawSpan.Milliseconds(),
	}, done)
}

// drew handles the reply to a draw. A failed draw is not repeated, because its tokens
// may have been drawn; a new draw is made later.
func (n *Node) drew(r *rate, sentAt boot, reply []int64, err error) {
	r.flying = false
	switch {
	case err != nil || len(reply) < 4:
		if r.wanted > 0 {
			n.due.Put(n.now+boot(drawAgain), &r.call)
		}
		return
	case reply[0] > 0:
		n.allowTokens(r, int(reply[0]), sentAt+boot(drawSpan))
	case r.wanted > 0:
		wait := boot(reply[1]) * boot(time.Microsecond)
		if n.options.Rand != nil { // so that the nodes do not all draw at the same moment
			wait += boot(n.options.Rand.Int64N(int64(wait)/10 + int64(time.Millisecond)))
		}
		n.due.Put(n.now+max(wait, boot(10*time.Millisecond)), &r.call)
	}
	n.epochIs(reply[3])
}

// allowTokens gives drawn tokens to the core, to be used until a time.
func (n *Node) allowTokens(r *rate, tokens int, until boot) {
	r.wanted = 0
	n.events = append(n.events, scheduler.Allowance{Limit: r.id, Tokens: tokens, Until: n.coreTime(until)})
}

// drawAlone gives the core tokens of this node's part of the rate while the store
// is lost.
func (n *Node) drawAlone(r *rate) {
	part := boot(n.parts())
	if r.wanted == 0 || part == 0 {
		return
	}
	r.drawn = n.now
	interval := boot(r.interval()) * part
	r.arrival = max(r.arrival, n.now)
	burst := max(interval, boot(drawSpan))
	tokens := min(r.wanted, int((n.now+burst-r.arrival)/interval))
	if tokens <= 0 {
		n.due.Put(r.arrival+interval-burst, &r.call)
		return
	}
	r.arrival += boot(tokens) * interval
	n.allowTokens(r, tokens, n.now+boot(drawSpan))
}
