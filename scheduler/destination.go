package scheduler

import (
	"time"

	"zsched/scheduler/limit"
	"zsched/scheduler/rule"
)

// Dead destinations in a cluster: the nodes pool what they know of which destinations
// are dead, and until when (scheduler-cluster(7), Dead destinations). A node records
// that a destination is dead when it suspends its own thread, and deletes the record at
// a success. It asks for the record when a thread starts, and when it is suspended.
// The answer is advice: it suspends the thread, and advances no retry. Nothing waits
// for it. Each node tries the destination for itself. Without a cluster, nothing of
// this happens.

type (
	// Destination says what this node has found about a destination, or asks what others
	// have found. A DestinationDead is the answer to Asked and Dead, if there is one.
	Destination struct {
		Channel, Host string
		State         DestinationState
		Until         time.Time // when this node tries it again; zero if it is not Dead
		Reason        string    // the last report; "" if it is not Dead
	}

	// DestinationDead: another node has found that a destination is dead.
	DestinationDead struct {
		Channel, Host string
		Until         time.Time // when that node tries it again
		Node, Reason  string
	}
)

// DestinationState is what a node says about a destination.
type DestinationState uint8

const (
	DestinationAsked   DestinationState = iota // it only asks
	DestinationIsDead                          // until a time
	DestinationIsAlive                         // after it was dead
)

func (Destination) action() {}

func (DestinationDead) event() {}

// maxReason bounds the reason that is told to other nodes, in bytes.
const maxReason = 300

// tell tells the other nodes that the destination of a thread is dead or alive, or asks what
// they know of it.
func (cl *cluster) tell(t *thread, d Destination) {
	if cl.s.rules.config.Cluster {
		d.Channel, d.Host = t.key.channel, t.key.host
		cl.s.agenda.do(d)
	}
}

// tellDead tells them that the destination of a thread, which was just suspended, is dead.
func (cl *cluster) tellDead(t *thread) {
	d := Destination{State: DestinationIsDead, Until: cl.s.agenda.timeAt(t.suspendedUntil)}
	if last := cl.s.mail.diagnostics.Get(t.diagnostic); last != nil {
		d.Reason = last.text[:min(len(last.text), maxReason)]
	}
	cl.tell(t, d)
}

// destinationDead suspends a thread whose destination another node has found dead, for
// the longest of its own waits at most. Sessions that are busy end normally. If the
// thread is trying the destination itself, or is suspended for longer, nothing happens.
func (cl *cluster) destinationDead(e DestinationDead) {
	t := cl.s.threads.byKey[threadKey{e.Channel, e.Host}]
	if t == nil || t.busy() > 0 && t.window.Dead && t.suspendedUntil == 0 {
		return
	}
	until := min(cl.s.agenda.instantAt(dateOf(e.Until)), cl.s.agenda.now.after(t.params.LongestStep()))
	if until <= max(cl.s.agenda.now, t.suspendedUntil) {
		return
	}
	t.window = limit.Window{Dead: true}
	cl.s.threads.suspend(t, max(until, cl.s.agenda.now.after(rule.ShortestRetry)))
	cl.s.limits.obtainShaping(t).told = &e
}

// told returns by whose word the thread is suspended; nil: this node has found out for
// itself, or the thread is not suspended.
func (t *thread) told() *DestinationDead {
	if t.shaping == nil || t.suspendedUntil == 0 {
		return nil
	}
	return t.shaping.told
}
