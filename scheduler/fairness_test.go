package scheduler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"zsched/ctlfile"
	"zsched/scheduler/rule"
	"zsched/ta"
)

// TestNobodyStarves keeps each thread of some rings supplied with mail, lets
// agents work at random speed, and counts how many job lines end between two
// that one thread is given. In one round each thread gets its quantum, after
// the lines already given. A thread that is the first of one round may be the
// last of the next. Rings that have to exchange processes at a limit take some
// more rounds.
func TestNobodyStarves(t *testing.T) {
	const quantum = 4
	tests := []struct {
		name            string
		rings, threads  int
		set             func(*rule.Params)
		agents, perRing int // limits
		rounds          int // a thread waits at most so many
	}{
		{"threads of a ring", 1, 5, func(p *rule.Params) {}, 0, 2, 2},
		{"one agent", 1, 7, func(p *rule.Params) {}, 1, 1, 2},
		{"overfeed", 1, 5, func(p *rule.Params) { p.Overfeed = 100 }, 0, 2, 2},
		{"several sessions a thread", 1, 5, func(p *rule.Params) { p.Overfeed, p.MaxThr = 10, 3 }, 0, 4, 2},
		{"several sessions an agent", 1, 5, func(p *rule.Params) { p.Sessions, p.MaxThr = 3, 2 }, 0, 4, 2},
		{"rings, one process", 4, 1, func(p *rule.Params) {}, 1, 0, 2},
		{"rings, two processes", 4, 3, func(p *rule.Params) {}, 2, 0, 2},
		{"rings with overfeed", 4, 3, func(p *rule.Params) { p.Overfeed = 100 }, 2, 0, 2},
		{"rings, several sessions an agent", 4, 3, func(p *rule.Params) { p.Sessions, p.MaxThr = 5, 2 }, 2, 0, 3},
		{"rings of a channel", 3, 2, func(p *rule.Params) { p.MaxChannel = 2 }, 0, 0, 2},
		{"rings of a channel, several sessions an agent", 3, 2, func(p *rule.Params) { p.MaxChannel, p.Sessions, p.MaxThr = 3, 2, 2 }, 0, 0, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFairnessTest(tt.rings, func(p *rule.Params) {
				p.Quantum, p.MaxRing = quantum, tt.perRing
				tt.set(p)
			}, tt.agents)
			f.run(tt.rings, tt.threads, 10_000)
			bound := tt.rounds*tt.rings*tt.threads*quantum + quantum + 2*f.maxOpen
			for _, host := range f.hosts {
				if gap := f.gaps[host]; gap > bound {
					t.Errorf("%s waited for %d lines to end, more than %d", host, gap, bound)
				}
			}
		})
	}
}

// fairnessTest supplies more mail for each host than is delivered.
type fairnessTest struct {
	s       *Scheduler
	rand    *rand.Rand
	now     time.Time
	last    MessageID
	hosts   []string
	agents  []*fairAgent
	ended   int // job lines so far
	maxOpen int // most lines open at a time
	fedAt   map[string]int
	gaps    map[string]int
}

type fairAgent struct {
	id      AgentID
	lines   []ta.JobLine
	leaving bool
}

func newFairnessTest(rings int, set func(*rule.Params), agents int) *fairnessTest {
	config := &rule.Config{
		MaxAgents: agents,
		Defaults:  rule.Params{Interval: time.Minute, Retries: []int{1}, MaxThr: 1, Sessions: 1, UID: -1, GID: -1},
	}
	for i := range rings {
		config.Clauses = append(config.Clauses, rule.Clause{
			Channel: "smtp", Host: fmt.Sprintf("ring%d-*", i),
			Settings: []rule.Setting{{Name: "command", Apply: func(p *rule.Params) {
				p.Command = []string{"smtp"}
				set(p)
			}}},
		})
	}
	r := rand.New(rand.NewPCG(1, 2))
	return &fairnessTest{
		s: New(config, r), rand: r, now: time.Unix(1_800_000_000, 0),
		fedAt: make(map[string]int), gaps: make(map[string]int),
	}
}

// run supplies each thread and lets so many job lines end.
func (f *fairnessTest) run(rings, threads, lines int) {
	for i := range rings {
		for j := range threads {
			f.hosts = append(f.hosts, fmt.Sprintf("ring%d-%d", i, j))
		}
	}
	for _, host := range f.hosts {
		for range 200 {
			f.arrive(host)
		}
	}
	for f.ended < lines {
		f.work(f.agents[f.rand.IntN(len(f.agents))])
	}
	for _, host := range f.hosts {
		f.gaps[host] = max(f.gaps[host], f.ended-f.fedAt[host])
	}
}

func (f *fairnessTest) arrive(host string) {
	f.last++
	f.step(Arrived{Message{
		ID: f.last, Path: fmt.Sprint(f.last), ModifiedAt: f.now,
		Recipients: []ctlfile.OpenRecipient{{Offset: 1, Channel: "smtp", Host: host}},
	}})
}

// work ends one of the agent's job lines and adds a new message for its host.
func (f *fairnessTest) work(a *fairAgent) {
	if len(a.lines) == 0 {
		if a.leaving {
			f.agents = slices.DeleteFunc(f.agents, func(other *fairAgent) bool { return other == a })
			f.step(AgentExited{Agent: a.id})
		}
		return
	}
	job := a.lines[0]
	a.lines = a.lines[1:]
	f.ended++
	var id uint64
	fmt.Sscan(job.Path, &id)
	f.step(AgentReported{Agent: a.id, Report: ta.Report{Message: id, Offset: 1, Status: ta.OK3}})
	f.step(AgentSaid{Agent: a.id, Word: Hungry})
	f.arrive(job.Host)
}

func (f *fairnessTest) step(e Event) {
	actions := Keep(f.s.Step(At(f.now), e))
	for _, action := range actions {
		switch action := action.(type) {
		case Start:
			f.agents = append(f.agents, &fairAgent{id: action.Agent})
			for range max(1, f.s.agents.byID[action.Agent].sessions) {
				f.step(AgentSaid{Agent: action.Agent, Word: Hungry})
			}
		case *Feed:
			f.feed(*action)
		case Idle:
			f.step(AgentSaid{action.Agent, Hungry})
		case Close:
			f.agent(action.Agent).leaving = true
		case *Finish:
			f.step(Done{Op: action.Op})
		}
	}
}

func (f *fairnessTest) feed(action Feed) {
	a := f.agent(action.Agent)
	a.lines = append(a.lines, action.Job)
	host := action.Job.Host
	f.gaps[host] = max(f.gaps[host], f.ended-f.fedAt[host])
	f.fedAt[host] = f.ended
	open := 0
	for _, a := range f.agents {
		open += len(a.lines)
	}
	f.maxOpen = max(f.maxOpen, open)
}

func (f *fairnessTest) agent(id AgentID) *fairAgent {
	return f.agents[slices.IndexFunc(f.agents, func(a *fairAgent) bool { return a.id == id })]
}
