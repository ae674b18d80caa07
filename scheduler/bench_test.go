package scheduler

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"zsched/ctlfile"
	"zsched/scheduler/limit"
	"zsched/scheduler/rule"
	"zsched/ta"
)

// benchQueue is a scheduler for benchmarks, with a simulated spool that answers
// at once.
type benchQueue struct {
	s      *Scheduler
	now    time.Time
	last   MessageID
	agents []AgentID
	feeds  []Feed
	ops    []Op
	stepTimes
	// made before the measurement
	hosts, senders []string
}

// stepTimes is the time spent in Step, and in the longest one.
type stepTimes struct {
	inCore, longest time.Duration
	steps           int
	// rounds are parts of inCore, for roundSize messages each.
	rounds    []time.Duration
	messages  int
	lastRound time.Duration // inCore at its end
}

const roundSize = 50

func (t *stepTimes) timed(s *Scheduler, now time.Time, e Event) []Action {
	begun := time.Now()
	actions := s.Step(At(now), e)
	t.add(time.Since(begun))
	return actions
}

func (t *stepTimes) add(took time.Duration) {
	t.inCore += took
	t.longest = max(t.longest, took)
	t.steps++
}

// messageEnded counts a message that has gone through the queue.
func (t *stepTimes) messageEnded() {
	if t.messages++; t.messages%roundSize == 0 {
		t.rounds = append(t.rounds, t.inCore-t.lastRound)
		t.lastRound = t.inCore
	}
}

// clockCost is how much of the time that timed adds for a Step is due to the reading of
// the clock: the time that it would add for no Step at all.
func clockCost() time.Duration {
	var costs []time.Duration
	for range 1000 {
		var t stepTimes
		for range roundSize {
			begun := time.Now()
			t.add(time.Since(begun))
		}
		costs = append(costs, t.inCore)
	}
	slices.Sort(costs)
	return costs[len(costs)/2] / roundSize
}

// report reports the time in Step for each message, without clockCost: the mean, and
// the first quartile of the rounds. Other processes of the machine disturb the quartile
// less, and it has little of the garbage collector's share.
func (t *stepTimes) report(b *testing.B) {
	if t.messages == 0 {
		return
	}
	clock := float64(clockCost()) * float64(t.steps) / float64(t.messages)
	b.ReportMetric(float64(t.inCore)/float64(t.messages)-clock, "ns-in-core/op")
	if len(t.rounds) > 0 {
		slices.Sort(t.rounds)
		b.ReportMetric(float64(t.rounds[len(t.rounds)/4])/roundSize-clock, "ns-quartile/op")
	}
}

func newBenchQueue(sessions int) *benchQueue {
	q := &benchQueue{now: time.Unix(1_800_000_000, 0)}
	for i := range 40_000 {
		q.hosts = append(q.hosts, fmt.Sprintf("host%d.example", i))
		q.senders = append(q.senders, fmt.Sprintf("sender%d@example.org", i))
	}
	q.s = New(&rule.Config{
		Defaults: rule.Params{
			Interval: time.Hour, Expiry: 72 * time.Hour, Retries: []int{1, 2, 4}, Jitter: 10,
			MaxThr: 1, MaxRing: sessions, Sessions: 1, Quantum: 50, UID: -1, GID: -1,
		},
		Clauses: []rule.Clause{{Channel: "smtp", Host: "*", Settings: []rule.Setting{
			{Name: "command", Value: "smtp", Apply: func(p *rule.Params) { p.Command = []string{"smtp"} }},
		}}},
	}, rand.New(rand.NewPCG(1, 2)))
	return q
}

func (q *benchQueue) step(e Event) {
	for _, a := range q.timed(q.s, q.now, e) {
		switch a := a.(type) {
		case Start:
			q.agents = append(q.agents, a.Agent)
		case *Feed:
			q.feeds = append(q.feeds, *a)
		case *Finish:
			q.ops = append(q.ops, a.Op)
		}
	}
}

// arrive adds a new message with one recipient, on one of so many hosts.
func (q *benchQueue) arrive(hosts int) { q.arriveFor(q.hosts[int(q.last+1)%hosts]) }

