package scheduler

import (
	"strconv"

	"zsched/scheduler/limit"
)

// Windows: how many sessions a thread may use (maxthr, initialconcurrency,
// cohortlimit, wakeuprestartonly), and dead destinations. limit.Window has the rules by
// which a window moves; the thread adds suspensions:
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

// windowSize is how many sessions the thread may use now.
func (t *thread) windowSize() int {
	return t.window.Sessions(max(1, t.params.MaxThr), t.params.Window.Initial)
}

// setSessionCap sets the cap of wakeuprestartonly: mail that arrives starts no
// further agent while one is serving the thread or starting for it, unless the
// thread wants more sessions than those anyway. Other events remove the cap.
func (t *thread) setSessionCap(arrival bool) {
	t.sessionCap = 0
	if !arrival || !t.params.WakeupRestartOnly {
		return
	}
	if n := t.busy() + t.ring.expected; n > 0 && t.wants <= t.ring.expected {
		t.sessionCap = n
	}
}

// applyOutcome applies the result of an ended line to its thread: feedback for
// the window, and a suspension by retryat.
func (li *lines) applyOutcome(l *line, t *thread) {
	switch {
	case !l.destinationFailed:
		li.destinationAnswered(t, l.suspensions == t.suspensions)
	case l.retryAt == 0 && l.suspensions == t.suspensions:
		li.destinationFailed(t)
	}
	if l.retryAt != 0 {
		li.s.threads.suspend(t, l.retryAt)
	}
}

// destinationAnswered handles positive feedback, which revives a dead thread. A
// probe revives it with its initial window; a late result (of a line that was
// fed before the suspension) with as many sessions as are busy. With a constant
// window, a late result does not end the suspension, unless it is by the word of another
// node.
func (li *lines) destinationAnswered(t *thread, recent bool) {
	t.retry = 0
	switch {
	case t.params.Window.Initial == 0 && t.window.Dead && (t.suspendedUntil == 0 || t.told() != nil):
		li.revive(t, 0)
	case t.params.Window.Initial == 0:
	case t.window.Dead && recent:
		li.revive(t, t.params.Window.Initial)
	case t.window.Dead:
		li.revive(t, max(1, min(t.busy(), t.params.Window.Initial)))
	default:
		before := t.windowSize()
		t.window.Succeed(&t.params.Window, max(1, t.params.MaxThr), t.busy())
		li.s.agenda.logFeedback(t, "success")
		if t.windowSize() != before {
			li.s.threads.updateThread(t)
		}
	}
}

// destinationFailed handles negative feedback from a line that was fed since the
// last suspension. If it makes the thread dead, the thread is suspended for the
// next step of its retries.
func (li *lines) destinationFailed(t *thread) {
	if !t.window.Fail(&t.params.Window, max(1, t.params.MaxThr)) {
		li.s.agenda.logFeedback(t, "failure")
		li.s.threads.updateThread(t)
		return
	}
	t.window = limit.Window{Dead: true}
	li.s.mail.counts.Suspensions++
	li.s.threads.suspend(t, li.s.agenda.now.after(li.suspensionLength(t)))
	li.s.cluster.tellDead(t)
	li.s.agenda.logFeedback(t, "dead")
}

// revive makes a dead thread alive and ends its suspension, if that is not by a rule. All mail
// that waits is due now; the window bounds how much of it is fed.
func (li *lines) revive(t *thread, size int) {
	t.window = limit.Window{Size: size}
	isOver := t.suspendedUntil != 0 && t.suspendingRule() == nil
	if isOver {
		t.suspendedUntil = li.s.agenda.now
	}
	li.s.agenda.logFeedback(t, "revived")
	li.s.cluster.tell(t, Destination{State: DestinationIsAlive})
	switch {
	case t.states[waiting] > 0:
		li.s.threads.beginUpdate(t, wakeWaiting)
	case isOver:
		li.s.threads.resumeThread(t) // this drops the thread if it is empty
	default:
		li.s.threads.updateThread(t)
	}
}

// logFeedback logs one feedback and the window after it (feedbacklog).
func (ag *agenda) logFeedback(t *thread, what string) {
	if !t.params.FeedbackLog {
		return
	}
	fraction := func(x float64) string { return strconv.FormatFloat(x, 'f', 3, 64) }
	w := &t.window
	ag.do(Note{Text: "feedback " + t.key.channel + "/" + t.key.host + ": " + what +
		", window " + strconv.Itoa(t.windowSize()) + " of " + strconv.Itoa(max(1, t.params.MaxThr)) +
		", busy " + strconv.Itoa(t.busy()) + ", success " + fraction(w.Success) +
		", failure " + fraction(w.Failure) + ", failed cohorts " + fraction(w.FailedCohorts)})
}
