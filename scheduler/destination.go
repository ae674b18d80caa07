package scheduler

import (
	"cmp"
	"time"
)

// Dead destinations in a cluster: the nodes tell each other which destinations are
// dead, and one node at a time tries a dead one (scheduler-cluster(7), Dead
// destinations). What another node says is advice: it suspends a thread or ends the
// suspension, and advances no retry. Without a cluster, nothing of this happens.
//
//	              own failure                Destination{Dead}, Probing{Release}
//	alive ─────────────────────────────► dead, suspended ◄────────────────────┐
//	  ▲ ▲         DestinationNews{Dead}            │                          │
//	  │ │                                          │ end of the suspension    │
//	  │ │ DestinationNews                          ▼                          │
//	  │ ├─────────────────────────────── dead, asking: Probing ───────────────┤
//	  │ │                                          │    ProbeAnswer: another  │
//	  │ │                                          ▼    node tries it         │
//	  └─┴─────────────────────────────── dead, probing ───────────────────────┘
//	         success: Destination,                      failure
//	         Probing{Release}

type (
	// Destination: this node has found that a destination is dead, or alive again.
	Destination struct {
		Channel, Host string
		Dead          bool
		Until         time.Time // when it is tried again; zero if it is alive
		Window        int       // sessions that the thread may use now
		Reason        string    // the last report; "" if the destination is alive
	}

	// Probing asks whether this node may try a dead destination; ProbeAnswer is the
	// answer. With Release, it says that the node no longer does, and there is no
	// answer.
	Probing struct {
		Channel, Host string
		Release       bool
	}

	// DestinationNews: another node has found that a destination is dead, or alive
	// again.
	DestinationNews struct {
		Channel, Host string
		Dead          bool
		Until         time.Time // when that node tries it again
		Node, Reason  string
	}

	// ProbeAnswer says whether this node may try a dead destination. If not, Node
	// tries it, and this node asks again at Until.
	ProbeAnswer struct {
		Channel, Host string
		Granted       bool
		Until         time.Time
		Node          string
	}
)

func (Destination) action() {}
func (Probing) action()     {}

func (DestinationNews) event() {}
func (ProbeAnswer) event()     {}

// probe is the right of a thread to try its dead destination.
type probe struct {
	key    threadKey
	thread *thread // nil: it is gone
	asked  bool    // a Probing has not been answered yet
	held   bool    // this node may try it
	noted  bool    // is in queue.probes
}

// toldDestination is what another node has said about a destination.
type toldDestination struct {
	key          threadKey
	node, reason string
	until        instant
	probing      bool // that node is trying it
	index        int32
}

// told are the destinations that are dead as other nodes say, by the time at which
// that ends.
type told struct {
	byKey map[threadKey]*toldDestination
	ends  heap[*toldDestination]
}

// maxTold bounds the destinations that other nodes have called dead.
const maxTold = 100_000

// maxReason bounds the reason that is told to other nodes, in bytes.
const maxReason = 300

func (o *told) init() {
	o.byKey = make(map[threadKey]*toldDestination)
	o.ends.index = func(d *toldDestination) *int32 { return &d.index }
}

// find returns what was said about a destination and is still so; nil: nothing.
func (o *told) find(key threadKey, now instant) *toldDestination {
	if d := o.byKey[key]; d != nil && d.until > now {
		return d
	}
	return nil
}

func (o *told) forget(key threadKey) {
	if d := o.byKey[key]; d != nil {
		o.ends.remove(d)
		delete(o.byKey, key)
	}
}

// note keeps what was said, in place of what was said about that destination before.
func (o *told) note(now instant, d *toldDestination) {
	o.forget(d.key)
	for o.ends.next() <= now || o.ends.len() >= maxTold {
		delete(o.byKey, o.ends.pop().key)
	}
	o.byKey[d.key] = d
	o.ends.put(d.until, d)
}

func (o *told) shift(by time.Duration) {
	for _, d := range o.byKey {
		d.until = d.until.shifted(by)
	}
	o.ends.rekey(func(key instant) instant { return key.shifted(by) })
}

// needProbe is called when a thread is dead: in a cluster, its destination is tried
// only with the right to do so.
func (q *queue) needProbe(t *thread) {
	if !q.config.Cluster {
		return
	}
	if x := q.obtainShaping(t); x.probe == nil {
		x.probe = &probe{key: t.key, thread: t}
	}
	q.noteProbe(t.shaping.probe)
}

// noteProbe makes sure that the right to try a destination is asked for or given back
// before the Step ends, if that has become necessary.
func (q *queue) noteProbe(p *probe) {
	if !p.noted {
		p.noted = true
		q.probes = append(q.probes, p)
	}
}

// awaitsProbe reports whether the thread may not be fed because this node has no right
// to try its destination.
func (t *thread) awaitsProbe() bool {
	return t.window.dead && t.shaping != nil && t.shaping.probe != nil && !t.shaping.probe.held
}

