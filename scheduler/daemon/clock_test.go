package daemon_test

import (
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"zsched/scheduler"
	"zsched/scheduler/daemon/daemontest"
	"zsched/scheduler/rule"
	"zsched/ta"
)

// The clock of the machine is set a day forward or back. Retries come when they would
// have come, no agent is ended for it, and new mail is delivered. Mail that is too old
// by the new time expires.
func TestClockIsSet(t *testing.T) {
	attemptsWith := func(by time.Duration) (attempts int64) {
		synctest.Test(t, func(t *testing.T) {
			h := daemontest.New(t, func(p *rule.Params) { p.Interval, p.IdleMax = 10*time.Minute, 24*time.Hour })
			var offset, tried atomic.Int64
			h.Options.Clocks = func() scheduler.Now {
				now := scheduler.At(time.Now())
				now.Wall = now.Wall.Add(time.Duration(offset.Load()))
				return now
			}
			h.Deliver = func(a *daemontest.FakeAgent, job ta.JobLine) {
				switch job.Host {
				case "deferring.example":
					tried.Add(1)
					a.ReportAll(job, ta.Deferred, "451 later")
				case "mute.example":
					time.Sleep(90 * time.Minute)
					a.ReportAll(job, ta.OK2, "250 at last")
				default:
					a.ReportAll(job, ta.OK2, "250 ok")
				}
			}
			h.Run()
			h.Spool.Announce(1, "deferring.example")
			h.Spool.Announce(2, "mute.example")
			time.Sleep(time.Hour)
			offset.Store(int64(by))
			for id := range uint64(100) { // more than forks are allowed in a second
				h.Spool.Announce(1000+id, "fine.example")
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			left := 2
			if by > 72*time.Hour {
				left--
			}
			if h.Spool.Left() != left {
				t.Errorf("%v: a minute after the clock was set, %d control files are left", by, h.Spool.Left())
			}
			time.Sleep(9 * time.Hour)
			synctest.Wait()
			if h.Spool.Left() != left-1 {
				t.Errorf("%v: in the end, %d control files are left", by, h.Spool.Left())
			}
			for i := range h.Started() {
				if _, signals := h.Agent(i).Given(); signals != "[]" {
					t.Errorf("%v: agent %d was sent %s", by, i, signals)
				}
			}
			if by != 0 && strings.Count(h.Log.String(), "the clock was set") != 1 {
				t.Errorf("%v: the log says %s", by, h.Log)
			}
			attempts = tried.Load()
			h.Stop(syscall.SIGTERM)
		})
		return attempts
	}
	want := attemptsWith(0)
	for _, by := range []time.Duration{24 * time.Hour, -24 * time.Hour, 40 * 24 * time.Hour} {
		got := attemptsWith(by)
		if by < 72*time.Hour && got != want {
			t.Errorf("%v: %d attempts, and %d without", by, got, want)
		}
	}
}