func (q *benchQueue) arriveFor(host string) {
	q.last++
	id := q.last
	name := strconv.FormatUint(uint64(id), 10)
	q.step(Arrived{Message{
		ID: id, Path: name, Sender: q.senders[id%1000], ErrorTo: q.senders[id%1000], MessageID: name,
		ModifiedAt: q.now, ChangedAt: q.now, Size: 2000,
		Recipients: []ctlfile.OpenRecipient{{Offset: 160, Channel: "smtp", Host: host, Notify: ctlfile.NotifyFailure}},
	}})
}

// serve lets the agents answer the lines that they were given.
func (q *benchQueue) serve(status ta.Status) {
	feeds := q.feeds
	q.feeds = nil
	for _, f := range feeds {
		id, _ := strconv.ParseUint(f.Job.Path, 10, 64)
		q.step(AgentReported{Agent: f.Agent, Report: ta.Report{Message: id, Offset: 160, Status: status, Text: "said"}})
		q.step(AgentSaid{Agent: f.Agent, Word: Hungry})
	}
	ops := q.ops
	q.ops = q.ops[:0]
	for _, op := range ops {
		q.step(Done{Op: op})
	}
}

// fill makes a queue of n messages that are due.
func (q *benchQueue) fill(n, hosts int) *benchQueue {
	q.s.rules.config.Frozen = true
	for range n {
		q.arrive(hosts)
	}
	q.s.rules.config.Frozen = false
	return q
}

// deferAll makes a queue of n messages that wait for their next retry, and one
// message that the agent has.
func (q *benchQueue) deferAll(n, hosts int) *benchQueue {
	q.arrive(hosts)
	q.startAgents()
	for range n {
		q.arrive(hosts)
		q.serve(ta.Deferred)
	}
	return q
}

// threadCPU returns the time that the thread has used. Other than elapsed time, it
// does not depend on what else the machine does, except for what is in its caches.
func threadCPU() time.Duration {
	const thread = 1 // RUSAGE_THREAD
	var u syscall.Rusage
	if err := syscall.Getrusage(thread, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkMemory measures the live heap for a waiting message with one
// recipient.
func BenchmarkMemory(b *testing.B) {
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				q := newBenchQueue(1)
				before := heapInUse()
				q.deferAll(n, 1000)
				b.ReportMetric(float64(heapInUse()-before)/float64(n), "B/message")
				runtime.KeepAlive(q)
			}
			b.ReportMetric(float64(unsafe.Sizeof(message{})+unsafe.Sizeof(vertex{})), "B/structs")
		})
	}
}

// BenchmarkCycle measures the whole life of a message (arrival, feed, report,
// #hungry, removal): while so many others wait for their retries; and while so
// many others are due before it, so that for each arrival one old message is
// delivered. The shaped rows are as the waiting ones, but have all rates, a limit on
// sites, and a reply rule that matches nothing.
func BenchmarkCycle(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("waiting=%d", n), func(b *testing.B) {
			newBenchQueue(1).deferAll(n, 1000).cycle(b)
		})
	}
	for _, n := range []int{1000, 100_000} {
		b.Run(fmt.Sprintf("shaped=%d", n), func(b *testing.B) {
			q := newBenchQueue(1)
			q.shape()
			q.deferAll(n, 1000).cycle(b)
		})
	}
	for _, n := range []int{100, 1000, 10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("due=%d", n), func(b *testing.B) {
			q := newBenchQueue(1).fill(n, 1000)
			q.startAgents()
			q.cycle(b)
		})
	}
}

// shape sets limits that never hold anything up.
func (q *benchQueue) shape() {
	p := &q.s.rules.config.Defaults
	fast := limit.Rate{Recipients: 1_000_000_000, Span: time.Second}
	p.Rates.Thread, p.Rates.Channel, p.Rates.Site, p.Rates.Burst, p.SiteMax = fast, fast, fast, 1_000_000_000, 1000
	q.s.rules.config.Replies = []rule.ReplyRule{{
		Channel: "smtp", Host: "*", Expression: "^nothing", Action: "suspend 1h", Verb: rule.ReplySuspend, Span: time.Hour,
		Match: regexp.MustCompile("^nothing").MatchString,
	}}
	q.s.rules.setConfig(q.s.rules.config)
}

