package scheduler

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Feeding whenever there is a token gives the rate exactly, and in no time more
// than the burst and the tokens of that time.
func TestRateIsKeptInEveryTime(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 50 {
		rate := Rate{Recipients: 1 + r.IntN(1000), Span: time.Duration(1+r.IntN(3600)) * time.Second}
		b := bucket{}
		start := second(1_800_000_000).instant()
		b.setRates(clock{now: start}, []Rate{rate}, 1+r.IntN(20))
		var fed []instant
		now := start
		for len(fed) < 500 {
			if n := b.tokens(clock{now: now}); n == 0 {
				now = b.nextAt(clock{now: now})
				continue
			}
			n := 1 + r.IntN(2)
			b.take(clock{now: now}, n)
			for range n {
				fed = append(fed, now)
			}
		}
		for i := range fed {
			for j := i; j < len(fed); j++ {
				// The last job line of a time may have one recipient more than
				// there are tokens.
				most := float64(b.burst) + 1 + float64(fed[j]-fed[i])/float64(rate.Span)*float64(rate.Recipients)
				if n := j - i + 1; float64(n) > most+1e-6 {
					t.Fatalf("%+v, burst %d: %d in %v", rate, b.burst, n, fed[j].since(fed[i]))
				}
			}
		}
		took := fed[len(fed)-1].since(start)
		want := time.Duration(len(fed)-b.burst-2) * rate.per()
		if took < want {
			t.Errorf("%+v, burst %d: took %v, want at least %v", rate, b.burst, took, want)
		}
		if most := want + 4*rate.per(); took > most {
			t.Errorf("%+v, burst %d: took %v, want at most %v", rate, b.burst, took, most)
		}
	}
}

func TestSlowRatesDoNotOverflow(t *testing.T) {
	now := second(1_800_000_000).instant()
	b := bucket{}
	b.setRates(clock{now: now}, []Rate{{Recipients: 1, Span: 365 * 24 * time.Hour}}, 1000000)
	if n := b.tokens(clock{now: now}); n < 1 {
		t.Errorf("a full bucket has %d tokens", n)
	}
	b.take(clock{now: now}, 100000)
	if next := b.nextAt(clock{now: now}); next <= now || next > now.after(2*longestRetry) {
		t.Errorf("the next token comes in %v", next.since(now))
	}
}
