package mailbox

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestUserOccupiesNoMoreThanHisShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shares{limit: 2, slowLimit: 9}
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
		time.Sleep(slowMemory)
		begin(3, true, 0)
		s.end(3, began[4])
		if len(s.users) != 0 {
			t.Errorf("%d users are known", len(s.users))
		}
	})
}

// Two users make every delivery hang, for as long as they are allowed. Others keep a
// quarter of the sessions, and only the first hang of each costs them more.
func TestSlowUsersLeaveSessionsForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShares(20)
		hang := func(uid int) (began int) {
			for range 20 {
				if at, ok := s.begin(uid); ok {
					began++
					time.AfterFunc(30*time.Second, func() { s.end(uid, at) })
				}
			}
			return began
		}
		if first, second := hang(1), hang(2); first != 10 || second != 10 {
			t.Errorf("at first %d and %d", first, second)
		}
		for range 40 {
			time.Sleep(31 * time.Second)
			if first, second := hang(1), hang(2); first != 10 || second != 5 {
				t.Fatalf("%d and %d", first, second)
			}
			for uid := 3; uid < 8; uid++ {
				at, ok := s.begin(uid)
				if !ok {
					t.Fatal("another user is deferred")
				}
				s.end(uid, at)
			}
		}
		time.Sleep(time.Minute + slowMemory)
		if first, second := hang(1), hang(2); first != 10 || second != 10 {
			t.Errorf("after the memory has ended %d and %d", first, second)
		}
	})
}

// A burst of mail for one user is not deferred, because fast deliveries wait for
// each other.
func TestBurstOfFastDeliveriesWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shares{limit: 2, slowLimit: 9}
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
