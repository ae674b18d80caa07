package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"zsched/internal/testing/peertest"
)

// The whole program against the floor, in one run: testdata/floor does to the
// files what nobody can avoid, in one process. Queues are filled in pairs, so
// that both sides find theirs at the same age: an ext4 queue that was just
// filled drains several times faster than one whose inodes were written back.

// drainClauses are ways to use agents. Pipelined ones have the next job
// line of a thread at hand when they are done with one; concurrent ones have a
// hundred open at once, of any threads, which is what serves a queue with a
// host for every message. With marking=scheduler the control file is not written,
// because each outcome ends its message.
var drainClauses = map[string]string{
	"pipelined":  "smtp/* maxring=3 maxthr=1 overfeed=100 quantum=100\n\tcommand=\"discard -c $channel\"\n",
	"unmarked":   "smtp/* maxring=3 maxthr=1 overfeed=100 quantum=100 marking=scheduler\n\tcommand=\"discard -c $channel --marking scheduler\"\n",
	"concurrent": "smtp/* maxring=100 maxthr=1 sessions=100\n\tcommand=\"discard -c $channel --sessions ${sessions}\"\n",
}

// BenchmarkDrain empties queues of fresh messages through discard. The floor's rate and the median ratio of
// three pairs stand beside the rate; the ratio is what counts.
func BenchmarkDrain(b *testing.B) {
	for _, c := range []struct {
		messages, hosts, pairs int
		agents, age            string
	}{
		{40_000, 100, 3, "pipelined", "new"}, {40_000, 100, 3, "pipelined", "aged"},
		{40_000, 100, 3, "unmarked", "new"}, {40_000, 100, 3, "unmarked", "aged"},
		{100_000, 1000, 3, "pipelined", "new"}, {100_000, 1000, 1, "pipelined", "aged"},
		{40_000, 40_000, 3, "concurrent", "new"}, {40_000, 40_000, 3, "concurrent", "aged"},
		{40_000, 40_000, 3, "pipelined", "new"},
	} {
		b.Run(fmt.Sprintf("messages=%d/hosts=%d/%s/%s", c.messages, c.hosts, c.agents, c.age), func(b *testing.B) {
			f := newBench(b)
			var rates, floors, ratios []float64
			for b.Loop() {
				for pair := range c.pairs {
					floor, ours := f.pair(b, drainClauses[c.agents], pair, c.messages, c.hosts, c.age == "aged")
					rates = append(rates, float64(c.messages)/ours.Seconds())
					floors = append(floors, float64(c.messages)/floor.Seconds())
					ratios = append(ratios, floor.Seconds()/ours.Seconds())
				}
			}
			b.ReportMetric(0, "ns/op") // mostly the filling
			b.ReportMetric(median(rates), "msg/s")
			b.ReportMetric(median(floors), "floor/s")
			b.ReportMetric(median(ratios), "of-floor")
		})
	}
}

// pair fills two queues alike and drains one by the floor, one by us, in turn.
func (f *bench) pair(b *testing.B, clause string, n, messages, hosts int, aged bool) (floor, ours time.Duration) {
	first, second := f.postoffice(b), f.postoffice(b)
	var filling sync.WaitGroup
	for _, po := range []string{first, second} {
		f.write(b, po, clause)
		filling.Go(func() { fill(b, po, messages, hosts) })
	}
	filling.Wait()
	if aged {
		writeBack(b)
	}
	if n%2 == 0 {
		floor = f.floor(b, first, messages)
		return floor, f.drain(b, second)
	}
	ours = f.drain(b, first)
	return f.floor(b, second, messages), ours
}

// BenchmarkEventLog gives what the event log costs: the median ratio of the time
// to drain a queue with it to the time without, side by side.
func BenchmarkEventLog(b *testing.B) {
	const messages, hosts, pairs = 20_000, 100, 3
	f := newBench(b)
	var rates, ratios []float64
	for b.Loop() {
		for n := range pairs {
			without, with := f.postoffice(b), f.postoffice(b)
			f.write(b, without, drainClauses["pipelined"])
			f.write(b, with, "PARAMevent-log="+filepath.Join(with, "events")+"\n"+drainClauses["pipelined"])
			var filling sync.WaitGroup
			filling.Go(func() { fill(b, without, messages, hosts) })
			filling.Go(func() { fill(b, with, messages, hosts) })
			filling.Wait()
			took := [2]time.Duration{}
			for i, po := range [2]string{without, with} {
				if n%2 == 1 {
					i, po = 1-i, [2]string{with, without}[i]
				}
				took[i] = f.drain(b, po)
			}
			rates = append(rates, messages/took[1].Seconds())
			ratios = append(ratios, took[1].Seconds()/took[0].Seconds())
		}
	}
	b.ReportMetric(0, "ns/op") // mostly the filling
	b.ReportMetric(median(rates), "msg/s")
	b.ReportMetric(median(ratios), "of-without")
}

