package mailbox

import (
	"testing"
	"time"
)

func TestUserOccupiesNoMoreThanHisShareWithSlowDeliveries(t *testing.T) {
	now := noon
	s := shares{maxSlow: 2, now: func() time.Time { return now }}
	var began []time.Time
	begin := func(uid int, want bool) {
		t.Helper()
		at, ok := s.begin(uid)
		if ok != want {
			t.Fatalf("user %d may begin: %v", uid, ok)
		}
		if ok && uid == 1 {
			began = append(began, at)
		}
	}
	for range 10 { // a burst
		begin(1, true)
	}
	for _, at := range began[2:] {
		s.end(1, at)
	}
	now = now.Add(slowAfter - 1)
	begin(1, true)
	now = now.Add(1) // two of the three are slow now
	begin(1, false)
	begin(2, true)
	s.end(1, began[0])
	begin(1, true)
	s.end(1, began[1])
	for _, at := range began[10:] {
		s.end(1, at)
	}
	if len(s.began) != 1 {
		t.Errorf("%d users have deliveries", len(s.began))
	}
}

// The deliveries of one user that hang are those of an agent with two sessions.
func TestDeliveryBesideASlowOneIsDeferred(t *testing.T) {
	o := newTestSpool(t)
	a := o.agent(Options{Sessions: 2})
	now := noon
	a.shares.now = func() time.Time { return now }
	began, _ := a.shares.begin(ourUID)
	o.delivered(a, mail("bob 0"))
	now = now.Add(slowAfter)
	o.refused(a, mail("bob 0"), "deferred", `4\.3\.2`)
	a.shares.end(ourUID, began)
	o.delivered(a, mail("bob 0"))
}
