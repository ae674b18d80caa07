package scheduler

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"zsched/ctlfile"
	"zsched/scheduler/rule"
	"zsched/ta"
)

// jobModel delivers jobs over one session, one entry after another, to hosts
// that are all different. Nothing is blocked and nothing comes late.
type jobModel struct {
	s       *Scheduler
	now     time.Time
	hosts   int
	last    MessageID
	entries map[MessageID]int
	picks   []MessageID
	agent   AgentID
	offsets map[string]int64 // by host
	pending []Feed
}

func newJobModel(p rule.Params) *jobModel {
	p.Interval, p.Retries, p.Quantum, p.UID, p.GID = time.Hour, []int{1}, 50, -1, -1
	p.MaxThr, p.MaxRing, p.Sessions, p.Marking = 1, 1, 1, ta.AgentMarks
	m := &jobModel{now: time.Unix(1_800_000_000, 0), entries: make(map[MessageID]int), offsets: make(map[string]int64)}
	m.s = New(&rule.Config{Defaults: p, Clauses: []rule.Clause{{Channel: "smtp", Host: "*", Settings: []rule.Setting{
		{Name: "command", Value: "smtp", Apply: func(p *rule.Params) { p.Command = []string{"smtp"} }},
	}}}}, rand.New(rand.NewPCG(3, 4)))
	return m
}

func (m *jobModel) arrive(entries int) {
	m.last++
	in := Message{ID: m.last, Path: strconv.Itoa(int(m.last)), ModifiedAt: m.now}
	for i := range entries {
		m.hosts++
		host := "h" + strconv.Itoa(m.hosts)
		m.offsets[host] = int64(100 * (i + 1))
		in.Recipients = append(in.Recipients, ctlfile.OpenRecipient{Offset: m.offsets[host], Channel: "smtp", Host: host})
	}
	m.entries[m.last] = entries
	m.step(Arrived{in})
}

func (m *jobModel) step(e Event) {
	for _, a := range Keep(m.s.Step(At(m.now), e)) {
		switch a := a.(type) {
		case Start:
			m.agent = a.Agent
		case *Feed:
			id, _ := strconv.Atoi(a.Job.Path)
			m.picks = append(m.picks, MessageID(id))
			m.pending = append(m.pending, *a)
		case *Finish:
			m.step(Done{Op: a.Op})
		}
	}
	if len(m.picks)%128 == 0 {
		m.s.check()
	}
}

// deliver ends the job line that the agent has.
func (m *jobModel) deliver() {
	if len(m.pending) == 0 {
		m.step(AgentSaid{m.agent, Hungry})
		return
	}
	f := m.pending[0]
	m.pending = m.pending[1:]
	id, _ := strconv.ParseUint(f.Job.Path, 10, 64)
	m.step(AgentReported{f.Agent, ta.Report{Message: id, Offset: m.offsets[f.Job.Host], Status: ta.OK3}})
	m.step(AgentSaid{f.Agent, Hungry})
}

// TestPreemptionSequences prints the published sequences, and those of the
// parameters by default.
func TestPreemptionSequences(t *testing.T) {
	for _, tt := range []struct {
		jobs                       []int
		cost, discount, loan, slot int
		want                       string
	}{
		{[]int{4, 1, 1, 1, 1}, 1, 0, 0, 3, "12131415"},
		{[]int{10, 2, 2}, 2, 0, 0, 3, "11112211113311"},
		{[]int{10, 2, 2}, 2, 50, 0, 3, "11221111331111"},
		{[]int{10, 2, 2}, 2, 50, 3, 3, "12211113311111"},
		{[]int{10, 2, 2}, 5, 50, 3, 3, "11111111112233"},
		{[]int{10, 2, 2}, 0, 50, 3, 3, "11111111112233"},
		// Too many entries for what the first can earn.
		{[]int{10, 6}, 2, 0, 0, 3, "1111111111222222"},
		// Of two new jobs the smaller one is first.
		{[]int{10, 2, 1}, 2, 0, 0, 3, "1131111221111"},
	} {
		m := newJobModel(rule.Params{Preemption: rule.Preemption{SlotCost: tt.cost, SlotDiscount: tt.discount, SlotLoan: tt.loan, MinSlots: tt.slot}})
		for _, n := range tt.jobs {
			m.arrive(n)
		}
		for m.s.mail.byID.Len() > 0 {
			m.deliver()
		}
		var got strings.Builder
		for _, id := range m.picks {
			fmt.Fprint(&got, id)
		}
		if got.String() != tt.want {
			t.Errorf("jobs %v with %d, %d, %d, %d: %s, want %s", tt.jobs, tt.cost, tt.discount, tt.loan, tt.slot, got.String(), tt.want)
		}
	}
}

// TestPreemptionInflatesWithinBounds: from its first to its last pick, a job
// takes at most k/(k-1) times as long as without preemption, at any depth; and
// at most (k+1)/k times where those that overtake are not overtaken.
func TestPreemptionInflatesWithinBounds(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	deepest := 0
	for load := range 40 {
		k := 1 + r.IntN(5)
		p := rule.Params{Preemption: rule.Preemption{SlotCost: k, SlotDiscount: r.IntN(101), SlotLoan: r.IntN(6), MinSlots: 1 + r.IntN(3)}}
		flat := k == 1 || r.IntN(2) == 0
		m := newJobModel(p)
		for range 200 {
			switch {
			case r.IntN(100) >= 15:
			case flat:
				m.arrive([]int{1 + r.IntN(max(1, p.Preemption.MinSlots*k-1)), 60 + r.IntN(20)}[r.IntN(2)])
			default:
				m.arrive([]int{1, 1 + r.IntN(5), 1 + r.IntN(100)}[r.IntN(3)])
			}
			m.now = m.now.Add(time.Duration(r.IntN(3)) * time.Second)
			m.deliver()
		}
		for m.s.mail.byID.Len() > 0 {
			m.deliver()
		}
		first, last := make(map[MessageID]int), make(map[MessageID]int)
		for i, id := range m.picks {
			if _, seen := first[id]; !seen {
				first[id] = i
			}
			last[id] = i
		}
		deepest = max(deepest, depth(m.picks, last))
		for id, entries := range m.entries {
			span := last[id] - first[id] + 1
			over := span*(k-1) > entries*k // k/(k-1)
			if flat {
				over = span*k > entries*(k+1)
			}
			if over {
				t.Fatalf("load %d, %d+%d: job %d of %d entries took %d picks", load, k, p.Preemption.MinSlots, id, entries, span)
			}
		}
	}
	if deepest < 3 {
		t.Errorf("no job that had overtaken was overtaken")
	}
}

// depth returns how many jobs, at most, were begun and not ended at a time: one more than the
// times that a job was overtaken.
func depth(picks []MessageID, last map[MessageID]int) int {
	open, deepest := make(map[MessageID]bool), 0
	for i, id := range picks {
		open[id] = true
		deepest = max(deepest, len(open))
		if last[id] == i {
			delete(open, id)
		}
	}
	return deepest
}
