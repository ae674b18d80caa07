package daemon

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"zsched/scheduler/spool"
	"zsched/ta"
	"zsched/ta/child"
)

// A directory in which no file can be removed is no fault of the one file that
// was to be.
func TestHealthTurnsRedWhileTheSpoolIsShut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		get := w.withMetrics()
		w.spool.fail(fmt.Errorf("finishing %q: %w: %w", "1", syscall.EACCES, spool.ErrShut))
		w.run()
		w.spool.bring(1, "a.example")
		time.Sleep(time.Hour)
		wantHealth(t, get, 503, "permission denied")
		w.spool.fail(nil)
		time.Sleep(15 * time.Second)
		wantHealth(t, get, 200, "ok")
		w.stop(syscall.SIGTERM)
	})
}

// An order that could not be carried out is its giver's to hear of. The mail
// does not wait for the spool, so nothing would notice that it is back.
func TestHealthIsThatOfTheMailAndNotOfAnOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		get := w.withMetrics()
		w.run()
		w.spool.fail(syscall.ENOSPC)
		if did, err := w.act("HOLD THREAD smtp a.example"); err == nil {
			t.Errorf("held: %+v", did)
		}
		w.spool.fail(nil)
		time.Sleep(time.Minute)
		wantHealth(t, get, 200, "ok")
		w.stop(syscall.SIGTERM)
	})
}

// That agents do without their limit is said, and not of each of them.
func TestAgentsWithoutALimitAreToldOfOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.play = func(p *puppet, job ta.Job) {
			p.say(child.Unlimited("operation not permitted"))
			p.reportAll(job, ta.OK2, "delivered")
		}
		w.run()
		w.spool.bring(1, "a.example")
		w.spool.bring(2, "b.example")
		synctest.Wait()
		if n := strings.Count(w.log.String(), "operation not permitted"); n != 1 || w.spool.left() != 0 {
			t.Errorf("%d control files are left, and the log says %q", w.spool.left(), w.log)
		}
		w.stop(syscall.SIGTERM)
	})
}
