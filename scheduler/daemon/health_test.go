package daemon

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"zsched/scheduler/spool"
)

func wantHealth(t *testing.T, get func(string) (int, string), status int, why string) {
	t.Helper()
	got, body := get("/healthz")
	if got != status || !strings.Contains(body, why) {
		t.Errorf("%d %q, want %d %q", got, body, status, why)
	}
}

func TestHealthTurnsRedWhileTheSpoolCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		get := w.withMetrics()
		w.run()
		wantHealth(t, get, http.StatusOK, "ok")
		w.spool.fail(fmt.Errorf("finishing %q: %w", "1", syscall.ENOSPC))
		w.spool.bring(1, "a.example")
		synctest.Wait()
		wantHealth(t, get, http.StatusServiceUnavailable, "no space left")
		_, body := get("/metrics")
		wantLines(t, body, "scheduler_spool_up 0", "scheduler_spool_unwritten 1", `scheduler_spool_errors_total{doing="finish"} 1`)
		w.spool.fail(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		wantHealth(t, get, http.StatusOK, "ok")
		w.stop(syscall.SIGTERM)
	})
}

func TestHealthTurnsRedWhenTheSpoolHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.spool.slow = time.Hour
		get := w.withMetrics()
		w.run()
		w.spool.bring(1, "a.example")
		time.Sleep(time.Minute)
		wantHealth(t, get, http.StatusOK, "ok")
		time.Sleep(2 * time.Minute)
		wantHealth(t, get, http.StatusServiceUnavailable, "1 changes")
		time.Sleep(time.Hour)
		w.spool.answer(spool.Swept{})
		wantHealth(t, get, http.StatusOK, "ok")
		time.Sleep(16 * time.Minute)
		wantHealth(t, get, http.StatusServiceUnavailable, "has not been swept for 16m")
		w.stop(syscall.SIGTERM)
	})
}

// That the loop hangs must be seen without it.
func TestHealthTurnsRedWhenTheLoopHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.options.Account = func([]byte) { time.Sleep(time.Minute) }
		get := w.withMetrics()
		w.run()
		w.spool.bring(1, "a.example")
		synctest.Wait()
		wantHealth(t, get, http.StatusServiceUnavailable, "the loop does not answer")
		time.Sleep(2 * time.Minute)
		wantHealth(t, get, http.StatusOK, "ok")
		w.stop(syscall.SIGTERM)
	})
}
