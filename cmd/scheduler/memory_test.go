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

// deferClauses let an agent defer everything.
const deferClauses = "PARAMmetrics=UNIX:%s/metrics\n" +
	"smtp/* interval=2h maxring=3 maxthr=1 overfeed=100 quantum=100\n\tcommand=\"discard -c $channel --defer 100\"\n"

// mostResident is how many megabytes the program may have with 300 000 deferred messages.
const mostResident = 120

// BenchmarkResident measures the resident size of the program, at its end and at most, with
// deferred messages, without and with an event log.
func BenchmarkResident(b *testing.B) {
	for _, messages := range []int{20_000, 150_000, 300_000} {
		for name, param := range map[string]string{"plain": "", "events": "PARAMevent-log=%s/events\n"} {
			b.Run(strconv.Itoa(messages)+"/"+name, func(b *testing.B) {
				f := newBench(b)
				for b.Loop() {
					po := f.postoffice(b)
					f.write(b, po, strings.ReplaceAll(param+deferClauses, "%s", po))
					fill(b, po, messages, 1000)
					begun := time.Now()
					sched := f.start(b, po)
					awaitDeferred(b, po, messages)
					b.ReportMetric(float64(messages)/time.Since(begun).Seconds(), "msg/s")
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
