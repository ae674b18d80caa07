package scheduler

import "zsched/scheduler/rule"

// The event log (scheduler-events(5)): the part of it that only the core knows.
// These actions change nothing, and there are none unless Config.Events is set.

// log issues the actions for the event log.
type log struct {
	s *Scheduler
}

// reply is what is known about how an attempt ended.
type reply struct {
	agent        AgentID // 0: no agent said it
	notary, text string
}

// recordOutcome records the outcome of a recipient, in the words of Attempt.State.
func (lg *log) recordOutcome(v *vertex, i int, state string, said reply) {
	if !lg.s.rules.config.Events {
		return
	}
	m, r, t := lg.s.mail.messageOf(v), lg.s.mail.recipient(v, i), lg.s.mail.threadOf(v)
	attempts := int(r.attempts)
	if said.agent != 0 {
		attempts++
	}
	lg.s.agenda.do(Attempt{
		Message: m.id, Offset: int64(r.offset), Channel: t.key.channel, Host: t.key.host,
		Agent: said.agent, State: state, Notary: said.notary, Text: said.text, Attempts: attempts,
		Owes: m.flags&owesNotice != 0,
	})
}

// recordDeferrals records the recipients of an ended line that will be tried
// again. A nextAt of 0 means that no time is planned. The recipients must still
// have the states that they had in the line.
func (lg *log) recordDeferrals(v *vertex, nextAt instant) {
	if !lg.s.rules.config.Events {
		return
	}
	m, t := lg.s.mail.messageOf(v), lg.s.mail.threadOf(v)
	for i := range lg.s.mail.lenOf(v) {
		r := lg.s.mail.recipient(v, i)
		if r.state != reported {
			continue
		}
		a := Attempt{
			Message: m.id, Offset: int64(r.offset), Channel: t.key.channel, Host: t.key.host,
			Agent: v.agent, State: "deferred", Attempts: int(r.attempts), Owes: m.flags&owesNotice != 0,
		}
		if nextAt != 0 && !t.params.QueueOnly {
			a.NextAt = lg.s.agenda.timeAt(max(nextAt, t.suspendedUntil))
		}
		switch last := lg.s.mail.diagnostics.Get(r.diagnostic); {
		case r.flags&unreported != 0:
			a.Text = "the agent gave no report"
			if v.crashes > 0 {
				a.Text = agentEnded
			}
		case last != nil:
			a.Notary, a.Text = last.notary, last.text
		}
		lg.s.agenda.do(a)
	}
}

// record records a condition, if there is an event log.
func (lg *log) record(c Condition) {
	if lg.s.rules.config.Events {
		lg.s.agenda.do(c)
	}
}

// recordThread records that a thread is not fed from now on. A nextAt of 0 means
// that no end is planned.
func (lg *log) recordThread(t *thread, state string, nextAt instant) {
	c := Condition{State: state, Channel: t.key.channel, Host: t.key.host}
	if nextAt != 0 && nextAt != never {
		c.NextAt = lg.s.agenda.timeAt(nextAt)
	}
	lg.record(c)
}

// recordVertex records that a vertex is in an unusual state from now on.
func (lg *log) recordVertex(v *vertex, state string) {
	key := lg.s.mail.threadOf(v).key
	lg.record(Condition{State: state, Message: lg.s.mail.messageOf(v).id, Channel: key.channel, Host: key.host})
}

// recordReplyRule records that a reply rule makes a message wait, or recipients of it fail.
func (lg *log) recordReplyRule(v *vertex, rule *rule.ReplyRule) {
	if lg.s.rules.config.Events {
		key := lg.s.mail.threadOf(v).key
		lg.s.agenda.do(Condition{
			State: "rule", Message: lg.s.mail.messageOf(v).id, Channel: key.channel, Host: key.host,
			Because: rule.Place() + " (" + rule.Action + ")",
		})
	}
}

// recordTouched records that an order affects a message, if it is not in the log already.
func (lg *log) recordTouched(e *Ordered, id MessageID, modifiedAt date, recipients int) {
	if lg.s.rules.config.Events && !e.recorded {
		lg.s.agenda.do(Touched{
			Message: id, ModifiedAt: modifiedAt.time(), Recipients: recipients, To: e.To,
			Name: e.Verb.Name(), By: e.By, Because: e.Because,
		})
	}
}
