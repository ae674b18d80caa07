package limit

// The window: how many sessions a destination gets (initialconcurrency and its like).

import "math"

// Window is how many sessions a destination may use: a Most that moves, by the rules of
// Postfix's queue manager. Each ended job line gives one feedback: a failure of the
// destination is negative, an agent's death is neither, and everything else is positive.
// The zero value is a window at its initial size.
//
// Without an initial size the window is constant, and the first failure declares the
// destination dead. With it, the window moves, and the destination is dead when as many
// windows in a row have failed as CohortLimit says. While it is dead, the window is 1: one
// session tries it. Success and failure then say nothing more, until the user of the window
// sets it anew.
type Window struct {
	// Size is how many sessions may be used while the destination is alive; 0: the
	// initial ones.
	// Invariant: it is 0 if the window is constant.
	Size int
	// Success and Failure are the feedback that has not moved the window yet.
	// Invariant: at least 0 and below 1.
	Success, Failure float64
	// FailedCohorts is how many windows in a row have failed. Each failure adds
	// 1/Size.
	FailedCohorts float64
	Dead          bool
}

// WindowRules are the parameters of windows, beside the most sessions (maxthr). They are keywords;
// rule.Params has them and says what the tags mean.
type WindowRules struct {
	// Initial window of a thread; 0: always maxthr.
	Initial int `kind:"number 0 10000" name:"initialconcurrency" default:"0"`
	// How far a success widens the window.
	Positive Feedback `kind:"feedback" name:"positivefeedback" default:"1/N"`
	// How far a failure of the destination narrows the window.
	Negative Feedback `kind:"feedback" name:"negativefeedback" default:"1/N"`
	// Number of consecutive failed windows after which a destination is dead.
	CohortLimit float64 `kind:"fraction 0.01 1000" default:"1"`
}

// Feedback says how far one result moves a window: by Amount, divided as Per
// says.
type Feedback struct {
	Amount float64
	Per    Per
}

// Per is the divisor of a Feedback.
type Per uint8

const (
	PerOne  Per = iota // the amount itself
	PerN               // amount / window
	PerSqrt            // amount / sqrt(window)
)

// Epsilon is the tolerance of sums of fractions: ten times 1/10 counts as 1.
const Epsilon = 1e-9

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

// Sessions is how many sessions the window allows. most is at least 1, and initial is 0
// if the window is constant.
func (w *Window) Sessions(most, initial int) int {
	switch {
	case w.Dead:
		return 1
	case initial == 0:
		return most
	case w.Size == 0:
		return min(initial, most)
	}
	return min(w.Size, most)
}

// Succeed gives positive feedback. The window may have most sessions. busy is how many
// sessions are busy, including the one that reports. The window does not grow beyond busy
// plus the initial sessions, because it would not be used.
func (w *Window) Succeed(r *WindowRules, most, busy int) {
	w.FailedCohorts = 0
	size := w.Sessions(most, r.Initial)
	if size >= most || size >= busy+r.Initial {
		return
	}
	w.Success += r.Positive.of(size)
	for w.Success >= 1-Epsilon {
		size++
		w.Success = max(0, w.Success-1)
		w.Failure = 0
	}
	w.Size = min(size, most)
}

// Fail gives negative feedback to a window that may have most sessions. It reports whether the
// destination is dead.
func (w *Window) Fail(r *WindowRules, most int) bool {
	if w.Dead || r.Initial == 0 {
		return true
	}
	size := w.Sessions(most, r.Initial)
	w.FailedCohorts += 1 / float64(size)
	if w.FailedCohorts >= r.CohortLimit-Epsilon {
		return true
	}
	w.Failure -= r.Negative.of(size)
	for w.Failure < -Epsilon {
		size--
		w.Failure++
		w.Success = 0
	}
	w.Failure = max(0, w.Failure)
	w.Size = max(1, size)
	return false
}
