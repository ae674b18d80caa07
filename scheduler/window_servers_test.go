package scheduler

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"zsched/ctlfile"
	"zsched/ta"
)

// serverModel runs one thread of the core against a model of a server, in
// virtual time. Each job line is a connection.
type serverModel struct {
	s      *Scheduler
	rand   *rand.Rand
	now    time.Time
	events heap[*modelEvent]
	// connect is told that a client has connected, and must call end later.
	connect func(end func(ok bool))
	starts  int
	results []result
	fedAt   map[string]time.Time // by path
}

type result struct {
	ok     bool
	window int // after the feedback
	at     time.Time
}

// modelEvent is something that happens at a time.
type modelEvent struct {
	index int32
	run   func()
}

func (m *serverModel) after(d time.Duration, run func()) {
	m.events.put(at(m.now.Add(d)), &modelEvent{run: run})
}

// next lets the next event happen.
func (m *serverModel) next() {
	m.now = m.events.next().time()
	m.events.pop().run()
}

func newServerModel(p Params) *serverModel {
	p.Interval, p.Retries, p.Quantum, p.UID, p.GID, p.Sessions = longestRetry, []int{1}, 50, -1, -1, 1
	p.CohortLimit, p.Marking = 1, ctlfile.AgentMarks
	m := &serverModel{rand: rand.New(rand.NewPCG(1, 2)), now: time.Unix(1_800_000_000, 0)}
	m.events.index = func(e *modelEvent) *int32 { return &e.index }
	m.s = New(&Config{Defaults: p, Clauses: []Clause{{Channel: "smtp", Host: "*", Settings: []Setting{
		{Name: "command", Value: "smtp", Apply: func(p *Params) { p.Command = []string{"smtp"} }},
	}}}}, rand.New(rand.NewPCG(3, 4)))
	return m
}

// deliver runs so many messages of two recipients each.
func (m *serverModel) deliver(n int) {
	for id := range MessageID(n) {
		m.step(Arrived{Message{
			ID: id + 1, Path: strconv.Itoa(int(id + 1)), Sender: "a@b", ErrorTo: "a@b", ModifiedAt: m.now, ChangedAt: m.now,
			Recipients: []ctlfile.OpenRecipient{{Offset: 100, Channel: "smtp", Host: "h"}, {Offset: 200, Channel: "smtp", Host: "h"}},
		}})
	}
	for len(m.results) < n {
		m.next()
	}
}

func (m *serverModel) step(e Event) {
	for _, a := range append([]Action(nil), m.s.Step(m.now, e)...) {
		switch a := a.(type) {
		case Start:
			m.starts++
			m.after(time.Duration(m.starts)*10*time.Millisecond, func() { m.step(AgentHungry{a.Agent}) })
		case Idle:
			m.after(0, func() { m.step(AgentHungry(a)) })
		case Feed:
			if m.fedAt != nil {
				m.fedAt[a.Job.Path] = m.now
			}
			// It connects 10 ms after the line before.
			m.after(10*time.Millisecond, func() { m.connect(func(ok bool) { m.end(a, ok) }) })
		case Finish:
			m.after(0, func() { m.step(Done{a.Op}) })
		}
	}
}

// end ends a connection: its message is delivered, or the destination failed.
func (m *serverModel) end(f Feed, ok bool) {
	id, _ := strconv.ParseUint(f.Job.Path, 10, 64)
	if ok {
		m.step(AgentReported{f.Agent, ta.Report{Message: id, Offset: 100, Status: ta.OK3}})
		m.step(AgentReported{f.Agent, ta.Report{Message: id, Offset: 200, Status: ta.OK3}})
	} else {
		m.step(AgentReported{f.Agent, ta.Report{Message: id, Offset: 100, Status: ta.DeferAll, Text: "421"}})
	}
	size := 0
	if t := m.s.threads[threadKey{"smtp", "h"}]; t != nil {
		size = t.windowSize()
	}
	m.results = append(m.results, result{ok, size, m.now})
	m.step(AgentHungry{f.Agent})
}

// figures returns the percentage of deferred messages, and the mean and the
// deviation of the window after each result.
func (m *serverModel) figures() (deferred, mean, deviation float64) {
	failed, sum, squares := 0, 0.0, 0.0
	for _, r := range m.results {
		if !r.ok {
			failed++
		}
		sum += float64(r.window)
		squares += float64(r.window) * float64(r.window)
	}
	n := float64(len(m.results))
	mean = sum / n
	return 100 * float64(failed) / n, mean, math.Sqrt(squares/n - mean*mean)
}

var styles = []struct {
	name string
	Feedback
}{{"1/N", Feedback{1, PerN}}, {"1/sqrt(N)", Feedback{1, PerSqrt}}, {"1", Feedback{1, PerOne}}}

