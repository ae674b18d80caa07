package scheduler

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"zsched/ctlfile"
	"zsched/ta"
)

// recordQueue is a scheduler with a limit on memory. Its simulated spool needs no
// memory: the number of a message says when it arrived and for which host it is.
type recordQueue struct {
	s          *Scheduler
	begun, now time.Time
	last       MessageID
	hungry     []AgentID // they answer a Start or an Idle
	feeds      []Feed
	loads      []MessageID
	loaded     int
	stepTimes
	hosts []string
}

// recordInterval is the time between two arrivals: ten million take 55 hours.
const recordInterval = 20 * time.Millisecond

func newRecordQueue(activeLimit int) *recordQueue {
	q := &recordQueue{begun: time.Unix(1_800_000_000, 0)}
	q.now = q.begun
	for i := range 1000 {
		q.hosts = append(q.hosts, fmt.Sprintf("host%d.example", i))
	}
	q.s = New(&Config{
		ActiveLimit: activeLimit, RingReserve: 100,
		Defaults: Params{
			Interval: 100 * time.Hour, Expiry: 1000 * time.Hour, Retries: []int{1}, Jitter: 10,
			MaxThr: 1, MaxRing: 20, Sessions: 1, Quantum: 50, UID: -1, GID: -1,
		},
		Clauses: []Clause{{Channel: "smtp", Host: "*", Settings: []Setting{
			{Name: "command", Value: "smtp", Apply: func(p *Params) { p.Command = []string{"smtp"} }},
		}}},
	}, rand.New(rand.NewPCG(1, 2)))
	return q
}

func (q *recordQueue) message(id MessageID) Message {
	name := strconv.FormatUint(uint64(id), 10)
	sender := "sender" + name + "@example.org"
	return Message{
		ID: id, Path: name, Sender: sender, ErrorTo: sender, LogID: name, Size: 2000,
		ModifiedAt: q.begun.Add(recordInterval * time.Duration(id)), ChangedAt: q.now,
		Recipients: []ctlfile.OpenRecipient{{Offset: 160, Channel: "smtp", Host: q.hosts[id%1000], Notify: ctlfile.NotifyFailure}},
	}
}

func (q *recordQueue) step(e Event) {
	for _, a := range q.timed(q.s, q.now, e) {
		switch a := a.(type) {
		case Start:
			q.hungry = append(q.hungry, a.Agent)
		case Idle:
			q.hungry = append(q.hungry, a.Agent)
		case Feed:
			q.feeds = append(q.feeds, a)
		case Load:
			q.loads = append(q.loads, a.Message)
		}
	}
}

func (q *recordQueue) arrive() {
	q.now = q.now.Add(recordInterval)
	q.last++
	q.step(Arrived{q.message(q.last)})
}

// serve lets the agents defer what they were given, and the spool read what the
// core wants.
func (q *recordQueue) serve() {
	for len(q.loads)+len(q.feeds)+len(q.hungry) > 0 {
		hungry := q.hungry
		q.hungry = nil
		for _, id := range hungry {
			q.step(AgentHungry{Agent: id})
		}
		loads := q.loads
		q.loads = nil
		for _, id := range loads {
			q.loaded++
			q.step(Loaded{q.message(id)})
		}
		feeds := q.feeds
		q.feeds = nil
		for _, f := range feeds {
			id, _ := strconv.ParseUint(f.Job.Path, 10, 64)
			q.step(AgentReported{Agent: f.Agent, Report: ta.Report{Message: id, Offset: 160, Status: ta.Deferred, Text: "said"}})
			q.step(AgentHungry{Agent: f.Agent})
		}
	}
}

// BenchmarkOnRecord measures the memory and the time that mail on record takes:
// deferred messages, each with one recipient and a sender of its own, under an
// active limit of 2000. There are a million, or as many as the variable RECORDS
// says. The garbage collector has the setting of cmd/scheduler. The metrics
// "arrive" and "retry" are the time in the core for a message that arrives and is
// deferred, and for one that comes due, is read again and is deferred.
func BenchmarkOnRecord(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(50))
	n, err := strconv.Atoi(cmp.Or(os.Getenv("RECORDS"), "1000000"))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		before := heapInUse()
		q := newRecordQueue(2000)
		for range n {
			q.arrive()
			q.serve()
		}
		b.ReportMetric(float64(q.inCore.Nanoseconds())/float64(n), "ns-arrive")
		if c := q.s.Counts(); c.Recipients != n || c.OnRecord < n-2000 {
			b.Fatalf("%+v", c)
		}
		q.inCore, q.longest, q.loaded = 0, 0, 0
		for q.loaded < min(n, 100_000) {
			next, ok := q.s.Next()
			if !ok {
				b.Fatalf("nothing is planned: %+v", q.s.Counts())
			}
			if next.After(q.now) {
				q.now = next
			}
			q.step(Tick{})
			q.serve()
		}
		b.ReportMetric(float64(q.inCore.Nanoseconds())/float64(q.loaded), "ns-retry")
		b.ReportMetric(float64(q.longest.Microseconds())/1000, "ms-longest-step")
		b.ReportMetric(residentMB(b), "MB-resident")
		b.ReportMetric(float64(heapInUse()-before)/float64(n), "B/recipient")
		runtime.KeepAlive(q)
	}
	b.ReportMetric(0, "ns/op")
}

// TestMemoryOfRecords is the benchmark in small: its memory for a recipient
// is that of ten million.
func TestMemoryOfRecords(t *testing.T) {
	before := heapInUse()
	q := newRecordQueue(200)
	q.s.config.Defaults.Jitter = 0 // so that few seconds are in the calendar
	const n = 100_000
	for range n {
		q.arrive()
		q.serve()
	}
	if c := q.s.Counts(); c.Recipients != n || c.OnRecord < n-200 || c.States.Waiting != n {
		t.Errorf("%+v", c)
	}
	if each := float64(heapInUse()-before) / n; each > 160 {
		t.Errorf("%.0f bytes for a recipient", each)
	}
	runtime.KeepAlive(q)
}
