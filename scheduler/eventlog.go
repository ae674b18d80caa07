package scheduler

// Logs that only the core can write: the statistics log, and the event log
// (scheduler-events(5)). These actions change nothing.

// log issues the actions for the logs.
type log struct {
	s *Scheduler
}

// outcome logs what became of a recipient, in the words of Outcome.State, and what an agent said about
// it, if one did.
func (lg *log) outcome(v *vertex, i int, state string, by AgentID, said diagnostic) *Outcome {
	m, t, r := lg.s.mail.messageOf(v), lg.s.mail.threadOf(v), lg.s.mail.recipient(v, i)
	o := lg.s.agenda.outcomes.take()
	*o = Outcome{}
	o.Message, o.ModifiedAt, o.ChangedAt = m.id, m.modifiedAt.time(), m.changedAt.time()
	o.State, o.Channel, o.Host = state, t.key.channel, t.key.host
	if lg.s.rules.config.Events {
		o.Offset, o.Agent, o.Notary, o.Text = int64(r.offset), by, said.notary, said.text
		o.Attempts, o.Owes = int(r.attempts), m.flags&owesNotice != 0
		if by != 0 && state != deferred {
			o.Attempts++
		}
	}
	lg.s.agenda.do(o)
	return o
}

// States of recipients for the event log only: one will be tried again, and one was given up by
// an order, without a notice.
const (
	deferred = "deferred"
	killed   = "killed"
)

// deferrals logs the recipients of an ended line that will be tried again, if there is an event
// log. A nextAt of 0 means that no time is planned. The recipients must still have the states
// that they had in the line.
func (lg *log) deferrals(v *vertex, nextAt instant) {
	if !lg.s.rules.config.Events {
		return
	}
	t := lg.s.mail.threadOf(v)
	for i := range lg.s.mail.lenOf(v) {
		r := lg.s.mail.recipient(v, i)
		if r.state != reported {
			continue
		}
		said := diagnostic{}
		if last := lg.s.mail.diagnostics.Get(r.diagnostic); last != nil {
			said = *last
		}
		o := lg.outcome(v, i, deferred, v.agent, said)
		if nextAt != 0 && !t.params.QueueOnly {
			o.NextAt = lg.s.agenda.timeAt(max(nextAt, t.suspendedUntil))
		}
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
func (lg *log) recordVertex(v *vertex, state, because string) {
	key := lg.s.mail.threadOf(v).key
	lg.record(Condition{State: state, Message: lg.s.mail.messageOf(v).id, Channel: key.channel, Host: key.host, Because: because})
}

// recordTouched records that an order affects a message, if it is not in the log already.
func (lg *log) recordTouched(e *Ordered, id MessageID, modifiedAt date, recipients int) {
	if !e.recorded {
		lg.record(Condition{
			State: "order", Message: id, ModifiedAt: modifiedAt.time(), Channel: e.To.Channel, Host: e.To.Host,
			Order: string(e.Verb), Recipients: recipients, By: e.By, Because: e.Because,
		})
	}
}
