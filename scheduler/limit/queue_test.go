package limit

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestQueueWakesThoseWhoHaveWaitedLongest compares a queue with a sorted list over random
// joins, departures and wakes. Some who are woken cannot use their places, and some have to
// wait again.
func TestQueueWakesThoseWhoHaveWaitedLongest(t *testing.T) {
	type waiter struct {
		place Place[int]
		most  int
		since int // 0: never waited, or served
		waits bool
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		var l Limit[int]
		var turns Turns
		clock := 0
		all := make([]*waiter, 30)
		for i := range all {
			all[i] = &waiter{most: 1 + r.IntN(4)}
		}
		join := func(w *waiter) {
			l.Join(&w.place, w.most, &turns)
			if w.since == 0 {
				clock++
				w.since = clock
			}
			w.waits = true
		}
		for range 300 {
			w := all[r.IntN(len(all))]
			switch r.IntN(8) {
			case 0, 1, 2, 3:
				join(w)
			case 4:
				w.place.Leave()
				w.waits = false
			case 5:
				w.place.Served()
				w.waits, w.since = false, 0
			default:
				l.Busy = r.IntN(5)
				useless := r.IntN(6)
				var want []*waiter
				for most := 1; most <= 4; most++ {
					line := slices.DeleteFunc(slices.Clone(all), func(w *waiter) bool { return !w.waits || w.most != most })
					slices.SortFunc(line, func(a, b *waiter) int { return cmp.Compare(a.since, b.since) })
					for n := most - l.Busy; n > 0 && len(line) > 0; line = line[1:] {
						want = append(want, line[0])
						if line[0].since%6 != useless {
							n--
						}
					}
				}
				var got []*waiter
				for _, w := range all {
					w.place.Try = func() bool {
						got = append(got, w)
						w.waits = false
						return w.since%6 != useless
					}
				}
				l.Wake(func(most int) int { return most - l.Busy })
				if bySince := func(a, b *waiter) int { return cmp.Compare(a.since, b.since) }; len(got) > 0 && got[0] != slices.MinFunc(want, bySince) {
					t.Fatalf("the first that is woken has not waited longest")
				}
				byMost := func(a, b *waiter) int { return cmp.Or(cmp.Compare(a.most, b.most), cmp.Compare(a.since, b.since)) }
				slices.SortStableFunc(got, byMost)
				if !slices.Equal(got, want) {
					t.Fatalf("%d are woken, want %d", len(got), len(want))
				}
				for _, w := range got {
					if r.IntN(2) == 0 {
						join(w)
					}
				}
			}
			n := 0
			for _, w := range all {
				if w.waits != w.place.Waits() || w.waits != w.place.WaitsIn(&l.Queue) {
					t.Fatal("somebody waits who does not, or the other way round")
				}
				if w.waits {
					n++
				}
			}
			if n != l.Len() {
				t.Fatalf("%d wait, %d are counted", n, l.Len())
			}
		}
		l.Clear()
		if l.Len() != 0 {
			t.Error("somebody waits after all have left")
		}
	}
}

// TestLinkSaysWhyItRefuses: a rate comes before the number of sessions, and a
// session that is busy may be given more unless there are too many.
func TestLinkSaysWhyItRefuses(t *testing.T) {
	full := Link{Busy: 3, Most: 3, Share: Unlimited, Tokens: Unlimited}
	free, shared := full, full
	free.Most, shared.Most, shared.Share = 4, 0, 2
	paid := full
	paid.Tokens = 0
	for _, c := range []struct {
		link Link
		n    int
		why  Refusal
		room int
	}{
		{Open(), 1, None, Unlimited},
		{free, 1, None, 1},
		{full, 1, Full, 0},
		{full, 0, None, 0},
		{shared, 1, NoShare, -1},
		{shared, 0, NoShare, -1},
		{paid, 0, NoToken, 0},
	} {
		if why := c.link.Refusal(c.n); why != c.why || c.link.Room() != c.room {
			t.Errorf("%+v for %d: %d, room for %d", c.link, c.n, why, c.link.Room())
		}
	}
}
