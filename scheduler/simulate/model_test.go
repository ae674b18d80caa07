package simulate

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestEventsHappenInOrder: by time, and at the same time as they were planned.
func TestEventsHappenInOrder(t *testing.T) {
	c := NewClock(1)
	var got []string
	say := func(what string) func() {
		return func() { got = append(got, fmt.Sprint(what, " ", c.Now())) }
	}
	c.After(2*time.Second, say("c"))
	c.After(time.Second, func() {
		say("a")()
		c.After(0, say("b"))
		c.After(time.Second, say("d"))
	})
	c.RunUntil(5 * time.Second)
	if want := []string{"a 1s", "b 1s", "c 2s", "d 2s"}; !slices.Equal(got, want) {
		t.Errorf("the order is %v, want %v", got, want)
	}
	if c.Now() != 5*time.Second {
		t.Errorf("the time is %v", c.Now())
	}
}

// TestFailedDeliveryIsRepeated: what a server refuses waits for its retry in the
// core, which asks for a Tick at that time.
func TestFailedDeliveryIsRepeated(t *testing.T) {
	c := NewClock(1)
	p := defaults()
	p.Interval, p.Jitter = time.Minute, 0
	n := NewNode(c, p, nil, downUntil(2*time.Minute, steady(time.Second, time.Second)))
	var ends []string
	n.Ended = func(d *Delivery) { ends = append(ends, fmt.Sprint(c.Now().Round(time.Second), " ", d.OK)) }
	m := n.Submit("a@example.org", "host", "host")
	c.Run(func() bool { return n.Queued() == 0 })
	if want := []string{"1s false", "1m2s false", "2m3s true"}; !slices.Equal(ends, want) {
		t.Errorf("the deliveries end %v, want %v", ends, want)
	}
	if m.Sessions != 0 || m.FedAt != startTime {
		t.Errorf("it was first fed at %v and has %d sessions", m.FedAt, m.Sessions)
	}
}

// TestTwoNodesShareOneServer: nodes on the same clock compete for the
// connections of one server.
func TestTwoNodesShareOneServer(t *testing.T) {
	c := NewClock(1)
	p := defaults()
	p.MaxThr, p.Window.Initial = 5, 5
	server := limited(5, time.Second, time.Second)
	delivered, refused := make(map[*Node]int), 0
	var nodes []*Node
	for range 2 {
		n := NewNode(c, p, nil, server)
		n.Ended = func(d *Delivery) {
			if d.OK {
				delivered[d.Node]++
			} else {
				refused++
			}
		}
		n.submitMany(20, "a@example.org", "host")
		nodes = append(nodes, n)
	}
	c.RunUntil(time.Minute)
	if delivered[nodes[0]] == 0 || delivered[nodes[1]] == 0 || refused == 0 {
		t.Errorf("the nodes have delivered %d and %d, and %d were refused",
			delivered[nodes[0]], delivered[nodes[1]], refused)
	}
}

// TestCongestedServerTimesOut: a client that finds the queue full at each of its
// attempts fails at the timeout.
func TestCongestedServerTimesOut(t *testing.T) {
	c := NewClock(1)
	p := defaults()
	p.MaxThr = 3
	s := &congested{processes: 1, room: 1, least: time.Minute, most: time.Minute, repeats: seconds(0, 3, 9), timeout: 30 * time.Second}
	n := NewNode(c, p, nil, s.connect)
	var ends []string
	n.Ended = func(d *Delivery) { ends = append(ends, fmt.Sprint(c.Now().Round(time.Second), " ", d.OK)) }
	n.submitMany(3, "a@example.org", "host")
	c.Run(func() bool { return len(ends) == 3 })
	if want := []string{"30s false", "1m0s true", "2m0s true"}; !slices.Equal(ends, want) {
		t.Errorf("the deliveries end %v, want %v", ends, want)
	}
}

// TestInflationIsCounted checks how spans and nesting are counted.
func TestInflationIsCounted(t *testing.T) {
	o := &oneSession{sizes: []int{3, 2, 1}}
	o.picks = append(o.picks, 1, 2, 3, 2, 1, 1)
	if worst, nested := o.inflation(); worst != 2 || nested != 1 {
		t.Errorf("the worst is %v and %d are nested, want 2 and 1", worst, nested)
	}
}

// TestWeightsFollowAReload: senders without weights have equal turns, and other
// weights hold for the mail that waits when they come.
func TestWeightsFollowAReload(t *testing.T) {
	c := NewClock(1)
	p := defaults()
	p.MaxRing, p.MaxThr = 4, 4
	n := NewNode(c, p, nil, aSecond)
	fed := make(map[string]int)
	n.Fed = func(d *Delivery) { fed[d.Message.Sender]++ }
	senders := []string{"a@heavy", "b@middle", "c@light"}
	for _, sender := range senders {
		n.submitMany(1000, sender, "host")
	}
	for _, tt := range []struct {
		weights map[string]int
		want    []int
	}{
		{nil, []int{200, 200, 200}},
		{map[string]int{"heavy": 3, "middle": 2}, []int{300, 200, 100}},
	} {
		n.Reload(p, tt.weights)
		clear(fed)
		c.Run(func() bool { return fed[senders[0]]+fed[senders[1]]+fed[senders[2]] >= 600 })
		for i, want := range tt.want {
			if got := fed[senders[i]]; got < want-30 || got > want+30 {
				t.Errorf("weights %v: %s has %d of 600, want about %d", tt.weights, senders[i], got, want)
			}
		}
	}
}
