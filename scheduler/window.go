package scheduler

import (
	"math"
	"strconv"
)

// Windows: how many sessions a thread may use (maxthr, initialconcurrency,
// cohortlimit, wakeuprestartonly), and dead destinations.

// window is the concurrency of a thread, by the rules of Postfix's queue
// manager. Each ended job line gives one feedback: a destination failure is
// negative, an agent's death is neither, and everything else is positive.
//
// Without initialconcurrency the window is constant, and the first destination
// failure declares the thread dead. With it, the window moves, and the thread
// is dead when cohortlimit windows in a row have failed.
//
//	        destination failures: cohortlimit is reached
//	alive ──────────────────────────────────────────────► dead, suspended
//	  ▲                                                    │          ▲
//	  │ a late success (a window that moves)               │ end of the suspension
//	  ├────────────────────────────────────────────────────┤          │ failure: the next
//	  │ a success                                          ▼          │ retry step
//	  └─────────────────────────────────────────────── dead, probing ─┘
//
// While the thread is probing, the window is 1, and the session gets one job
// line at a time.
type window struct {
	// size is how many sessions the thread may use while it is alive; 0: as many
	// as initialconcurrency says.
	// Invariant: it is 0 if the window is constant.
	size int
	// success and failure are the feedback that has not moved the window yet.
	// Invariant: at least 0 and below 1.
	success, failure float64
	// failedCohorts is how many windows in a row have failed. Each failure adds
	// 1/size.
	failedCohorts float64
	dead          bool
}

// epsilon is the tolerance of sums of fractions: ten times 1/10 counts as 1.
const epsilon = 1e-9

// of returns the amount for a window of n sessions.
func (f Feedback) of(n int) float64 {
	switch f.Per {
	case PerN:
		return f.Amount / float64(n)
	case PerSqrt:
		return f.Amount / math.Sqrt(float64(n))
	}
	return f.Amount
}

// sessions is how many sessions the window allows under these parameters.
func (w *window) sessions(p *Params) int {
	limit := max(1, p.MaxThr)
	switch {
	case w.dead:
		return 1
	case p.InitialConcurrency == 0:
		return limit
	case w.size == 0:
		return min(p.InitialConcurrency, limit)
	}
	return min(w.size, limit)
}

// succeed gives positive feedback. busy is how many sessions of the thread are
// busy, including the one that reports. The window does not grow beyond busy
// plus the initial sessions, because it would not be used.
func (w *window) succeed(p *Params, busy int) {
	w.failedCohorts = 0
	size := w.sessions(p)
	if size >= max(1, p.MaxThr) || size >= busy+p.InitialConcurrency {
		return
	}
	w.success += p.PositiveFeedback.of(size)
	for w.success >= 1-epsilon {
		size++
		w.success = max(0, w.success-1)
		w.failure = 0
	}
	w.size = min(size, max(1, p.MaxThr))
}

// fail gives negative feedback. It reports whether the destination is dead.
func (w *window) fail(p *Params) bool {
	if w.dead || p.InitialConcurrency == 0 {
		return true
	}
	size := w.sessions(p)
	w.failedCohorts += 1 / float64(size)
	if w.failedCohorts >= p.CohortLimit-epsilon {
		return true
	}
	w.failure -= p.NegativeFeedback.of(size)
	for w.failure < -epsilon {
		size--
		w.failure++
		w.success = 0
	}
	w.failure = max(0, w.failure)
	w.size = max(1, size)
	return false
}

// windowSize is how many sessions the thread may use now.
func (t *thread) windowSize() int { return t.window.sessions(t.params) }

// sessionLimit is the same, less what a reply rule takes.
func (t *thread) sessionLimit() int {
	size := t.windowSize()
	if t.shaping != nil && t.shaping.part < 1 {
		size = min(size, max(1, int(float64(t.params.MaxThr)*t.shaping.part+epsilon)))
	}
	return size
}

// freeSlots is how many more sessions the thread may take.
func (t *thread) freeSlots() int { return min(t.roomInWindow(), t.roomInShare(), t.threadGate()) }

// roomInWindow is the same as far as its window goes.
func (t *thread) roomInWindow() int {
	size := t.sessionLimit()
	if t.params.WakeupRestartOnly && t.sessionCap > 0 {
		size = min(size, t.sessionCap)
	}
	return size - t.busy
}

