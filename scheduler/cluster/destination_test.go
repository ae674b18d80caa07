package cluster

import (
	"context"
	"slices"
	"testing"
	"time"

	"zsched/internal/redisurl"
	"zsched/scheduler"
)

// dead tells the core's finding that a destination is dead for a time.
func (n *virtualNode) dead(host string, span time.Duration, reason string) {
	n.Perform(scheduler.Destination{Channel: "smtp", Host: host, Dead: true, Until: n.wallClock().Add(span), Window: 3, Reason: reason})
}

// ask asks for the right to try a destination and returns the answer.
func (n *virtualNode) ask(host string) scheduler.ProbeAnswer {
	n.v.t.Helper()
	n.told = nil
	n.Perform(scheduler.Probing{Channel: "smtp", Host: host})
	for range 100 {
		for _, e := range n.told {
			if a, ok := e.(scheduler.ProbeAnswer); ok {
				return a
			}
		}
		n.v.step(10 * time.Millisecond)
	}
	n.v.t.Fatal(n.name, "gets no answer")
	return scheduler.ProbeAnswer{}
}

// wait lets a time pass.
func (v *virtual) wait(d time.Duration) {
	for ; d > 0; d -= 100 * time.Millisecond {
		v.step(100 * time.Millisecond)
	}
}

// TestNodesHearOfDeadDestinations: with the time until which they are dead, although
// the clocks of the nodes differ.
func TestNodesHearOfDeadDestinations(t *testing.T) {
	v := newVirtual(t, 1, 10, 3)
	v.nodes[0].wrong, v.nodes[1].wrong = -time.Hour, 7*time.Hour
	v.settle()
	v.nodes[0].dead("dead.example", time.Hour, "no \xffroute")
	v.wait(time.Second)
	for _, n := range v.nodes[1:] {
		if len(n.told) != 1 {
			t.Fatalf("%s was told %v", n.name, n.told)
		}
		e := n.told[0].(scheduler.DestinationNews)
		left := e.Until.Sub(n.wallClock()).Round(2 * time.Second)
		if e.Channel != "smtp" || e.Host != "dead.example" || !e.Dead || e.Node != "node1" || e.Reason != "no route" || left != time.Hour {
			t.Errorf("%s was told %+v, for %v", n.name, e, left)
		}
	}
	if len(v.nodes[0].told) > 0 {
		t.Errorf("its own news: %v", v.nodes[0].told)
	}
	v.nodes[2].Perform(scheduler.Destination{Channel: "smtp", Host: "dead.example", Window: 5})
	v.wait(time.Second)
	if e, ok := v.nodes[0].told[0].(scheduler.DestinationNews); !ok || e.Dead || e.Node != "node3" {
		t.Errorf("told %+v", v.nodes[0].told)
	}
	if state, n := v.redis.HGet("zs:{smtp/dead.example}:k", "state"), v.redis.HGet("zs:{smtp/dead.example}:k", "n"); state != "alive" || n != "2" {
		t.Errorf("the store has %s, %s calls", state, n)
	}
}

// TestStoreKnowsDestinations: what it has recorded can be asked for.
func TestStoreKnowsDestinations(t *testing.T) {
	v := newVirtual(t, 1, 10, 1)
	v.settle()
	n := v.nodes[0]
	n.store = v.store
	if d, err := n.Destination(context.Background(), "smtp", "dead.example"); d != nil || err != nil {
		t.Errorf("before: %+v, %v", d, err)
	}
	n.dead("dead.example", time.Hour, "no route")
	v.wait(time.Second)
	d, err := n.Destination(context.Background(), "smtp", "dead.example")
	if err != nil || !d.Dead || d.Node != "node1" || d.Reason != "no route" || d.Window != 3 || d.Calls != 1 ||
		d.Until.Sub(v.wall()).Round(2*time.Second) != time.Hour {
		t.Errorf("%+v, %v", d, err)
	}
	v.redis.FastForward(26 * time.Hour)
	if d, err := n.Destination(context.Background(), "smtp", "dead.example"); d != nil || err != nil {
		t.Errorf("a day after its next attempt: %+v, %v", d, err)
	}
}

