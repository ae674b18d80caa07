package cluster_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"zsched/internal/redisurl"
	"zsched/internal/testing/peertest"
	"zsched/scheduler"
	"zsched/scheduler/cluster"
)

// BenchmarkTenThousandLimits gives the share of one core that a Redis server needs for
// 10 000 limits with steady demand on three nodes, with the times of production, and
// the calls a second.
func BenchmarkTenThousandLimits(b *testing.B) {
	const limits = 10_000
	r := peertest.FindRedis(b)
	if r == nil {
		b.Skip("no redis-server: make peers gets one")
	}
	r.Start()
	address, err := redisurl.Parse("redis://" + r.Addr())
	if err != nil {
		b.Fatal(err)
	}
	stop := make(chan struct{})
	var running sync.WaitGroup
	for i := range 3 {
		n := cluster.Open(cluster.Options{Store: address, Node: fmt.Sprint("node", i), Place: "here",
			Nonce: fmt.Sprint("n", i), Rand: rand.New(rand.NewPCG(1, 1))})
		running.Go(func() {
			defer n.Close()
			n.Turn(time.Now())
			for l := range limits {
				n.Perform(scheduler.Want{Limit: scheduler.ClusterLimit{Setting: "clustermax", Channel: "smtp", Name: fmt.Sprint("host", l, ".example")}, Max: 20, Want: 10, Busy: 5})
			}
			for {
				n.Turn(time.Now())
				n.Flush()
				select {
				case <-stop:
					return
				case <-n.Woken():
				case <-time.After(time.Until(n.Next())):
				}
			}
		})
	}
	time.Sleep(45 * time.Second) // the first epoch, and its end
	for b.Loop() {
		cpu, begun := cpuTime(b, r.PID()), time.Now()
		time.Sleep(20 * time.Second)
		span := time.Since(begun).Seconds()
		b.ReportMetric(100*(cpuTime(b, r.PID())-cpu).Seconds()/span, "%core")
	}
	b.ReportMetric(0, "ns/op")
	close(stop)
	running.Wait()
}

// cpuTime returns the time that a process has used.
func cpuTime(b *testing.B, pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	ticks := 0
	for _, f := range fields[11:13] {
		n, _ := strconv.Atoi(f)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