// BenchmarkClusterDrain gives what a cluster costs: the median ratio of the rates at
// which a queue drains with a limit of the cluster on every host, and without one,
// side by side. The time of the first epoch, in which nothing is granted, is not
// counted: another node has begun it.
func BenchmarkClusterDrain(b *testing.B) {
	const messages, hosts, pairs = 20_000, 100, 3
	f := newBench(b)
	store := peertest.FindRedis(b)
	if store == nil {
		b.Skip("no redis-server: make peers gets one")
	}
	store.Start()
	limited := strings.Replace(drainClauses["pipelined"], "maxthr=1", "maxthr=1 clustermax=3", 1)
	cluster := "PARAMcluster=\"redis://" + store.Addr() + "/0?ttl=3s\"\n"
	first := f.postoffice(b)
	f.write(b, first, cluster+limited)
	f.start(b, first).stop(b)
	time.Sleep(4 * time.Second) // the first epoch
	var ratios, rates, work []float64
	for b.Loop() {
		for n := range pairs {
			took, used := [2]time.Duration{}, [2]time.Duration{}
			for i := range 2 {
				i = (i + n) % 2
				po := f.postoffice(b)
				f.write(b, po, []string{drainClauses["pipelined"], cluster + limited}[i])
				fill(b, po, messages, hosts)
				before := childrenTime(b)
				took[i] = f.drain(b, po)
				used[i] = childrenTime(b) - before
			}
			rates = append(rates, messages/took[1].Seconds())
			ratios = append(ratios, took[0].Seconds()/took[1].Seconds())
			work = append(work, used[0].Seconds()/used[1].Seconds())
		}
	}
	b.ReportMetric(0, "ns/op") // mostly the filling
	b.ReportMetric(median(rates), "msg/s")
	b.ReportMetric(median(ratios), "of-without")
	b.ReportMetric(median(work), "cpu-of-without")
}

// childrenTime returns the processor time of all children that have ended, with their
// own children: other work on the machine changes it less than it changes rates.
func childrenTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// writeBack has the file system write the inodes back, as it does by itself within
// half a minute.
func writeBack(b testing.TB) {
	syscall.Sync()
	if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("1"), 0); err != nil {
		b.Log("page cache not dropped: ", err)
	}
}

// BenchmarkNotified gives the time from the moment a router shows a control
// file, and says so by datagram, until the waiting agent has the job line in
// its hand.
func BenchmarkNotified(b *testing.B) {
	f := newBench(b)
	po := f.postoffice(b)
	stamps := filepath.Join(po, "stamps")
	f.write(b, po, "smtp/* marking=scheduler overfeed=0 command=\"stamper "+stamps+"\"\n")
	sched := f.start(b, po)
	defer sched.stop(b)
	conn := dialNotify(b, filepath.Join(po, ".scheduler.notify"))
	defer conn.Close()
	send := func(n int) time.Time {
		at := submitLetter(b, po, n, 1)
		if _, err := fmt.Fprintf(conn, "NEW %d", n); err != nil {
			b.Fatal(err)
		}
		waitEmpty(b, filepath.Join(po, "transport"), filepath.Join(po, "queue"))
		return at
	}
	send(1) // starts the agent
	var waits []float64
	n := 1
	for b.Loop() {
		n++
		sent := send(n)
		fed := lastStamp(b, stamps)
		waits = append(waits, float64(fed.Sub(sent).Nanoseconds())/1e6)
	}
	slices.Sort(waits)
	b.ReportMetric(waits[len(waits)/2], "p50-ms")
	b.ReportMetric(waits[len(waits)*99/100], "p99-ms")
}

// BenchmarkFirstFeed gives the time from the start of the daemon until its
// first agent has a job line, with 100 000 control files waiting.
func BenchmarkFirstFeed(b *testing.B) {
	f := newBench(b)
	po := f.postoffice(b)
	stamps := filepath.Join(po, "stamps")
	f.write(b, po, "smtp/* marking=scheduler overfeed=0 maxring=1 command=\"stamper "+stamps+" stay\"\n")
	fill(b, po, 100_000, 1000)
	var waits []float64
	for b.Loop() {
		os.Remove(stamps)
		begun := time.Now()
		sched := f.start(b, po)
		for deadline := time.Now().Add(time.Minute); ; {
			if data, err := os.ReadFile(stamps); err == nil && bytes.HasSuffix(data, []byte("\n")) {
				break
			}
			if time.Now().After(deadline) {
				b.Fatal("nothing was fed")
			}
			time.Sleep(200 * time.Microsecond)
		}
		waits = append(waits, lastStamp(b, stamps).Sub(begun).Seconds())
		b.StopTimer()
		sched.stop(b)
		b.StartTimer()
	}
	b.ReportMetric(median(waits), "s-to-first-feed")
}
