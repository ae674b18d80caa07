package daemon

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"zsched/scheduler"
	"zsched/ta"
)

// withMetrics gives the world a metrics socket and returns what asks there.
func (w *world) withMetrics() func(path string) (status int, body string) {
	listener := newPipeListener()
	w.options.Inherited = map[string][]net.Listener{metricsName: {listener}}
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		Dial:              func(string, string) (net.Conn, error) { return listener.dial(), nil },
	}}
	return func(path string) (int, string) {
		w.t.Helper()
		answer, err := client.Get("http://metrics" + path)
		if err != nil {
			w.t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			w.t.Fatal(err)
		}
		return answer.StatusCode, string(body)
	}
}

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

// Connections that nobody uses do not take the file descriptors that mail
// needs, and make room when they are gone.
func TestMetricsHaveFewConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		get := w.withMetrics()
		listener := w.options.Inherited[metricsName][0].(*pipeListener)
		w.run()
		var open []net.Conn
		for range metricsConns {
			open = append(open, listener.dial())
		}
		synctest.Wait()
		start := time.Now()
		if n, err := listener.dial().Read(make([]byte, 1)); err != io.EOF || time.Since(start) > 0 {
			t.Errorf("one more: %d bytes, %v, after %v", n, err, time.Since(start))
		}
		open[0].Close()
		synctest.Wait()
		if status, body := get("/healthz"); status != http.StatusOK {
			t.Errorf("in the place of one that left: %d %s", status, body)
		}
		for _, conn := range open {
			conn.Close()
		}
		w.stop(syscall.SIGTERM)
	})
}

func TestMetricsCountWhatHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.play = func(p *puppet, job ta.Job) {
			switch job.Host {
			case "later.example":
				p.reportAll(job, ta.Deferred, "later")
			case "no.example":
				p.reportAll(job, ta.Error2, "no")
			default:
				p.reportAll(job, ta.OK2, "delivered")
			}
		}
		get := w.withMetrics()
		w.run()
		w.spool.bring(1, "a.example", "later.example", "no.example", "no.example")
		synctest.Wait()
		status, body := get("/metrics")
		if status != http.StatusOK {
			t.Fatalf("%d: %s", status, body)
		}
		wantLines(t, body,
			"scheduler_messages 1", "scheduler_recipients 1", "scheduler_threads 1",
			"scheduler_messages_in_total 1", "scheduler_messages_out_total 0",
			`scheduler_arrived_total{channel="smtp"} 4`, `scheduler_delivered_total{channel="smtp"} 1`,
			`scheduler_failed_total{channel="smtp"} 2`, `scheduler_deferred_total{channel="smtp"} 1`,
			"scheduler_feed_seconds_count 1", `scheduler_feed_seconds_bucket{le="0.0005"} 1`,
			`scheduler_agents{state="starting"} 0`, "scheduler_spool_up 1",
		)
		if len(grep(body, "go_goroutines")) == 0 || len(grep(body, "scheduler_loop_pause_seconds_bucket")) == 0 {
			t.Error("no process metrics, or no pauses")
		}
		w.stop(syscall.SIGTERM)
	})
}

// The time until the first job line is what is measured, however long it is.
func TestFeedLatencyIsThatOfTheFirstJobLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(p *scheduler.Params) { p.MaxRing = 1 })
		w.play = func(p *puppet, job ta.Job) {
			time.Sleep(10 * time.Second)
			p.reportAll(job, ta.OK2, "delivered")
		}
		get := w.withMetrics()
		w.run()
		w.spool.bring(1, "a.example")
		w.spool.bring(2, "b.example")
		time.Sleep(15 * time.Second)
		_, body := get("/metrics")
		wantLines(t, body, "scheduler_feed_seconds_count 2", `scheduler_feed_seconds_bucket{le="5"} 1`, "scheduler_feed_seconds_sum 10")
		time.Sleep(15 * time.Second)
		w.stop(syscall.SIGTERM)
	})
}

// A router that makes up channels does not fill the memory of who scrapes.
func TestChannelsOfMetricsAreBounded(t *testing.T) {
	var all []scheduler.ChannelView
	for i := range 1000 {
		all = append(all, scheduler.ChannelView{Name: fmt.Sprint("channel", i), In: 1})
	}
	few := fewChannels(all)
	if n := len(few); n != channelsMost+1 {
		t.Errorf("%d channels are told", n)
	}
	if last := few[len(few)-1]; last.Name != otherChannels || last.In != 1000-channelsMost {
		t.Errorf("the last is %+v", last)
	}
}

// A copy does not change any more.
func TestTallyCopyIsOfOneMoment(t *testing.T) {
	counts := newTally(time.Now())
	counts.pauses.observe(.001)
	c := counts.copy()
	counts.pauses.observe(.001)
	counts.faults["mark"]++
	if c.pauses.cumulative()[.001] != 1 || len(c.faults) != 0 {
		t.Errorf("the copy is %+v", c)
	}
}

func TestHistogramCountsUpToEachBound(t *testing.T) {
	h := newHistogram([]float64{1, 2, 5})
	for _, x := range []float64{0, 1, 1.5, 2, 3, 100} {
		h.observe(x)
	}
	got := h.cumulative()
	if got[1] != 2 || got[2] != 4 || got[5] != 5 || h.total != 6 || h.sum != 107.5 {
		t.Errorf("%v of %d, sum %v", got, h.total, h.sum)
	}
}

func TestUnknownMetricsRequestIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		get := w.withMetrics()
		w.run()
		for path, want := range map[string]int{
			"/": http.StatusNotFound, "/metrics?destinations=all": http.StatusBadRequest, "/metrics?destinations=-1": http.StatusBadRequest,
		} {
			if status, body := get(path); status != want {
				t.Errorf("%s: %d %s", path, status, body)
			}
		}
		w.stop(syscall.SIGTERM)
	})
}