// updateProbes asks for the right to try dead destinations, and gives it back.
func (d *dispatch) updateProbes() {
	if len(d.probes) == 0 {
		return
	}
	for i := 0; i < len(d.probes); i++ {
		p := d.probes[i]
		p.noted = false
		t := p.thread
		dead := t != nil && t.window.dead
		needed := dead && t.suspendedUntil == 0 &&
			(p.held && t.busy > 0 || t.busy == 0 && t.mayFeed() && !d.halted() && t.queue().len() > 0)
		switch {
		case needed && !p.held && !p.asked:
			p.asked = true
			d.do(Probing{Channel: p.key.channel, Host: p.key.host})
		case !needed && p.held:
			p.held = false
			d.do(Probing{Channel: p.key.channel, Host: p.key.host, Release: true})
			if dead {
				d.updateThread(t)
			}
		}
		if t != nil && !dead && !p.asked {
			t.shaping.probe = nil
		}
	}
	clear(d.probes)
	d.probes = d.probes[:0]
	d.dispatchDirty()
}

// tellDead tells the other nodes that the destination of a thread, which was just
// suspended, is dead.
func (q *queue) tellDead(t *thread) {
	if !q.config.Cluster {
		return
	}
	q.told.forget(t.key)
	q.needProbe(t)
	a := Destination{Channel: t.key.channel, Host: t.key.host, Dead: true, Until: t.suspendedUntil.time(), Window: t.windowSize()}
	if last := q.diagnostics.get(t.diagnostic); last != nil {
		a.Reason = last.text[:min(len(last.text), maxReason)]
	}
	q.do(a)
}

// tellAlive tells them that it is alive again, as a result has shown.
func (q *queue) tellAlive(t *thread) {
	if q.config.Cluster {
		q.told.forget(t.key)
		q.do(Destination{Channel: t.key.channel, Host: t.key.host, Window: t.windowSize()})
	}
}

// destinationNews applies what another node has found.
func (dv *delivery) destinationNews(e DestinationNews) {
	key := threadKey{e.Channel, e.Host}
	t := dv.threads[key]
	switch until := at(e.Until); {
	case !e.Dead:
		dv.told.forget(key)
		if t != nil && t.window.dead {
			dv.revive(t, t.params.InitialConcurrency)
		}
	case until <= dv.now:
	case t != nil && t.mayIgnore(until):
		// The result of this node is later, or so is the end of its suspension.
	default:
		dv.told.note(dv.now, &toldDestination{key: key, node: e.Node, reason: e.Reason, until: until})
		if t != nil {
			dv.suspendAsTold(t)
		}
	}
}

// mayIgnore reports whether word of another node, that the destination is dead until
// a time, makes no difference: the thread is trying the destination itself, or is
// suspended for longer.
func (t *thread) mayIgnore(until instant) bool {
	return t.suspendedUntil >= until || t.busy > 0 && t.window.dead && t.suspendedUntil == 0 && !t.awaitsProbe()
}

// suspendAsTold suspends a thread whose destination is dead as another node says.
// Sessions that are busy end normally.
func (q *queue) suspendAsTold(t *thread) {
	d := q.told.find(t.key, q.now)
	if d == nil {
		return
	}
	d.until = max(min(d.until, q.now.after(t.params.longestWait(true))), q.now.after(shortestRetry))
	q.told.ends.put(d.until, d)
	t.window = window{dead: true}
	q.needProbe(t)
	if t.suspendedUntil == 0 {
		t.inRetryStep = false
	}
	q.suspend(t, max(d.until, t.suspendedUntil))
}

// probeAnswered applies the answer to a Probing.
func (q *queue) probeAnswered(e ProbeAnswer) {
	key := threadKey{e.Channel, e.Host}
	t := q.threads[key]
	if t == nil || t.shaping == nil || t.shaping.probe == nil || !t.shaping.probe.asked {
		if e.Granted && (t == nil || t.shaping == nil || t.shaping.probe == nil) {
			q.do(Probing{Channel: e.Channel, Host: e.Host, Release: true})
		}
		return
	}
	p := t.shaping.probe
	p.asked, p.held = false, e.Granted
	q.noteProbe(p)
	if !e.Granted && t.window.dead && t.suspendedUntil == 0 {
		d := &toldDestination{key: key, node: e.Node, until: at(e.Until), probing: true}
		if before := q.told.byKey[key]; before != nil {
			d.reason = before.reason
		}
		q.told.note(q.now, d)
		q.suspendAsTold(t)
		return
	}
	q.updateThread(t)
}

// ToldView is what another node has said about a destination.
type ToldView struct {
	Node   string
	Reason string // of the failure; "": not known
	// Probing says that the node is trying the destination. Otherwise it has found it
	// dead.
	Probing bool
	Until   time.Time
}

// viewTold returns what another node has said about a destination; nil: nothing.
func (q *queue) viewTold(key threadKey) *ToldView {
	d := q.told.find(key, q.now)
	if d == nil {
		return nil
	}
	return &ToldView{Node: cmp.Or(d.node, "unknown"), Reason: d.reason, Probing: d.probing, Until: d.until.time()}
}