func (q *benchQueue) cycle(b *testing.B) {
	before := q.s.Counts()
	b.ReportAllocs()
	runtime.LockOSThread()
	cpu := threadCPU()
	q.stepTimes = stepTimes{}
	for b.Loop() {
		q.arrive(1000)
		q.serve(ta.OK3)
		q.messageEnded()
	}
	b.ReportMetric(float64((threadCPU()-cpu).Nanoseconds())/float64(b.N), "ns-cpu/op")
	q.report(b)
	if after := q.s.Counts(); after.Messages != before.Messages || after.States["waiting"] != before.States["waiting"] {
		b.Fatalf("from %+v to %+v", before, after)
	}
}

// BenchmarkTurns measures the life of a message in one ring with so many jobs due and
// everything on: windows, the turns of 1000 senders, preemption, the sessions of a
// message, and backoff=age. One message in a hundred is for twenty of the 1000 hosts.
// With 1000 jobs, most memory that a message touches is in a cache, so that row shows
// what the instructions cost.
//
// The instructions of a message, those of the benchmark included, are a ten thousandth of the
// difference between the two numbers that this prints.
//
//	go test -c -o turns.test . && for n in 2000 12000; do GODEBUG=cpu.rdtscp=off,asyncpreemptoff=1 \
//		GOGC=off valgrind --tool=callgrind ./turns.test -test.run '^$' -test.cpu 1 \
//		-test.bench 'Turns/jobs=1000$' -test.benchtime ${n}x 2>&1 | grep Collected; done
func BenchmarkTurns(b *testing.B) {
	for _, jobs := range []int{1000, 100_000} {
		b.Run(fmt.Sprintf("jobs=%d", jobs), func(b *testing.B) { benchTurns(b, jobs) })
	}
}

func benchTurns(b *testing.B, jobs int) {
	q := newBenchQueue(100)
	p := &q.s.rules.config.Defaults
	p.Window.Initial, p.MaxThr, p.Window.CohortLimit = 3, 10, 1
	p.Window.Positive, p.Window.Negative = limit.Feedback{Amount: 1, Per: limit.PerN}, limit.Feedback{Amount: 1, Per: limit.PerN}
	p.Preemption.SlotCost, p.Preemption.SlotDiscount, p.Preemption.SlotLoan, p.Preemption.MinSlots = 5, 50, 3, 3
	p.MsgSessions, p.MsgScale, p.Share, p.Sessions = 20, 10, "sender", 20
	p.Backoff, p.MinBackoff, p.MaxBackoff = rule.BackoffAge, 5*time.Minute, 4000*time.Second
	r := rand.New(rand.NewPCG(5, 6))
	hostNumbers := make(map[string]int)
	for i, host := range q.hosts {
		hostNumbers[host] = i
	}
	firstHost := func(id MessageID) int { return int(id) * 7919 % 1000 }
	arrive := func() {
		q.last++
		id := q.last
		name, sender := strconv.FormatUint(uint64(id), 10), q.senders[r.IntN(1000)]
		m := Message{ID: id, Path: name, Sender: sender, ErrorTo: sender, MessageID: name, ModifiedAt: q.now, ChangedAt: q.now}
		n := 1
		if id%100 == 0 {
			n = 20
		}
		for i := range n {
			host := q.hosts[(firstHost(id)+50*i)%1000]
			m.Recipients = append(m.Recipients, ctlfile.OpenRecipient{Offset: int64(160 + i), Channel: "smtp", Host: host})
		}
		q.step(Arrived{m})
	}
	next := 0 // in q.feeds
	q.s.rules.config.Frozen = true
	for range jobs {
		arrive()
	}
	q.s.rules.config.Frozen = false
	q.step(Reloaded{q.s.rules.config})
	for i := 0; i < len(q.agents); i++ {
		for range 20 {
			q.step(AgentSaid{Agent: q.agents[i], Word: Hungry})
		}
	}
	b.ReportAllocs()
	runtime.LockOSThread()
	cpu := threadCPU()
	q.stepTimes = stepTimes{}
	n, lines := q.s.mail.counts.Messages, 0
	for b.Loop() {
		q.now = q.now.Add(time.Millisecond)
		arrive()
		for q.s.mail.counts.Messages > n {
			f := q.feeds[next]
			if next++; next == 1000 {
				q.feeds, next = slices.Delete(q.feeds, 0, next), 0
			}
			id, _ := strconv.ParseUint(f.Job.Path, 10, 64)
			place := (hostNumbers[f.Job.Host] - firstHost(MessageID(id)) + 1000) % 1000 / 50
			q.step(AgentReported{Agent: f.Agent, Report: ta.Report{Message: id, Offset: int64(160 + place), Status: ta.OK3}})
			q.step(AgentSaid{Agent: f.Agent, Word: Hungry})
			for _, op := range q.ops {
				q.step(Done{Op: op})
			}
			q.ops = q.ops[:0]
			lines++
		}
		q.messageEnded()
	}
	b.ReportMetric(float64((threadCPU()-cpu).Nanoseconds())/float64(b.N), "ns-cpu/op")
	q.report(b)
	b.ReportMetric(float64(lines)/float64(b.N), "lines/op")
}

