package metrics

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"zsched/mailq"
	"zsched/scheduler/daemon"
	"zsched/scheduler/daemon/daemontest"
	"zsched/scheduler/rule"
	"zsched/ta"
)

// harness is a loop whose numbers are served.
type harness struct {
	*daemontest.Harness
	t        *testing.T
	stats    *Stats
	listener pipeListener
	kept     func(context.Context) (mailq.Totals, error)
}

func newHarness(t *testing.T, set func(*rule.Params)) *harness {
	h := &harness{Harness: daemontest.New(t, set), t: t, stats: NewStats(), listener: make(pipeListener)}
	h.Options.Observers = []daemon.Observer{h.stats}
	return h
}

// Run starts the loop and the server, which ends with the test.
func (h *harness) Run() {
	h.Harness.Run()
	server := &Server{Port: h.Daemon, Stats: h.stats, Kept: h.kept, Log: h.Options.Log}
	go server.Serve(h.listener)
}

// Stop stops the loop and the server.
func (h *harness) Stop(sig os.Signal) {
	h.Harness.Stop(sig)
	close(h.listener)
}

// get asks for a path.
func (h *harness) get(path string) (status int, body string) {
	h.t.Helper()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			h.listener <- theirs
			return ours, nil
		},
	}}
	answer, err := client.Get("http://metrics" + path)
	if err != nil {
		h.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// pipeListener is a listener without a descriptor.
type pipeListener chan net.Conn

func (l pipeListener) Accept() (net.Conn, error) {
	conn, ok := <-l
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (pipeListener) Close() error   { return nil }
func (pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func wantLines(t *testing.T, body string, lines ...string) {
	t.Helper()
	have := make(map[string]bool)
	for line := range strings.Lines(body) {
		have[strings.TrimSuffix(line, "\n")] = true
	}
	for _, line := range lines {
		if !have[line] {
			t.Errorf("no line %q in:\n%s", line, strings.Join(grep(body, "scheduler_"), "\n"))
			return
		}
	}
}

func grep(text, word string) (lines []string) {
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) && !strings.HasPrefix(line, "#") {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}

func TestMetricsCountWhatHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		h.Deliver = func(a *daemontest.FakeAgent, job ta.JobLine) {
			switch job.Host {
			case "later.example":
				a.ReportAll(job, ta.Deferred, "later")
			case "no.example":
				a.ReportAll(job, ta.Error2, "no")
			default:
				a.ReportAll(job, ta.OK2, "delivered")
			}
		}
		h.Run()
		h.Spool.Announce(1, "a.example", "later.example", "no.example", "no.example")
		synctest.Wait()
		status, body := h.get("/metrics")
		if status != http.StatusOK {
			t.Fatalf("%d: %s", status, body)
		}
		wantLines(t, body,
			"scheduler_messages 1", "scheduler_recipients 1", "scheduler_threads 1",
			"scheduler_messages_in_total 1", "scheduler_messages_out_total 0",
			`scheduler_arrived_total{channel="smtp"} 4`, `scheduler_delivered_total{channel="smtp"} 1`,
			`scheduler_failed_total{channel="smtp"} 2`, `scheduler_deferred_total{channel="smtp"} 1`,
			`scheduler_agents{state="starting"} 0`, "scheduler_spool_up 1",
		)
		if len(grep(body, "go_goroutines")) == 0 || len(grep(body, "scheduler_loop_pause_seconds_bucket")) == 0 {
			t.Error("no process metrics, or no pauses")
		}
		h.Stop(syscall.SIGTERM)
	})
}

func TestKeptMailHasItsCountAndAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		h.kept = func(context.Context) (mailq.Totals, error) {
			return mailq.Totals{Held: mailq.Kept{Count: 2, OldestAt: time.Now().Add(-time.Hour)}}, nil
		}
		h.Run()
		_, body := h.get("/metrics")
		wantLines(t, body, `scheduler_kept{state="held"} 2`, `scheduler_kept_oldest_seconds{state="held"} 3600`,
			`scheduler_kept{state="quarantined"} 0`, `scheduler_kept_oldest_seconds{state="quarantined"} 0`)
		h.Stop(syscall.SIGTERM)
	})
}

