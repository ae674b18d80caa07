package limit

import "time"

// Drawn counts tokens that were drawn ahead from a rate of several nodes, to be used until
// a time. They are spread evenly over it.
type Drawn struct {
	Left  int           // not used yet; negative: more were used than there were
	Until time.Duration // the others are given back then
	// One may be used at readyAt, and the next ones per later.
	readyAt, per time.Duration
}

// Add adds n tokens and spreads all of them over the time until.
func (w *Drawn) Add(now time.Duration, n int, until time.Duration) {
	w.Left += n
	w.Until = until
	if w.Left > 0 {
		w.per = (until - now) / time.Duration(w.Left)
		w.readyAt = min(max(w.readyAt, now), after(now, w.per))
	}
}

// Tokens is how many may be used now.
func (w *Drawn) Tokens(now time.Duration) int {
	if w.Left <= 0 || w.readyAt > now || w.Until <= now {
		return 0
	}
	return min(w.Left, 1+int((now-w.readyAt)/max(1, w.per)))
}

// NextAt is when the next one may be used, or the tokens are given back; Never: more must
// be drawn first.
func (w *Drawn) NextAt(now time.Duration) time.Duration {
	if w.Left <= 0 {
		return Never
	}
	next := w.readyAt
	if next <= now {
		next = after(w.readyAt, w.per*time.Duration(w.Tokens(now)))
	}
	return min(max(next, now+1), w.Until)
}

// Take uses n tokens, whether they are there or not.
func (w *Drawn) Take(now time.Duration, n int) {
	w.Left -= n
	w.readyAt = after(max(w.readyAt, now), w.per*time.Duration(n))
}
