package scheduler

import (
	"slices"

	"zsched/scheduler/rule"
	"zsched/scheduler/view"
	"zsched/ta"
)

// Effects: what reply rules do to a thread for a time. Each effect ends by itself, by LIFT, or
// with its rule. A rule suspends a thread as a failure of its destination does; of several rates,
// the strictest applies.

// effect is a rate that a reply rule sets.
type effect struct {
	rule  *rule.ReplyRule
	until instant
}

// addEffect begins the effect of a rule on a thread, and logs that. If the effect is there
// already, its time begins again.
func (rs *rules) addEffect(t *thread, r *rule.ReplyRule, rep *ta.Report) {
	x := rs.s.limits.obtainShaping(t)
	until := rs.s.agenda.now.after(r.Span)
	if r.Verb == rule.ReplySuspend {
		if t.suspendingRule() != r {
			rs.logEffect(t, r, rep)
		}
		if until > t.suspendedUntil {
			rs.s.threads.suspend(t, until)
			x.suspendedBy = r
		}
		return
	}
	i := slices.IndexFunc(x.effects, func(e effect) bool { return e.rule == r })
	if i < 0 {
		x.effects = append(x.effects, effect{rule: r})
		i = len(x.effects) - 1
		rs.logEffect(t, r, rep)
	}
	x.effects[i].until = until
	rs.updateEffects(t)
	rs.s.threads.updateThread(t)
}

func (rs *rules) logEffect(t *thread, r *rule.ReplyRule, rep *ta.Report) {
	rs.s.agenda.do(Note{Text: "reply rule " + r.Place() + " (" + r.Action + ") applies to " +
		t.key.channel + "/" + t.key.host + ": " + rule.ReplyForms(rep.Notary, rep.Text)[0]})
}

// updateEffects works out what the effects on a thread are now, and plans when
// that changes.
func (rs *rules) updateEffects(t *thread) {
	x := t.shaping
	strictest, next := rule.Rate{}, never
	x.effects = slices.DeleteFunc(x.effects, func(e effect) bool { return e.until <= rs.s.agenda.now })
	for i := range x.effects {
		e := &x.effects[i]
		next = min(next, e.until)
		if r := e.rule; r.Rate.Per() > strictest.Per() {
			strictest = r.Rate
		}
	}
	if x.ruleRate != strictest {
		x.ruleRate = strictest
		rs.s.limits.setThreadRate(t)
	}
	rs.s.agenda.plan(&x.effectEnd, next)
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
		v.Effects = append(v.Effects, rs.viewEffect(effect{r, t.suspendedUntil}))
	}
	if told := t.told(); told != nil {
		v.Effects = append(v.Effects, view.Effect{By: "node " + told.Node, Because: told.Reason, Until: rs.s.agenda.timeAt(t.suspendedUntil)})
	}
	if t.shaping != nil {
		for _, e := range t.shaping.effects {
			v.Effects = append(v.Effects, rs.viewEffect(e))
		}
	}
}

func (rs *rules) viewEffect(e effect) view.Effect {
	return view.Effect{Rule: e.rule.Place(), Action: e.rule.Action, Until: rs.s.agenda.timeAt(e.until)}
}

// lift ends all effects of rules on a thread. Its mail keeps its retry times.
func (rs *rules) lift(key threadKey) {
	if t := rs.s.threads.byKey[key]; t != nil {
		rs.dropEffects(t, func(*rule.ReplyRule) bool { return true })
		rs.s.threads.resumeThread(t)
		rs.s.rings.overfeedThread(t)
	}
}

// effectDue is called when the effects on a thread change.
func (rs *rules) effectDue(t *thread) {
	rs.updateEffects(t)
	rs.s.threads.updateThread(t)
	rs.s.rings.overfeedThread(t)
}

// dropEffects ends the selected effects on a thread.
func (rs *rules) dropEffects(t *thread, selected func(*rule.ReplyRule) bool) {
	x := t.shaping
	if x == nil {
		return
	}
	for i := range x.effects {
		if e := &x.effects[i]; selected(e.rule) {
			e.until = rs.s.agenda.now
		}
	}
	if r := t.suspendingRule(); r != nil && selected(r) {
		t.suspendedUntil = rs.s.agenda.now
		rs.s.threads.planResume(t)
	}
	if len(x.effects) > 0 {
		rs.updateEffects(t)
	}
}

// attachEffects attaches the effects on a thread to the rules of a new configuration.
// The effects of a rule that is no longer there end.
func (rs *rules) attachEffects(t *thread) {
	x := t.shaping
	if x == nil {
		return
	}
	attach := func(r **rule.ReplyRule) {
		if st := findRule(rs.replyRules, (*r).Key()); st != nil {
			*r = st.rule
		}
	}
	for i := range x.effects {
		attach(&x.effects[i].rule)
	}
	if x.suspendedBy != nil {
		attach(&x.suspendedBy)
	}
	rs.dropEffects(t, func(r *rule.ReplyRule) bool { return findRule(rs.replyRules, r.Key()) == nil })
}
