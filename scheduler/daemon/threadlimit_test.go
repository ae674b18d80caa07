package daemon_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"zsched/scheduler/daemon/daemontest"
	"zsched/scheduler/spool"
	"zsched/ta"
)

// hostsFrom returns hosts that no other call with a far number has.
func hostsFrom(first, count int) (hosts []string) {
	for i := range count {
		hosts = append(hosts, fmt.Sprintf("host%d.example", first+i))
	}
	return hosts
}

// A message to many hosts waits in its file until threads have ended; small ones do not wait
// for it.
func TestMessageToManyHostsWaitsForThreads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		h.Options.Config.ThreadLimit = 200
		down := true
		h.Deliver = func(a *daemontest.FakeAgent, job ta.Job) {
			if down {
				a.ReportAll(job, ta.Deferred, "not yet")
			} else {
				a.ReportAll(job, ta.OK2, "ok")
			}
		}
		h.Run()
		h.Spool.Announce(1, hostsFrom(0, 150)...)
		second := h.Spool.Put(2, hostsFrom(1000, 150)...)
		h.Spool.Names <- []spool.Name{second}
		h.Spool.Announce(3, hostsFrom(2000, 50)...)
		time.Sleep(time.Minute)
		if h.Spool.Refusals != 1 || h.Daemon.Loaded() != 2 {
			t.Errorf("%d refused, %d loaded", h.Spool.Refusals, h.Daemon.Loaded())
		}
		if !strings.Contains(h.Log.String(), "PARAMthread-limit allows 200") || !strings.Contains(h.Log.String(), `"why":"no room"`) {
			t.Errorf("the log is %s", h.Log)
		}
		down = false
		time.Sleep(time.Hour)
		h.Spool.Names <- []spool.Name{second}
		time.Sleep(time.Hour)
		if n := h.Spool.Left(); n != 0 || h.Spool.Refusals != 1 {
			t.Errorf("%d messages are left, %d refused", n, h.Spool.Refusals)
		}
		h.Stop(syscall.SIGTERM)
	})
}

// Mail that is parked while the saved state is read is counted when it leaves that place.
func TestRestartHoldsTheThreadLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := deferring(t)
		before.Run()
		for i := range 4 {
			before.Spool.Announce(uint64(i+1), hostsFrom(1000*i, 150)...)
		}
		time.Sleep(10 * time.Second)
		before.Stop(syscall.SIGTERM)
		h := again(t, before)
		h.Options.Config.ThreadLimit = 200
		h.Run()
		sweep(h, 4)
		time.Sleep(time.Minute)
		if h.Daemon.Loaded() != 1 || h.Spool.Refusals < 3 {
			t.Errorf("%d loaded, %d refused", h.Daemon.Loaded(), h.Spool.Refusals)
		}
		h.Stop(syscall.SIGTERM)
	})
}