// TestActiveLimiter: a server that answers 421 to more than five connections
// defers as much, and keeps the window as wide, as in the published
// measurements.
func TestActiveLimiter(t *testing.T) {
	for i, want := range [][2]float64{{16.5, 5.17}, {24.5, 5.28}, {49.7, 5.63}} {
		style := styles[i]
		m := newServerModel(Params{
			InitialConcurrency: 5, MaxThr: 20,
			PositiveFeedback: style.Feedback, NegativeFeedback: style.Feedback,
		})
		open := 0
		m.connect = func(end func(bool)) {
			if open == 5 {
				m.after(20*time.Millisecond+time.Duration(m.rand.IntN(10))*time.Millisecond, func() { end(false) })
				return
			}
			open++
			m.after(2*time.Second+time.Duration(m.rand.IntN(200))*time.Millisecond, func() { open--; end(true) })
		}
		m.deliver(1000)
		deferred, mean, deviation := m.figures()
		t.Logf("%s: %.1f %% deferred, window %.2f ± %.2f", style.name, deferred, mean, deviation)
		if math.Abs(deferred-want[0]) > 1 || math.Abs(mean-want[1]) > 0.2 {
			t.Errorf("%s: %.1f %% deferred, window %.2f; want %v", style.name, deferred, mean, want)
		}
	}
}

// TestCongestedServer: where a server is slow to accept connections, the styles
// of feedback hardly differ, and the window stays wide open.
func TestCongestedServer(t *testing.T) {
	repeats := []time.Duration{0, 3, 9, 21, 45, 93}
	for _, c := range []struct {
		name       string
		deliveries int
		repeats    []time.Duration // seconds at which a client tries to get in
		timeout    time.Duration
		want       [3]float64
	}{
		{"connect", 1000, repeats[:4], 30 * time.Second, [3]float64{9.9, 10.3, 10.8}},
		{"greeting", 10_000, repeats, 300 * time.Second, [3]float64{1.17, 1.17, 1.17}},
	} {
		for i, style := range styles {
			t.Run(fmt.Sprint(c.name, " ", style.name), func(t *testing.T) {
				m := newServerModel(Params{
					InitialConcurrency: 20, MaxThr: 20,
					PositiveFeedback: style.Feedback, NegativeFeedback: style.Feedback,
				})
				servers := acceptQueue{model: m, servers: 5, room: 6}
				m.connect = func(end func(bool)) { servers.connect(end, c.repeats, c.timeout) }
				m.deliver(c.deliveries)
				deferred, mean, deviation := m.figures()
				t.Logf("%.2f %% deferred, window %.2f ± %.2f", deferred, mean, deviation)
				if math.Abs(deferred-c.want[i]) > 2 || mean < 19 {
					t.Errorf("%.1f %% deferred, window %.2f; want %.1f and more than 19", deferred, mean, c.want[i])
				}
			})
		}
	}
}

// acceptQueue is a number of servers of two seconds behind a short queue of
// accepted connections.
type acceptQueue struct {
	model         *serverModel
	servers, room int
	waiting       []func(bool)
}

func (q *acceptQueue) connect(end func(bool), repeats []time.Duration, timeout time.Duration) {
	if q.servers > 0 {
		q.serve(end)
		return
	}
	if len(q.waiting) < q.room {
		q.waiting = append(q.waiting, end)
		return
	}
	if len(repeats) == 1 {
		q.model.after(timeout-repeats[0]*time.Second, func() { end(false) })
		return
	}
	q.model.after((repeats[1]-repeats[0])*time.Second, func() { q.connect(end, repeats[1:], timeout) })
}

func (q *acceptQueue) serve(end func(bool)) {
	q.servers--
	q.model.after(2*time.Second, func() {
		q.servers++
		if len(q.waiting) > 0 {
			next := q.waiting[0]
			q.waiting = q.waiting[1:]
			q.serve(next)
		}
		end(true)
	})
}

// TestHerdIsSpreadByTheWindow: the mail that waited for a host that was away
// for an hour is drained evenly when the host is back.
func TestHerdIsSpreadByTheWindow(t *testing.T) {
	const messages = 50_000
	m := newServerModel(Params{
		InitialConcurrency: 5, MaxThr: 20, PositiveFeedback: Feedback{1, PerN}, NegativeFeedback: Feedback{1, PerN},
	})
	m.s.config.Defaults.Interval, m.s.config.Defaults.Jitter = time.Minute, 10
	up := m.now.Add(time.Hour)
	m.connect = func(end func(bool)) {
		if m.now.Before(up) {
			m.after(time.Second, func() { end(false) })
			return
		}
		m.after(time.Second+time.Duration(m.rand.IntN(200))*time.Millisecond, func() { end(true) })
	}
	var tick func()
	tick = func() { m.step(Tick{}); m.after(time.Second, tick) }
	m.after(time.Second, tick)
	m.deliver(messages) // some of them fail first, the rest follows
	periods := make(map[int64]int)
	done := 0
	for ; done < messages; done = delivered(m.results) {
		m.next()
	}
	first := int64(math.MaxInt64)
	last := int64(0)
	for _, r := range m.results {
		if r.ok {
			period := r.at.Unix() / 10
			periods[period]++
			first, last = min(first, period), max(last, period)
		}
	}
	if failed := len(m.results) - messages; failed > 100 {
		t.Errorf("%d attempts at a dead host", failed)
	}
	mean := float64(messages) / float64(last-first+1)
	for period, n := range periods {
		if float64(n) > 2*mean {
			t.Errorf("%d in period %d, the mean is %.0f", n, period-first, mean)
		}
	}
}

func delivered(results []result) int {
	n := 0
	for _, r := range results {
		if r.ok {
			n++
		}
	}
	return n
}