// TestOneNodeProbesADeadDestination: the right is renewed while the attempt runs, and
// given back at its end.
func TestOneNodeProbesADeadDestination(t *testing.T) {
	v := newVirtual(t, 1, 10, 3)
	v.settle()
	first, second := v.nodes[0], v.nodes[1]
	if a := first.ask("dead.example"); !a.Granted {
		t.Fatalf("the first one: %+v", a)
	}
	for range 12 { // four times as long as it is kept
		a := second.ask("dead.example")
		if wait := a.Until.Sub(v.wall()); a.Granted || a.Node != "node1" || wait <= 0 || wait > 2*virtualTTL {
			t.Fatalf("the second one: %+v, to wait %v", a, wait)
		}
		v.wait(10 * virtualTTL / 3)
	}
	second.Perform(scheduler.Probing{Channel: "smtp", Host: "dead.example", Release: true}) // it does not have it
	if a := second.ask("dead.example"); a.Granted {
		t.Error("a node has released the right of another one")
	}
	first.Perform(scheduler.Probing{Channel: "smtp", Host: "dead.example", Release: true})
	v.wait(time.Second)
	if a := second.ask("dead.example"); !a.Granted {
		t.Errorf("after the release: %+v", a)
	}
	second.alive = false
	if a := first.ask("dead.example"); a.Granted {
		t.Error("the right of a dead node is free at once")
	}
	v.wait(11 * virtualTTL)
	if a := first.ask("dead.example"); !a.Granted {
		t.Errorf("after the death of the node: %+v", a)
	}
}

// TestFoundBeforeTheNodeHasJoined: what a node finds before it has joined is told when
// the store has accepted it, and once.
func TestFoundBeforeTheNodeHasJoined(t *testing.T) {
	v := newVirtual(t, 1, 10, 2)
	v.nodes[0].dead("dead.example", time.Hour, "no route")
	v.settle()
	v.wait(time.Second)
	if n := v.redis.HGet("zs:{smtp/dead.example}:k", "n"); n != "1" {
		t.Errorf("recorded %q times", n)
	}
	if got := v.nodes[1].told; len(got) != 1 {
		t.Errorf("the other node was told %v", got)
	}
}

// TestProbesWithoutTheStore: each node tries for itself, also if the question was asked
// before the store was lost. Nothing is kept to be told later.
func TestProbesWithoutTheStore(t *testing.T) {
	v := newVirtual(t, 1, 10, 2)
	v.settle()
	lost := true
	v.fate = func(*virtualNode) fate { return fate{carried: !lost} }
	for _, n := range v.nodes {
		if a := n.ask("dead.example"); !a.Granted {
			t.Errorf("before the store counts as lost: %+v", a)
		}
	}
	v.wait(3 * virtualTTL)
	n := v.nodes[0]
	if !n.members.lost {
		t.Fatal("the store is not lost")
	}
	if a := n.ask("other.example"); !a.Granted {
		t.Errorf("while the store is lost: %+v", a)
	}
	n.dead("other.example", 3*time.Hour, "no answer")
	n.dead("other.example", time.Hour, "no route")
	lost = false
	v.nodes[1].told = nil
	v.wait(3 * virtualTTL)
	told := slices.DeleteFunc(v.nodes[1].told, func(e scheduler.Event) bool { _, is := e.(scheduler.DestinationNews); return !is })
	if len(told) != 1 || told[0].(scheduler.DestinationNews).Reason != "no route" {
		t.Errorf("told when the store is back: %v", told)
	}
	starting := newNode(Options{Store: redisurl.Address{TTL: virtualTTL}, Prefix: "zs", Node: "late", Nonce: "x"}, func(*batch) {})
	starting.turn(v.wall(), v.now, nil)
	starting.Perform(scheduler.Probing{Channel: "smtp", Host: "a.example"})
	starting.members.late = lateBatches
	if events := starting.turn(v.wall(), v.now+time.Second, nil); len(events) != 1 || !events[0].(scheduler.ProbeAnswer).Granted {
		t.Errorf("a node that has not reached the store yet is told %v", events)
	}
}
