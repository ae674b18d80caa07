package scheduler

import "time"

// clusterrate: tokens for recipients that are drawn from a rate of the cluster, for
// the next two seconds at a time.

// drawnTokens are the tokens of a thread.
type drawnTokens struct {
	id   ClusterLimit
	rate Rate
	left int // not used yet; negative: a job line had more recipients than there were tokens
	// until is when they are given back. They are spread evenly over that time: one
	// may be used at readyAt, and the next ones per later.
	until, readyAt instant
	per            time.Duration
	low            int  // when at most this many are left, more are drawn
	drawing        bool // a Draw has not been answered yet
}

// drawSpan is how long drawn tokens last.
const drawSpan = 2 * time.Second

// setClusterRate gives a thread with shaping the tokens that its parameters ask
// for.
func (q *queue) setClusterRate(t *thread) {
	x, p := t.shaping, t.params
	rate := p.ClusterRate
	if !q.config.Cluster || rate.Recipients <= 0 {
		rate = Rate{}
	}
	if x.draws != nil && x.draws.rate == rate {
		return
	}
	q.dropTokens(x)
	if rate != (Rate{}) {
		x.draws = &drawnTokens{id: ClusterLimit{"clusterrate", t.key.channel, t.key.host}, rate: rate}
	}
	q.updateGate(t)
}

// dropTokens gives the tokens back, or draws those that are owed.
func (q *queue) dropTokens(x *shaping) {
	if w := x.draws; w != nil {
		if w.left != 0 || w.drawing {
			q.draw(w, -w.left)
		}
		x.draws = nil
	}
}

func (q *queue) draw(w *drawnTokens, n int) {
	q.do(Draw{Limit: w.id, Max: w.rate.Recipients, Per: w.rate.Span, Tokens: n})
}

// tokens is how many may be used now.
func (w *drawnTokens) tokens(now instant) int {
	if w.left <= 0 || w.readyAt > now || w.until <= now {
		return 0
	}
	return min(w.left, 1+int(now.since(w.readyAt)/max(1, w.per)))
}

// nextAt is when the next one may be used, or the tokens are given back; never: an
// Allowance must come first.
func (w *drawnTokens) nextAt(now instant) instant {
	if w.left <= 0 {
		return never
	}
	next := w.readyAt
	if next <= now {
		next = w.readyAt.after(w.per * time.Duration(w.tokens(now)))
	}
	return min(max(next, now+1), w.until)
}

// take uses n tokens, whether they are there or not.
func (w *drawnTokens) take(now instant, n int) {
	w.left -= n
	w.readyAt = max(w.readyAt, now).after(w.per * time.Duration(n))
}

// tokensDrawn takes the answer to a Draw.
func (d *dispatch) tokensDrawn(t *thread, e *Allowance) {
	w := t.shaping.draws
	w.drawing = false
	w.left += e.Tokens
	w.until = d.instantAt(dateOf(e.Until))
	w.low = e.Tokens / 2
	if w.left > 0 {
		w.per = w.until.since(d.now) / time.Duration(w.left)
		w.readyAt = min(max(w.readyAt, d.now), d.now.after(w.per))
	}
	d.updateThread(t)
	d.overfeedThread(t)
}

// drawAhead asks for tokens if mail waits and few are left, and gives back those
// whose time is over.
func (q *queue) drawAhead(t *thread) {
	w := t.shaping.draws
	if w.left > 0 && w.until <= q.now {
		q.draw(w, -w.left)
		w.left, w.drawing = 0, false
	}
	if w.drawing || w.left > w.low || t.queue().len() == 0 || !t.mayFeed() {
		return
	}
	w.drawing = true
	q.draw(w, max(0, -w.left)+max(1, int(drawSpan/max(1, w.rate.per()))))
}
