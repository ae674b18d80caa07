package scheduler

import (
	"zsched/scheduler/limit"
	"zsched/scheduler/rule"
	"zsched/scheduler/view"
	"zsched/ta"
)

// Effects: what reply rules do to a thread for a time: one suspends it, as a failure of its
// destination does, and one makes it slower. Each effect ends by itself, or by LIFT; a reload leaves
// it as it is.

// addEffect begins the effect of a rule on a thread, and logs that. If the effect is there already,
// its time begins again. A rate does not take the place of a slower one.
func (rs *rules) addEffect(t *thread, r *rule.ReplyRule, rep *ta.Report) {
	x := rs.s.limits.obtainShaping(t)
	until, before := rs.s.agenda.now.after(r.Span), t.suspendingRule()
	if r.Verb == rule.ReplyRate {
		before = x.slowedBy
	}
	if before != r {
		rs.logEffect(t, r, rep)
	}
	switch {
	case r.Verb == rule.ReplySuspend && until > t.suspendedUntil:
		rs.s.threads.suspend(t, until)
		x.suspendedBy = r
	case r.Verb == rule.ReplyRate && x.slowest().Per() <= r.Rate.Per():
		x.slowedBy = r
		rs.s.agenda.plan(&x.slowEnd, until)
		rs.s.limits.setThreadRate(t)
		rs.s.threads.updateThread(t)
	}
}

// slowest is the rate that a rule has set; zero: none has.
func (x *shaping) slowest() limit.Rate {
	if x.slowedBy == nil {
		return limit.Rate{}
	}
	return x.slowedBy.Rate
}

func (rs *rules) logEffect(t *thread, r *rule.ReplyRule, rep *ta.Report) {
	rs.s.agenda.do(Note{Text: "reply rule " + r.Place() + " (" + r.Action + ") applies to " +
		t.key.channel + "/" + t.key.host + ": " + rule.ReplyForms(rep.Notary, rep.Text)[0]})
}

// suspendingRule returns the rule that suspends the thread; nil: none does.
func (t *thread) suspendingRule() *rule.ReplyRule {
	if t.shaping == nil || t.suspendedUntil == 0 {
		return nil
	}
	return t.shaping.suspendedBy
}

// viewEffects adds the effects on a thread to its view, and by whom it is suspended.
func (rs *rules) viewEffects(v *view.Thread, t *thread) {
	if t.suspendedUntil != 0 {
		v.SuspendedBy = view.AsDead
	}
	if r := t.suspendingRule(); r != nil {
		v.SuspendedBy = view.ByRule
		v.Effects = append(v.Effects, rs.viewEffect(r, t.suspendedUntil))
	}
	if told := t.told(); told != nil {
		v.Effects = append(v.Effects, view.Effect{By: "node " + told.Node, Because: told.Reason, Until: rs.s.agenda.timeAt(t.suspendedUntil)})
	}
	if x := t.shaping; x != nil && x.slowedBy != nil {
		v.Effects = append(v.Effects, rs.viewEffect(x.slowedBy, rs.s.agenda.plannedAt(&x.slowEnd)))
	}
}

func (rs *rules) viewEffect(r *rule.ReplyRule, until instant) view.Effect {
	return view.Effect{Rule: r.Place(), Action: r.Action, Until: rs.s.agenda.timeAt(until)}
}

// lift ends the effects of rules on a thread. Its mail keeps its retry times.
func (rs *rules) lift(key threadKey) {
	t := rs.s.threads.byKey[key]
	if t == nil {
		return
	}
	if t.suspendingRule() != nil {
		t.suspendedUntil = rs.s.agenda.now
	}
	rs.endSlowing(t)
	rs.s.threads.resumeThread(t)
	rs.s.rings.overfeedThread(t)
}

// endSlowing ends the rate that a rule has set for a thread.
func (rs *rules) endSlowing(t *thread) {
	if x := t.shaping; x != nil {
		x.slowedBy = nil
		rs.s.agenda.plan(&x.slowEnd, never)
		rs.s.limits.setThreadRate(t)
	}
}
