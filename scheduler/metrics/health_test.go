package metrics

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"zsched/scheduler/agent"
	"zsched/scheduler/daemon"
	"zsched/scheduler/spool"
)

func (h *harness) wantHealth(status int, why string) {
	h.t.Helper()
	got, body := h.get("/healthz")
	if got != status || !strings.Contains(body, why) {
		h.t.Errorf("%d %q, want %d %q", got, body, status, why)
	}
}

func TestHealthTurnsRedWhileTheSpoolCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		h.Run()
		h.wantHealth(http.StatusOK, "ok")
		h.Spool.Fail(fmt.Errorf("finishing %q: %w", "1", syscall.EROFS))
		h.Spool.Announce(1, "a.example")
		synctest.Wait()
		h.wantHealth(http.StatusServiceUnavailable, "read-only")
		_, body := h.get("/metrics")
		wantLines(t, body, "scheduler_spool_up 0", "scheduler_spool_unwritten 1", `scheduler_spool_errors_total{doing="finish"} 1`)
		h.Spool.Fail(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		h.wantHealth(http.StatusOK, "ok")
		h.Spool.Answer(spool.Reserve{Err: syscall.ENOSPC})
		synctest.Wait()
		_, body = h.get("/metrics")
		wantLines(t, body, "scheduler_spool_up 1", "scheduler_spool_reserve 0")
		h.Spool.Answer(spool.Reserve{})
		synctest.Wait()
		_, body = h.get("/metrics")
		wantLines(t, body, "scheduler_spool_reserve 1")
		h.Stop(syscall.SIGTERM)
	})
}

func TestHealthTurnsRedWhenTheSpoolHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		h.Spool.Slow = time.Hour
		h.Run()
		h.Spool.Announce(1, "a.example")
		time.Sleep(time.Minute)
		h.wantHealth(http.StatusOK, "ok")
		time.Sleep(2 * time.Minute)
		h.wantHealth(http.StatusServiceUnavailable, "1 changes")
		time.Sleep(time.Hour)
		h.Spool.Answer(spool.Swept{})
		h.wantHealth(http.StatusOK, "ok")
		time.Sleep(16 * time.Minute)
		h.wantHealth(http.StatusServiceUnavailable, "has not been swept for 16m")
		h.Stop(syscall.SIGTERM)
	})
}

// That the loop hangs must be seen without it.
func TestHealthTurnsRedWhenTheLoopHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		h.Options.Account = func([]byte) { time.Sleep(time.Minute) }
		h.Run()
		h.Spool.Announce(1, "a.example")
		synctest.Wait()
		h.wantHealth(http.StatusServiceUnavailable, "the loop does not answer")
		time.Sleep(2 * time.Minute)
		h.wantHealth(http.StatusOK, "ok")
		h.Stop(syscall.SIGTERM)
	})
}

func TestHealthTurnsRedWhileTheSpoolIsShut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		h.Spool.Fail(fmt.Errorf("finishing %q: %w", "1", syscall.EROFS))
		h.Run()
		h.Spool.Announce(1, "a.example")
		time.Sleep(time.Hour)
		h.wantHealth(503, "read-only file system")
		h.Spool.Fail(nil)
		time.Sleep(15 * time.Second)
		h.wantHealth(200, "ok")
		h.Stop(syscall.SIGTERM)
	})
}

// A single failure of a start is no fault: the next one may succeed.
func TestHealthTurnsRedWhileAgentsDoNotStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		var failing atomic.Bool
		failing.Store(true)
		h.Options.Agents.Start = func(spec agent.Spec, sink func([]agent.Event)) (daemon.Agent, error) {
			if failing.Load() {
				return nil, errors.New("no such file or directory")
			}
			return h.Harness.Start(spec, sink)
		}
		h.Run()
		h.Spool.Announce(1, "a.example")
		time.Sleep(10 * time.Second)
		h.wantHealth(200, "ok")
		time.Sleep(10 * time.Second)
		h.wantHealth(503, "the agents of channel smtp do not start: no such file or directory")
		failing.Store(false)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		h.wantHealth(200, "ok")
		h.Stop(syscall.SIGTERM)
	})
}
