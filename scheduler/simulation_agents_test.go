package scheduler

import (
	"fmt"
	"slices"

	"zsched/ctlfile"
	"zsched/ta"
)

type simAgent struct {
	id          AgentID
	hungryOwed  int // #hungry lines it owes
	lines       []simLine
	given       []simLine // all it ever was given
	leaving     bool
	silent      bool // says nothing more until it is killed
	ignoresTerm bool // does not leave before SIGKILL
}

type simLine struct {
	id      MessageID
	offsets []int64 // still to be reported
}

// work lets an agent do one thing, right or wrong.
func (w *harness) work(a *simAgent) {
	switch {
	case a.silent && !w.faultless:
	case w.chance(2):
		w.die(a)
	case w.chance(1):
		a.silent, a.ignoresTerm = true, w.rand.IntN(2) == 0
	case w.chance(3):
		w.step(AgentHungry{Agent: a.id})
	case w.chance(3):
		w.report(a, MessageID(1+w.rand.IntN(int(w.last)+1)), 100, ta.Status(1+w.rand.IntN(9)))
	case len(a.lines) > 0:
		w.workLine(a)
	case a.leaving:
		w.die(a)
	case a.hungryOwed > 0:
		a.hungryOwed--
		w.step(AgentHungry{Agent: a.id})
	}
}

func (w *harness) workLine(a *simAgent) {
	l := &a.lines[0]
	if len(l.offsets) == 0 || w.chance(2) {
		id := l.id
		a.lines = a.lines[1:]
		a.hungryOwed++
		if w.chance(5) {
			w.step(AgentResync{Agent: a.id, Message: id})
		}
		return
	}
	id, offset := l.id, l.offsets[0]
	l.offsets = l.offsets[1:]
	status := ta.OK3
	if w.chance(50) {
		status = ta.Status(1 + w.rand.IntN(9))
	}
	if f := w.files[id]; f != nil && !w.chance(5) { // sometimes it forgets to mark
		switch {
		case status <= ta.OK3:
			f.tags[offset] = ctlfile.Delivered
		case status <= ta.Error2:
			f.tags[offset] = ctlfile.Failed
		}
	}
	if status == ta.DeferAll {
		l.offsets = nil
	}
	w.report(a, id, offset, status)
}

// report tells the core what an agent says of a recipient. It is an outcome
// if the agent was ever given that recipient.
func (w *harness) report(a *simAgent, id MessageID, offset int64, status ta.Status) {
	rep := ta.Report{Message: uint64(id), Offset: offset, Status: status, Text: "said"}
	if status == ta.RetryAt {
		rep.Retry = ta.Retry{Given: w.chance(80), Relative: w.chance(50), Seconds: int64(w.rand.IntN(4000))}
	}
	if status == ta.Deferred && w.chance(30) {
		rep.Notary = "x\x01failed\x014.4.1\x01smtp; 421\x01"
	}
	given := slices.ContainsFunc(a.given, func(l simLine) bool { return l.id == id && slices.Contains(l.offsets, offset) })
	if f := w.files[id]; f != nil && given && status.Final() {
		f.noteOutcome(offset, status <= ta.OK3)
	}
	w.step(AgentReported{Agent: a.id, Report: rep})
}

func (w *harness) die(a *simAgent) {
	for i, other := range w.agents {
		if other == a {
			w.agents = append(w.agents[:i], w.agents[i+1:]...)
			w.step(AgentExited{Agent: a.id, Status: "exit status 1"})
			return
		}
	}
}

func (w *harness) start(a Start) {
	switch {
	case w.chance(5):
		w.step(AgentFailed{Agent: a.Agent, Reason: "no such file"})
		return
	case w.chance(2): // it is gone before anybody has heard that it exists
		w.step(AgentExited{Agent: a.Agent, Status: "exit status 1"})
		w.step(AgentStarted{Agent: a.Agent, PID: int(a.Agent)})
		return
	}
	hungers := 1
	if a.Command[0] == "smtp" && len(a.Command) == 2 {
		fmt.Sscan(a.Command[1], &hungers)
	}
	if w.chance(10) {
		hungers = 1
	}
	w.agents = append(w.agents, &simAgent{id: a.Agent, hungryOwed: hungers})
	w.step(AgentStarted{Agent: a.Agent, PID: int(a.Agent)})
}

func (w *harness) agent(id AgentID) *simAgent {
	for _, a := range w.agents {
		if a.id == id {
			return a
		}
	}
	return nil
}

// feed gives an agent what it finds open in the file.
func (w *harness) feed(a Feed) {
	agent := w.agent(a.Agent)
	if agent == nil {
		panic("fed an agent that is gone")
	}
	var id MessageID
	fmt.Sscan(a.Job.Path, &id)
	l := simLine{id: id}
	for _, line := range w.s.agents[a.Agent].lines {
		if line.id != id || line.ended() || line.thread.key.host != a.Job.Host {
			continue
		}
		for i := range line.vertex.len() {
			r := w.s.recipient(line.vertex, i)
			if r.state == open && (!w.faultless || w.files[id].tags[int64(r.offset)] == ctlfile.Open) {
				l.offsets = append(l.offsets, int64(r.offset))
			}
		}
	}
	agent.lines = append(agent.lines, l)
	agent.given = append(agent.given, simLine{id: id, offsets: slices.Clone(l.offsets)})
}
