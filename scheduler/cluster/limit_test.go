package cluster

import (
	"fmt"
	"testing"
	"time"
)

// TestLimitHoldsWhileNodesDieAndReturn: calls are lost, replies are lost, and calls
// run up to twenty seconds late.
func TestLimitHoldsWhileNodesDieAndReturn(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		v := newVirtual(t, seed, 1+int(seed)%8, 2+int(seed)%4)
		v.fate = func(*virtualNode) fate {
			switch x := v.rand.IntN(100); {
			case x < 70:
				return fate{carried: true, replyAfter: time.Duration(v.rand.IntN(200)) * time.Millisecond}
			case x < 80:
				return fate{carried: true, replyLost: true}
			case x < 90:
				return fate{carried: true, after: time.Duration(v.rand.IntN(20_000)) * time.Millisecond}
			}
			return fate{}
		}
		starts := 0
		for range 600 {
			n := v.nodes[v.rand.IntN(len(v.nodes))]
			switch x := v.rand.IntN(100); {
			case x < 2 && n.alive:
				n.alive, n.busy = false, 0
			case x < 8 && !n.alive:
				n.boot(v.max)
			case x < 30:
				n.demand = v.rand.IntN(2 * v.max)
			}
			v.step(100 * time.Millisecond)
			v.end(0.1)
		}
		for _, n := range v.nodes {
			starts += n.starts
		}
		if v.worst > 0 {
			t.Errorf("seed %d: the limit of %d was exceeded by %d", seed, v.max, v.worst)
		}
		if starts < 20 {
			t.Errorf("seed %d: only %d sessions were started", seed, starts)
		}
	}
}

// TestThreeNodesUseTheLimit: with demand on all of them.
func TestThreeNodesUseTheLimit(t *testing.T) {
	v := newVirtual(t, 1, 10, 3)
	for _, n := range v.nodes {
		n.demand = 20
	}
	v.settle()
	used, steps := 0, 600
	for range steps {
		v.step(50 * time.Millisecond)
		used += v.busy()
		v.end(0.05)
	}
	mean := float64(used) / float64(steps*v.max)
	t.Logf("mean use %.3f", mean)
	if mean < 0.9 || v.worst > 0 {
		t.Errorf("the mean use is %.3f of the limit, exceeded by %d", mean, v.worst)
	}
}

// TestStoreThatAnswersGarbageIsLost: a node has its part of the limit then, also where the answer
// claims its name for somebody.
func TestStoreThatAnswersGarbageIsLost(t *testing.T) {
	for _, garbage := range []any{
		"OK", int64(1), []any{}, []any{int64(0)}, []any{int64(0), int64(7)}, []any{int64(0), ""}, []any{int64(0), "somebody else"},
		[]any{int64(1), "today", int64(0), []any{}}, []any{int64(1), "1800000000000000"},
	} {
		v := newVirtual(t, 1, 10, 3)
		for _, n := range v.nodes {
			n.demand = 20
		}
		v.settle()
		v.fate = func(*virtualNode) fate { return fate{carried: true, garbage: garbage} }
		for end := v.now + 2*virtualTTL; v.now < end; {
			v.step(100 * time.Millisecond)
			v.end(0.5)
		}
		v.step(100 * time.Millisecond)
		for _, n := range v.nodes {
			if n.allowed.Sessions != 3 || !n.State().Lost {
				t.Errorf("%#v: %s may have %d sessions, lost: %v", garbage, n.name, n.allowed.Sessions, n.State().Lost)
			}
		}
	}
}

// TestUnchangedLimitCostsOneCallInEachRenewal.
func TestUnchangedLimitCostsOneCallInEachRenewal(t *testing.T) {
	v := newVirtual(t, 1, 10, 3)
	for _, n := range v.nodes {
		n.demand = 20
	}
	v.settle()
	for _, n := range v.nodes {
		n.sent = 0
	}
	for range 300 { // 30 s: a hundred renewals
		v.step(100 * time.Millisecond)
	}
	for _, n := range v.nodes {
		reports := int(30 * time.Second / n.times.report)
		if shares := n.sent - reports; shares > 105 {
			t.Errorf("%s made %d calls in 100 renewals", n.name, shares)
		}
	}
}

// TestMoreNodesThanPlacesTakeTurns.
func TestMoreNodesThanPlacesTakeTurns(t *testing.T) {
	v := newVirtual(t, 1, 1, 3)
	for _, n := range v.nodes {
		n.demand = 5
	}
	v.settle()
	for _, n := range v.nodes {
		n.starts, n.longest, n.waitedAt = 0, 0, v.now
	}
	for range 3000 {
		v.step(20 * time.Millisecond)
		v.end(0.5)
	}
	var report string
	for _, n := range v.nodes {
		report += fmt.Sprintf("%s %d starts, longest wait %v; ", n.name, n.starts, n.longest)
		most := 2*v.nodes[0].times.rotate + v.nodes[0].times.renew
		if n.starts < 350 || n.longest > most {
			t.Errorf("%s began %d sessions and waited %v, more than %v", n.name, n.starts, n.longest, most)
		}
	}
	t.Log(report)
	if v.worst > 0 {
		t.Errorf("exceeded by %d", v.worst)
	}
}

// TestWrongClocksHaveNoEffect: the wall clocks of the nodes are set all the time.
func TestWrongClocksHaveNoEffect(t *testing.T) {
	v := newVirtual(t, 1, 6, 3)
	for _, n := range v.nodes {
		n.demand = 10
	}
	v.settle()
	used := 0
	for range 300 {
		if n := v.nodes[v.rand.IntN(3)]; v.rand.IntN(5) == 0 {
			n.wrong = time.Duration(v.rand.IntN(200_000)-100_000) * time.Second
		}
		v.step(100 * time.Millisecond)
		used += v.busy()
		v.end(0.1)
	}
	if mean := float64(used) / float64(300*v.max); v.worst > 0 || mean < 0.9 {
		t.Errorf("the limit was exceeded by %d, and %.2f of it was used", v.worst, mean)
	}
}
