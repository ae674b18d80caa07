package mailbox

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestUserOccupiesNoMoreThanHisShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shares{limit: 2}
		var began []time.Time
		begin := func(uid int, want bool, wait time.Duration) {
			t.Helper()
			start := time.Now()
			at, ok := s.begin(uid)
			if ok != want || time.Since(start) != wait {
				t.Fatalf("user %d may begin: %v, after %v", uid, ok, time.Since(start))
			}
			if ok {
				began = append(began, at)
			}
		}
		// The user stops two deliveries at their start. The third waits, although
		// none is slow yet, and those of others do not.
		begin(1, true, 0)
		begin(1, true, 0)
		begin(1, false, maxShareWait)
		begin(2, true, 0)
		time.Sleep(slowAfter - maxShareWait)
		begin(1, false, 0)
		s.end(1, began[0])
		begin(1, true, 0)
		s.end(1, began[1])
		s.end(1, began[3])
		s.end(2, began[2])
		if len(s.users) != 0 {
			t.Errorf("%d users have deliveries", len(s.users))
		}
	})
}

// A burst of mail for one user is not deferred, because fast deliveries wait for
// each other.
func TestBurstOfFastDeliveriesWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shares{limit: 2}
		var deliveries sync.WaitGroup
		for range 20 {
			deliveries.Go(func() {
				began, ok := s.begin(1)
				if !ok {
					t.Error("a fast delivery is deferred")
					return
				}
				time.Sleep(100 * time.Millisecond)
				s.end(1, began)
			})
		}
		deliveries.Wait()
	})
}

// The deliveries of one user that hang are those of an agent with two sessions.
func TestDeliveryBesideASlowOneIsDeferred(t *testing.T) {
	o := newTestSpool(t)
	a := o.agent(Options{Sessions: 2})
	began := time.Now().Add(-slowAfter)
	a.shares.users = map[int]*userShare{ourUID: {began: []time.Time{began}, ended: make(chan struct{})}}
	o.refused(a, mail("bob 0"), "deferred", `4\.3\.2`)
	a.shares.end(ourUID, began)
	o.delivered(a, mail("bob 0"))
}
