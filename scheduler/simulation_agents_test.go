package scheduler

import (
	"fmt"
	"slices"

	"zsched/ctlfile"
	"zsched/ta"
)

// simAgent is an agent process.
type simAgent struct {
	id          AgentID
	hungryOwed  int // #hungry lines it owes
	lines       []simLine
	given       []simLine // all lines that it was given
	leaving     bool
	silent      bool // says nothing more until it is killed
	ignoresTerm bool // only SIGKILL ends it
}

// simLine is a job line as the agent sees it.
type simLine struct {
	id      MessageID
	offsets []int64 // still to be reported
}

// work lets an agent do one thing, right or wrong.
func (h *harness) work(a *simAgent) {
	switch {
	case a.silent && !h.faultless:
	case h.chance(2):
		h.die(a)
	case h.chance(1):
		a.silent, a.ignoresTerm = true, h.rand.IntN(2) == 0
	case h.chance(3):
		h.step(AgentSaid{Agent: a.id, Word: Hungry})
	case h.chance(3):
		h.report(a, MessageID(1+h.rand.IntN(int(h.last)+1)), 100, ta.Status(1+h.rand.IntN(9)))
	case len(a.lines) > 0:
		h.workLine(a)
	case a.leaving:
		h.die(a)
	case a.hungryOwed > 0:
		a.hungryOwed--
		h.step(AgentSaid{Agent: a.id, Word: Hungry})
	}
}

func (h *harness) workLine(a *simAgent) {
	l := &a.lines[0]
	if len(l.offsets) == 0 || h.chance(2) {
		id := l.id
		a.lines = a.lines[1:]
		a.hungryOwed++
		if h.chance(5) {
			h.step(AgentResync{Agent: a.id, Message: id})
		}
		return
	}
	id, offset := l.id, l.offsets[0]
	if h.chance(30) {
		h.report(a, id, offset, ta.Connecting)
	}
	l.offsets = l.offsets[1:]
	status := ta.OK3
	if h.chance(50) {
		status = ta.Status(1 + h.rand.IntN(9))
	}
	if f := h.files[id]; f != nil && !h.chance(5) { // sometimes it forgets to mark
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
	h.report(a, id, offset, status)
}

// report reports on a recipient. It counts as an outcome if the agent was ever
// given that recipient.
func (h *harness) report(a *simAgent, id MessageID, offset int64, status ta.Status) {
	rep := ta.Report{Message: uint64(id), Offset: offset, Status: status, Text: "said"}
	if status == ta.RetryAt {
		rep.Retry = ta.Retry{Given: h.chance(80), Relative: h.chance(50), Seconds: int64(h.rand.IntN(4000))}
	}
	if h.chance(30) {
		rep.Site = []string{"mx1", "mx2"}[h.rand.IntN(2)]
	}
	if status == ta.Deferred && h.chance(30) {
		rep.Notary = "x\x01failed\x014.4.1\x01smtp; 421\x01"
	}
	given := slices.ContainsFunc(a.given, func(l simLine) bool { return l.id == id && slices.Contains(l.offsets, offset) })
	if f := h.files[id]; f != nil && given && status.Final() {
		f.recordOutcome(offset, status <= ta.OK3)
	}
	h.step(AgentReported{Agent: a.id, Report: rep})
}

func (h *harness) die(a *simAgent) {
	for i, other := range h.agents {
		if other == a {
			h.agents = append(h.agents[:i], h.agents[i+1:]...)
			h.step(AgentExited{Agent: a.id, Status: "exit status 1"})
			return
		}
	}
}

func (h *harness) start(a Start) {
	switch {
	case h.chance(5):
		h.step(AgentFailed{Agent: a.Agent, Reason: "no such file"})
		return
	case h.chance(2): // it dies before AgentStarted is told
		h.step(AgentExited{Agent: a.Agent, Status: "exit status 1"})
		h.step(AgentStarted{Agent: a.Agent, PID: int(a.Agent)})
		return
	}
	hungers := 1
	if a.Command[0] == "smtp" && len(a.Command) == 2 {
		fmt.Sscan(a.Command[1], &hungers)
	}
	if h.chance(10) {
		hungers = 1
	}
	h.agents = append(h.agents, &simAgent{id: a.Agent, hungryOwed: hungers})
	h.step(AgentStarted{Agent: a.Agent, PID: int(a.Agent)})
	if h.chance(30) {
		h.step(AgentSaid{Agent: a.Agent, Word: Reports})
	}
}

func (h *harness) agent(id AgentID) *simAgent {
	for _, a := range h.agents {
		if a.id == id {
			return a
		}
	}
	return nil
}

// feed gives an agent what it finds open in the file.
func (h *harness) feed(a Feed) {
	agent := h.agent(a.Agent)
	if agent == nil {
		panic("fed an agent that is gone")
	}
	var id MessageID
	fmt.Sscan(a.Job.Path, &id)
	l := simLine{id: id}
	for _, line := range h.s.agents.byID[a.Agent].lines {
		if line.id != id || line.ended() || line.thread.key.host != a.Job.Host {
			continue
		}
		for i := range h.s.mail.lenOf(line.vertex) {
			r := h.s.mail.recipient(line.vertex, i)
			if r.state == open && (!h.faultless || h.files[id].tags[int64(r.offset)] == ctlfile.Open) {
				l.offsets = append(l.offsets, int64(r.offset))
			}
		}
	}
	agent.lines = append(agent.lines, l)
	agent.given = append(agent.given, simLine{id: id, offsets: slices.Clone(l.offsets)})
}
