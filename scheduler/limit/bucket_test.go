package limit

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
		b := Bucket{Per: rate.Per(), Burst: 1 + r.IntN(20)}
		start := 1_800_000_000 * time.Second
		var fed []time.Duration
		now := start
		for len(fed) < 500 {
			if n := b.Tokens(now); n == 0 {
				now = b.NextAt(now)
				continue
			}
			n := 1 + r.IntN(2)
			b.Take(now, n)
			for range n {
				fed = append(fed, now)
			}
		}
		for i := range fed {
			for j := i; j < len(fed); j++ {
				// The last job line of a time may have one recipient more than
				// there are tokens.
				most := float64(b.Burst) + 1 + float64(fed[j]-fed[i])/float64(rate.Span)*float64(rate.Recipients)
				if n := j - i + 1; float64(n) > most+1e-6 {
					t.Fatalf("%+v, burst %d: %d in %v", rate, b.Burst, n, fed[j]-fed[i])
				}
			}
		}
		took := fed[len(fed)-1] - start
		want := time.Duration(len(fed)-b.Burst-2) * rate.Per()
		if took < want {
			t.Errorf("%+v, burst %d: took %v, want at least %v", rate, b.Burst, took, want)
		}
		if most := want + 4*rate.Per(); took > most {
			t.Errorf("%+v, burst %d: took %v, want at most %v", rate, b.Burst, took, most)
		}
	}
}

func TestSlowRatesDoNotOverflow(t *testing.T) {
	now := 1_800_000_000 * time.Second
	b := Bucket{Per: 365 * 24 * time.Hour, Burst: 1000000}
	if n := b.Tokens(now); n < 1 {
		t.Errorf("a full bucket has %d tokens", n)
	}
	b.Take(now, 100000)
	if next := b.NextAt(now); next <= now || next > now+2*longest {
		t.Errorf("the next token comes in %v", next-now)
	}
}