// setSessionCap sets the cap of wakeuprestartonly: mail that arrives starts no
// further agent while one is serving the thread or starting for it, unless the
// thread wants more sessions than those anyway. Other events remove the cap.
func (t *thread) setSessionCap(arrival bool) {
	t.sessionCap = 0
	if !arrival || !t.params.WakeupRestartOnly || len(t.agents) == 0 {
		return
	}
	starting := 0
	for _, a := range t.agents {
		if a.startedFor == t {
			starting += a.sessions
		}
	}
	if t.wants <= starting {
		t.sessionCap = t.busy + starting
	}
}

// applyOutcome applies the result of an ended line to its thread: feedback for
// the window, and a suspension by retryat.
func (dv *delivery) applyOutcome(l *line, t *thread) {
	switch {
	case !l.destinationFailed:
		dv.destinationAnswered(t, l.suspensions == t.suspensions)
	case l.retryAt == 0 && l.suspensions == t.suspensions:
		dv.destinationFailed(t)
	}
	if l.retryAt != 0 {
		dv.suspend(t, max(l.retryAt, t.suspendedUntil))
		t.inRetryStep = false
	}
}

// destinationAnswered handles positive feedback, which revives a dead thread. A
// probe revives it with its initial window; a late result (of a line that was
// fed before the suspension) with as many sessions as are busy. With a constant
// window, a late result does not end the suspension, unless it is by the word of another
// node.
func (dv *delivery) destinationAnswered(t *thread, recent bool) {
	if t.retry != 0 || t.params.InitialConcurrency > 0 {
		dv.noteThreadChange(t)
	}
	t.retry = 0
	switch {
	case t.params.InitialConcurrency == 0 && t.window.dead && (t.suspendedUntil == 0 || t.told() != nil):
		dv.revive(t, 0)
		dv.tellAlive(t)
	case t.params.InitialConcurrency == 0:
	case t.window.dead && recent:
		dv.revive(t, t.params.InitialConcurrency)
		dv.tellAlive(t)
	case t.window.dead:
		dv.revive(t, max(1, min(t.busy, t.params.InitialConcurrency)))
		dv.tellAlive(t)
	default:
		before := t.windowSize()
		t.window.succeed(t.params, t.busy)
		dv.noteFeedback(t, "success")
		if t.windowSize() != before {
			dv.updateThread(t)
		}
	}
}

// destinationFailed handles negative feedback from a line that was fed since the
// last suspension. If it makes the thread dead, the thread is suspended for the
// next step of its retries.
func (dv *delivery) destinationFailed(t *thread) {
	dv.noteThreadChange(t)
	if !t.window.fail(t.params) {
		dv.noteFeedback(t, "failure")
		dv.updateThread(t)
		return
	}
	t.window = window{dead: true}
	dv.counts.Suspensions++
	dv.suspend(t, dv.now.after(dv.suspensionLength(t)))
	dv.tellDead(t)
	dv.noteFeedback(t, "dead")
}

// revive makes a dead thread alive and ends its suspension. The mail that failed
// together with the destination is due now; the window bounds how much of it is
// fed.
func (dv *delivery) revive(t *thread, size int) {
	t.window = window{size: size}
	dv.noteThreadChange(t)
	dv.counts.Revivals++
	if t.suspendedUntil != 0 {
		t.suspendedUntil = dv.now
	}
	dv.noteFeedback(t, "revived")
	if t.revivable > 0 {
		dv.beginUpdate(t, pullForward)
		return
	}
	if t.suspendedUntil != 0 {
		dv.resumeThread(t) // this drops the thread if it is empty
		return
	}
	dv.updateThread(t)
}

// noteFeedback logs one feedback and the window after it (feedbacklog).
func (ag *agenda) noteFeedback(t *thread, what string) {
	if !t.params.FeedbackLog {
		return
	}
	fraction := func(x float64) string { return strconv.FormatFloat(x, 'f', 3, 64) }
	w := &t.window
	ag.do(Note{Text: "feedback " + t.key.channel + "/" + t.key.host + ": " + what +
		", window " + strconv.Itoa(t.windowSize()) + " of " + strconv.Itoa(max(1, t.params.MaxThr)) +
		", busy " + strconv.Itoa(t.busy) + ", success " + fraction(w.success) +
		", failure " + fraction(w.failure) + ", failed cohorts " + fraction(w.failedCohorts)})
}
