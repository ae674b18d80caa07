package cluster

import (
	"testing"
	"time"

	"zsched/scheduler"
)

// tell tells the core's finding about a destination, or asks, and returns the answer.
func (n *virtualNode) about(host string, state scheduler.DestinationState, span time.Duration) *scheduler.DestinationDead {
	a := scheduler.Destination{Channel: "smtp", Host: host, State: state}
	if state == scheduler.DestinationIsDead {
		a.Until, a.Reason = n.wallClock().Add(span), "no \xffroute to {it}"
	}
	n.told = nil
	n.Perform(a)
	n.v.wait(time.Second)
	for _, e := range n.told {
		if d, ok := e.(scheduler.DestinationDead); ok {
			return &d
		}
	}
	return nil
}

// wait lets a time pass.
func (v *virtual) wait(d time.Duration) {
	for ; d > 0; d -= 100 * time.Millisecond {
		v.step(100 * time.Millisecond)
	}
}

// TestNodesPoolDeadDestinations: who asks is told until when another node has found the
// destination dead, although the clocks of the nodes differ. The latest time counts, a
// success deletes it, and it ends by itself.
func TestNodesPoolDeadDestinations(t *testing.T) {
	v := newVirtual(t, 1, 10, 3)
	v.nodes[0].wrong, v.nodes[1].wrong = -time.Hour, 7*time.Hour
	v.settle()
	first, second, third := v.nodes[0], v.nodes[1], v.nodes[2]
	if d := first.about("dead.example", scheduler.DestinationIsDead, time.Hour); d != nil {
		t.Errorf("the first one is told %+v", d)
	}
	if d := first.about("dead.example", scheduler.DestinationAsked, 0); d != nil {
		t.Errorf("it is told what it has found itself: %+v", d)
	}
	for range 2 { // a shorter wait of the second node changes nothing
		d := second.about("dead.example", scheduler.DestinationIsDead, time.Minute)
		if d == nil || d.Channel != "smtp" || d.Host != "dead.example" || d.Node != "node1" || d.Reason != "no route to {it}" ||
			d.Until.Sub(second.wallClock()).Round(10*time.Second) != time.Hour {
			t.Errorf("the second one is told %+v", d)
		}
	}
	third.about("dead.example", scheduler.DestinationIsAlive, 0)
	if d := second.about("dead.example", scheduler.DestinationAsked, 0); d != nil {
		t.Errorf("after a success: %+v", d)
	}
	first.about("dead.example", scheduler.DestinationIsDead, time.Hour)
	v.redis.FastForward(61 * time.Minute)
	if d := second.about("dead.example", scheduler.DestinationAsked, 0); d != nil {
		t.Errorf("after its time: %+v", d)
	}
}

// TestDestinationsWithoutTheStore: nothing is told or asked, nor kept for later.
func TestDestinationsWithoutTheStore(t *testing.T) {
	v := newVirtual(t, 1, 10, 2)
	v.nodes[0].about("early.example", scheduler.DestinationIsDead, time.Hour)
	v.settle()
	lost := true
	v.fate = func(*virtualNode) fate { return fate{carried: !lost} }
	v.wait(3 * virtualTTL)
	if !v.nodes[0].members.lost {
		t.Fatal("the store is not lost")
	}
	v.nodes[0].about("dead.example", scheduler.DestinationIsDead, time.Hour)
	lost = false
	v.wait(3 * virtualTTL)
	for _, host := range []string{"early.example", "dead.example"} {
		if d := v.nodes[1].about(host, scheduler.DestinationAsked, 0); d != nil {
			t.Errorf("told of %s: %+v", host, d)
		}
	}
}

// TestStoreThatHasForgottenItsScripts: one batch fails, and the next one finds them again.
func TestStoreThatHasForgottenItsScripts(t *testing.T) {
	v := newVirtual(t, 1, 10, 1)
	v.settle()
	calls := []call{{script: destinationScript, keys: []string{"{zs}:dead:smtp/a.example"}, args: []any{0, ""}}}
	if err := v.store.client.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := v.store.exec(t.Context(), calls); err == nil {
		t.Error("the scripts are still there")
	}
	if replies, err := v.store.exec(t.Context(), calls); err != nil || replies[0].err != nil {
		t.Errorf("the next batch: %v, %v", replies, err)
	}
}
