package limit

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"
)

// referenceWindow is the published pseudocode in exact arithmetic, for
// feedback x/N and x. It is slow, and its fractions have no rounding errors.
type referenceWindow struct {
	size, initial, limit      int
	success, failure, cohorts *big.Rat
	cohortLimit, up, down     *big.Rat
	upPerN, downPerN, isDead  bool
}

var one = big.NewRat(1, 1)

func feedbackOf(amount *big.Rat, perN bool, n int) *big.Rat {
	if !perN {
		return amount
	}
	return new(big.Rat).Mul(amount, big.NewRat(1, int64(n)))
}

func (w *referenceWindow) succeed(busy int) {
	w.cohorts = new(big.Rat)
	if w.size >= w.limit || w.size >= busy+w.initial {
		return
	}
	w.success = new(big.Rat).Add(w.success, feedbackOf(w.up, w.upPerN, w.size))
	for w.success.Cmp(one) >= 0 {
		w.size++
		w.failure = new(big.Rat)
		w.success = new(big.Rat).Sub(w.success, one)
	}
	w.size = min(w.size, w.limit)
}

func (w *referenceWindow) fail() {
	w.cohorts = new(big.Rat).Add(w.cohorts, big.NewRat(1, int64(w.size)))
	if w.cohorts.Cmp(w.cohortLimit) >= 0 {
		w.isDead = true
		return
	}
	w.failure = new(big.Rat).Sub(w.failure, feedbackOf(w.down, w.downPerN, w.size))
	for w.failure.Sign() < 0 {
		w.size--
		w.failure = new(big.Rat).Add(w.failure, one)
		w.success = new(big.Rat)
	}
	w.size = max(1, w.size)
}

// TestWindowFollowsThePseudocode compares windows with the reference over
// random results.
func TestWindowFollowsThePseudocode(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 2000 {
		limit := 1 + r.IntN(30)
		initial := 1 + r.IntN(limit)
		up, down := int64(r.IntN(11)), int64(r.IntN(11)) // tenths
		cohorts := int64(1 + r.IntN(40))                 // tenths
		p := &WindowRules{Initial: initial, CohortLimit: float64(cohorts) / 10}
		p.Positive = Feedback{float64(up) / 10, Per(r.IntN(2))}
		p.Negative = Feedback{float64(down) / 10, Per(r.IntN(2))}
		want := &referenceWindow{
			size: initial, initial: initial, limit: limit,
			success: new(big.Rat), failure: new(big.Rat), cohorts: new(big.Rat), cohortLimit: big.NewRat(cohorts, 10),
			up: big.NewRat(up, 10), down: big.NewRat(down, 10),
			upPerN: p.Positive.Per == PerN, downPerN: p.Negative.Per == PerN,
		}
		var got Window
		failures := r.IntN(100)
		var history []string
		for range 300 {
			busy := 1 + r.IntN(want.size)
			dead := false
			if r.IntN(100) < failures {
				dead = got.Fail(p, limit)
				want.fail()
				history = append(history, "fail")
			} else {
				got.Succeed(p, limit, busy)
				want.succeed(busy)
				history = append(history, fmt.Sprint(busy))
			}
			if dead != want.isDead || !dead && got.Sessions(limit, initial) != want.size {
				t.Fatalf("load %d, %+v after %v: window %d dead %v, want %d %v", n, p, history, got.Sessions(limit, initial), dead, want.size, want.isDead)
			}
			if dead {
				break
			}
		}
	}
}

// TestWindowGrowsByOneACohort: with 1/N, a window grows by one after exactly
// as many successes as it has sessions, up to maxthr. This holds without
// rounding errors at each size.
func TestWindowGrowsByOneACohort(t *testing.T) {
	p := &WindowRules{Initial: 1, Positive: Feedback{1, PerN}, CohortLimit: 1}
	var w Window
	for size := 1; size < 200; size++ {
		for n := range size {
			if w.Sessions(200, 1) != size {
				t.Fatalf("the window is %d after %d successes at %d", w.Sessions(200, 1), n, size)
			}
			w.Succeed(p, 200, size)
		}
	}
	w.Succeed(p, 200, 200)
	if w.Sessions(200, 1) != 200 {
		t.Errorf("the window is %d at last, want 200", w.Sessions(200, 1))
	}
}
