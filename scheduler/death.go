package scheduler

import "time"

// Deaths: what happens when an agent dies, and to the vertices that agents die on.

// When maxCrashes agents in a row have died on a vertex, it waits for crashWait at least.
const (
	maxCrashes = 3
	crashWait  = time.Hour
)

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
	for i := range a.lines {
		l := &a.lines[i]
		if l.ended() {
			continue
		}
		why := untouched
		if blamed && !li.s.agents.stop.begun {
			why = agentCrashed
		}
		blamed = false
		li.revokeLine(l, why, a.pid)
	}
	li.s.agents.dropAgent(a)
}

// revokeLine ends a line that its agent has not ended, and starts reading the
// file again. What the agent said about the destination counts. If it died and
// said nothing, there is no feedback.
func (li *lines) revokeLine(l *line, why readReason, pid int) {
	v := l.vertex
	l.vertex = nil
	if l.destinationFailed || l.retryAt != 0 || why == foundNothing {
		li.applyOutcome(l, l.thread)
	}
	v.destinationFailed = l.destinationFailed && l.retryAt == 0
	li.readAgain(v, why, pid)
}

// waitAfterCrash returns how long a vertex waits after an attempt that calls for a wait.
func (li *lines) waitAfterCrash(v *vertex, wait time.Duration) time.Duration {
	if v.crashes == 0 || v.crashes%maxCrashes != 0 {
		return wait
	}
	wait = max(wait, crashWait)
	key := li.s.mail.threadOf(v).key
	li.s.agenda.do(Note{Severity: Error, Message: li.s.mail.messageOf(v).id, Text: "an agent for " + key.channel + "/" +
		key.host + " died on it three times running: it waits for " + inWords(wait)})
	return wait
}