// churnRate is how many messages come and go per second in BenchmarkChurn,
// about as many as the files of a fast disk allow.
const churnRate = 25_000

// BenchmarkChurn lets mail come and go through a queue of a million waiting
// messages, at the pace of a disk and with the GOGC of the program. It measures the resident size meanwhile, not
// after a collection, and the longest Step, which includes the garbage
// collector's share.
func BenchmarkChurn(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(12))
	q := newBenchQueue(20).fill(1_000_000, 10_000)
	q.startAgents()
	q.longest = 0
	begun, n := time.Now(), 0
	for b.Loop() {
		q.arrive(10_000)
		q.serve(ta.Deferred)
		if n++; n%25 == 0 {
			time.Sleep(time.Until(begun.Add(time.Duration(n) * time.Second / churnRate)))
		}
	}
	b.ReportMetric(float64(q.longest.Microseconds())/1000, "ms-longest-step")
	b.ReportMetric(residentMB(b), "MB-resident")
}

// BenchmarkFresh measures the real time from the arrival of a message for a
// free host until it is fed, while a million deferred ones are due and all
// sessions of the ring are busy.
func BenchmarkFresh(b *testing.B) {
	q := newBenchQueue(20).fill(1_000_000, 1000)
	q.startAgents()
	var waits []float64
	for b.Loop() {
		begun := time.Now()
		q.arriveFor(q.hosts[1000+int(q.last)%39_000]) // none of them has mail
		id := strconv.FormatUint(uint64(q.last), 10)
		for !q.isFed(id) {
			q.serve(ta.Deferred)
		}
		waits = append(waits, float64(time.Since(begun).Microseconds())/1000)
	}
	slices.Sort(waits)
	b.ReportMetric(waits[len(waits)/2], "ms-median")
	b.ReportMetric(waits[len(waits)-1], "ms-longest")
}

// startAgents starts the agents of a filled queue.
func (q *benchQueue) startAgents() {
	q.step(Reloaded{q.s.rules.config})
	for i := 0; i < len(q.agents); i++ {
		q.step(AgentSaid{Agent: q.agents[i], Word: Hungry})
	}
}

func (q *benchQueue) isFed(path string) bool {
	return slices.ContainsFunc(q.feeds, func(f Feed) bool { return f.Job.Path == path })
}

// residentMB returns the resident size of this process.
func residentMB(b *testing.B) float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip("no /proc here")
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kb, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		b.Fatal(err)
	}
	return float64(kb) / 1024
}

// BenchmarkWalk measures how long it takes to list all threads, as a query
// does, with a million recipients in ten thousand threads; and the longest
// slice.
func BenchmarkWalk(b *testing.B) {
	q := newBenchQueue(1).fill(1_000_000, 10_000)
	for name, depth := range map[string]Depth{"threads": Threads, "vertices": Vertices} {
		b.Run(name, func(b *testing.B) {
			longest := time.Duration(0)
			for b.Loop() {
				for w, more := q.s.Walk(depth), true; more; {
					begun := time.Now()
					_, more = w.Next(1000)
					longest = max(longest, time.Since(begun))
				}
			}
			b.ReportMetric(float64(longest.Microseconds())/1000, "ms-longest-slice")
		})
	}
}
