package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// limitClauses let an agent defer everything, and keep few messages in memory.
const limitClauses = "PARAMmetrics=UNIX:%s/metrics\nPARAMactive-limit=%d\n" +
	"smtp/* interval=2h maxring=3 maxthr=1 overfeed=100 quantum=100\n\tcommand=\"discard -c $channel --defer 100\"\n"

// TestActiveLimit: the program defers every message, unloads most of
// them, and starts again with all of them.
func TestActiveLimit(t *testing.T) {
	t.Parallel()
	f := newBench(t)
	po := f.postoffice(t)
	f.write(t, po, fmt.Sprintf(limitClauses, po, 100))
	fill(t, po, 2000, 50)
	sched := f.start(t, po)
	n := awaitDeferred(t, po, 2000)
	if n["scheduler_messages"] != 2000 || n["scheduler_messages_not_loaded"] < 1900 {
		t.Errorf("%v", n)
	}
	sched.stop(t)
	// The next process knows when each message is due, so it defers none of them.
	sched = f.start(t, po)
	awaitMetrics(t, po, func(n map[string]float64) bool {
		return n["scheduler_messages"] == 2000 && n["scheduler_messages_not_loaded"] >= 1900
	})
	sched.stop(t)
}

// mostResident is how many megabytes the program may have with 150 000 deferred
// messages under an active limit of 2000.
const mostResident = 70

// BenchmarkActiveLimit measures the resident size of the program, at its end and
// at most, with deferred messages under an active limit of 2000.
func BenchmarkActiveLimit(b *testing.B) {
	for _, messages := range []int{20_000, 150_000} {
		b.Run(strconv.Itoa(messages), func(b *testing.B) {
			f := newBench(b)
			for b.Loop() {
				po := f.postoffice(b)
				f.write(b, po, fmt.Sprintf(limitClauses, po, 2000))
				fill(b, po, messages, 1000)
				begun := time.Now()
				sched := f.start(b, po)
				n := awaitDeferred(b, po, messages)
				b.ReportMetric(float64(messages)/time.Since(begun).Seconds(), "msg/s")
				b.ReportMetric(n["scheduler_messages_not_loaded"], "not-loaded")
				b.ReportMetric(residentMB(b, sched.cmd.Process.Pid, "VmRSS:"), "MB-resident")
				most := residentMB(b, sched.cmd.Process.Pid, "VmHWM:")
				b.ReportMetric(most, "MB-most")
				if most > mostResident {
					b.Errorf("%.0f MB resident, must be %d", most, mostResident)
				}
				sched.stop(b)
				os.RemoveAll(po)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// residentMB returns a size of a process from its status file.
func residentMB(b testing.TB, pid int, name string) float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Skip("no /proc here")
	}
	_, rest, _ := strings.Cut(string(status), name)
	kb, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		b.Fatal(err)
	}
	return float64(kb) / 1024
}

// awaitDeferred waits until so many recipients have been deferred, and returns
// the metrics.
func awaitDeferred(b testing.TB, po string, n int) map[string]float64 {
	return awaitMetrics(b, po, func(values map[string]float64) bool {
		return values[`scheduler_deferred_total{channel="smtp"}`] >= float64(n)
	})
}

// awaitMetrics waits until the metrics have reached a state, and returns them by
// name and labels.
func awaitMetrics(b testing.TB, po string, reached func(map[string]float64) bool) map[string]float64 {
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(po, "metrics"))
	}}}
	defer client.CloseIdleConnections()
	var values map[string]float64
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		reply, err := client.Get("http://scheduler/metrics")
		if err != nil {
			continue // it is not up yet
		}
		text, err := io.ReadAll(reply.Body)
		reply.Body.Close()
		if err != nil {
			b.Fatal(err)
		}
		values = make(map[string]float64)
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			values[name], _ = strconv.ParseFloat(value, 64)
		}
		if reached(values) {
			return values
		}
	}
	b.Fatalf("the scheduler did not come so far: %v", values)
	return nil
}
