package scheduler

// Deaths: what happens when an agent dies.

// agentExited takes back the job lines of an agent that is gone. If the line
// that it was working on is still open, that line counts as one attempt. Before
// any recipient of its lines is fed again, the files are read: the agent may
// have tagged recipients that it did not report.
func (li *lines) agentExited(e AgentExited) {
	a := li.s.agents.byID[e.Agent]
	if a == nil {
		return
	}
	expected := a.state == closing && (len(a.lines) == 0 || a.reports && a.ended)
	if !expected {
		li.s.agenda.logAgent(Warning, a, "is gone: "+e.Status)
	}
	if a.state == starting {
		why := "the agent ended before its first #hungry: " + e.Status
		if e.LastLine != "" {
			why += ": " + e.LastLine
		}
		li.s.agents.countStartFailure(a.ring, why)
	}
	// An agent with one session works on the first line in its pipe. It has not
	// begun the next one, even if all of the first has been reported.
	blamed := a.sessions > 1 || len(a.lines) > 0 && !a.lines[0].ended()
	for _, l := range a.lines {
		if l.ended() {
			continue
		}
		attempt := ""
		if blamed && !expected && !li.s.agents.stop.begun {
			attempt = agentEnded + ": " + e.Status
		}
		blamed = false
		li.revokeLine(l, attempt, a.pid)
	}
	li.s.agents.dropAgent(a)
}

// revokeLine ends a line that its agent has not ended, and starts reading the
// file again. What the agent said about the destination counts. If it died and
// said nothing, there is no feedback. Attempt is as in readAgain.
func (li *lines) revokeLine(l *line, attempt string, pid int) {
	v := l.vertex
	l.vertex = nil
	if l.destinationFailed || l.retryAt != 0 || attempt == nothingFound {
		li.applyOutcome(l, l.thread)
	}
	li.readAgain(v, attempt, pid)
}
