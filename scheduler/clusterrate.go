package scheduler

import (
	"time"

	"zsched/scheduler/limit"
	"zsched/scheduler/rule"
)

// clusterrate: tokens for recipients that are drawn from a rate of the cluster, for
// the next two seconds at a time.

// draws are the tokens that a thread has drawn.
type draws struct {
	limit.Drawn
	id      ClusterLimit
	rate    rule.Rate
	low     int  // when at most this many are left, more are drawn
	drawing bool // a Draw has not been answered yet
}

// drawSpan is how long drawn tokens last.
const drawSpan = 2 * time.Second

// setClusterRate gives a thread with shaping the tokens that its parameters ask
// for.
func (cl *cluster) setClusterRate(t *thread) {
	x, rate := t.shaping, t.params.ClusterRate
	if x.draws != nil && x.draws.rate == rate {
		return
	}
	cl.dropTokens(x)
	if rate.Recipients > 0 {
		x.draws = &draws{id: ClusterLimit{"clusterrate", t.key.channel, t.key.host}, rate: rate}
	}
	cl.s.limits.updateGate(t)
}

// dropTokens gives the tokens back, or draws those that are owed.
func (cl *cluster) dropTokens(x *shaping) {
	if w := x.draws; w != nil {
		if w.Left != 0 || w.drawing {
			cl.draw(w, -w.Left)
		}
		x.draws = nil
	}
}

func (cl *cluster) draw(w *draws, n int) {
	cl.s.agenda.do(Draw{Limit: w.id, Max: w.rate.Recipients, Per: w.rate.Span, Tokens: n})
}

// tokensDrawn takes the answer to a Draw.
func (cl *cluster) tokensDrawn(t *thread, e *Allowance) {
	w := t.shaping.draws
	w.drawing = false
	w.low = e.Tokens / 2
	w.Add(time.Duration(cl.s.agenda.now), e.Tokens, time.Duration(cl.s.agenda.instantAt(dateOf(e.Until))))
	cl.s.threads.updateThread(t)
	cl.s.rings.overfeedThread(t)
}

// drawAhead asks for tokens if mail waits and few are left, and gives back those
// whose time is over.
func (cl *cluster) drawAhead(t *thread) {
	w := t.shaping.draws
	if w.Left > 0 && instant(w.Until) <= cl.s.agenda.now {
		cl.draw(w, -w.Left)
		w.Left, w.drawing = 0, false
	}
	if w.drawing || w.Left > w.low || t.backlog() == 0 || !t.mayFeed() {
		return
	}
	w.drawing = true
	cl.draw(w, max(0, -w.Left)+max(1, int(drawSpan/max(1, w.rate.Per()))))
}