func TestReloadsOfTheRouterAndTheSMTPServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		var totals mailq.Totals
		h.kept = func(context.Context) (mailq.Totals, error) { return totals, nil }
		totals.SMTPReload.Error = "smtpserver.cf:1: unknown option"
		h.Run()
		_, body := h.get("/metrics")
		wantLines(t, body, `scheduler_router_last_reload_successful 1`, `scheduler_smtpserver_last_reload_successful 0`)
		totals = mailq.Totals{Router: mailq.Router{Reload: mailq.Reload{Error: "routes:1: no channel"}}}
		_, body = h.get("/metrics")
		wantLines(t, body, `scheduler_router_last_reload_successful 0`, `scheduler_smtpserver_last_reload_successful 1`)
		h.Stop(syscall.SIGTERM)
	})
}

func TestUnknownMetricsRequestIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		h.Run()
		for path, want := range map[string]int{
			"/": http.StatusNotFound, "/metrics/": http.StatusNotFound,
		} {
			if status, body := h.get(path); status != want {
				t.Errorf("%s: %d %s", path, status, body)
			}
		}
		h.Stop(syscall.SIGTERM)
	})
}

// Ages come from what each thread keeps.
func TestAgesAreThoseOfThreads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		h.Deliver = func(a *daemontest.FakeAgent, job ta.JobLine) { a.ReportAll(job, ta.Deferred, "451 busy") }
		h.Run()
		h.Spool.Announce(1, "a.example", "b.example")
		synctest.Wait()
		_, body := h.get("/metrics")
		wantLines(t, body, `scheduler_job_lines{state="waiting"} 2`, `scheduler_job_lines{state="due"} 0`)
		h.Spool.Announce(2, "c.example")
		time.Sleep(3 * time.Second)
		_, body = h.get("/metrics")
		wantLines(t, body, `scheduler_job_lines{state="waiting"} 3`, `scheduler_oldest_seconds{state="waiting"} 3`,
			`scheduler_oldest_seconds{state="due"} 0`, "scheduler_oldest_without_event_seconds 3")
		h.Stop(syscall.SIGTERM)
	})
}

// A destination fails, is left alone, and answers again.
func TestSuspensionsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up atomic.Bool
		h := newHarness(t, nil)
		h.Deliver = func(a *daemontest.FakeAgent, job ta.JobLine) {
			if up.Load() {
				a.ReportAll(job, ta.OK2, "delivered")
				return
			}
			a.ReportAll(job, ta.DeferAll, "421 nobody is at home")
		}
		h.Run()
		h.Spool.Announce(1, "a.example")
		synctest.Wait()
		h.Spool.Announce(2, "a.example")
		synctest.Wait()
		_, body := h.get("/metrics")
		wantLines(t, body, `scheduler_suspensions_total 1`, `scheduler_threads_waiting{for="suspended"} 1`,
			`scheduler_job_lines{state="blocked"} 1`, `scheduler_job_lines{state="due"} 0`)
		up.Store(true)
		time.Sleep(2 * time.Minute)
		_, body = h.get("/metrics")
		wantLines(t, body, `scheduler_suspensions_total 1`)
		if waits := grep(body, "scheduler_threads_waiting"); len(waits) != 0 {
			t.Errorf("%q", waits)
		}
		h.Stop(syscall.SIGTERM)
	})
}

// A client that is gone before it has read its reply does not fill the log: the
// encoder would report the error for each metric.
func TestClientThatLeavesIsNotLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		h.Run()
		for range 20 {
			ours, theirs := net.Pipe()
			h.listener <- theirs
			io.WriteString(ours, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
			ours.Close()
		}
		synctest.Wait()
		if log := h.Log.String(); strings.Contains(log, "error") {
			t.Errorf("the log has %d bytes: %.500s", len(log), log)
		}
		h.Stop(syscall.SIGTERM)
	})
}
