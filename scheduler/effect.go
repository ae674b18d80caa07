package scheduler

import (
	"slices"

	"zsched/scheduler/rule"
	"zsched/scheduler/view"
	"zsched/ta"
)

// Effects: what reply rules do to a thread for a time. Each effect ends by itself, by LIFT, or
// with its rule; the strictest of several applies.

// effect is what a reply rule does to a thread.
type effect struct {
	rule  *rule.ReplyRule
	until instant
}

// addEffect begins the effect of a rule on a thread, and logs that. If the effect is there
// already, its time begins again.
func (rs *rules) addEffect(t *thread, r *rule.ReplyRule, rep *ta.Report) {
	x := rs.s.limits.obtainShaping(t)
	i := slices.IndexFunc(x.effects, func(e effect) bool { return e.rule == r })
	if i < 0 {
		x.effects = append(x.effects, effect{rule: r})
		i = len(x.effects) - 1
		rs.s.agenda.do(Note{Text: "reply rule " + r.Place() + " (" + r.Action + ") applies to " +
			t.key.channel + "/" + t.key.host + ": " + rule.ReplyForms(rep.Notary, rep.Text)[0]})
	}
	x.effects[i].until = rs.s.agenda.now.after(r.Span)
	rs.updateEffects(t)
	rs.s.threads.updateThread(t)
}

// updateEffects works out what the effects on a thread are now, and plans when
// that changes.
func (rs *rules) updateEffects(t *thread) {
	x := t.shaping
	suspended, next := false, never
	var strictest []rule.Rate
	x.effects = slices.DeleteFunc(x.effects, func(e effect) bool { return e.until <= rs.s.agenda.now })
	for i := range x.effects {
		e := &x.effects[i]
		next = min(next, e.until)
		switch r := e.rule; r.Verb {
		case rule.ReplySuspend:
			suspended = true
		case rule.ReplyRate:
			if strictest == nil || r.Rate.Per() > strictest[0].Per() {
				strictest = []rule.Rate{r.Rate}
			}
		}
	}
	begins := x.ruleRate == nil
	rs.s.limits.useRate(&x.ruleRate, "reply "+t.name(), strictest, 1, x.gate.due)
	if begins { // the attempt that got the reply counts
		rs.s.limits.take(x.ruleRate, 1)
	}
	rs.s.agenda.plan(&x.effectEnd, next)
	if x.suspended == suspended {
		return
	}
	x.suspended = suspended
	if !suspended {
		t.setSessionCap(false)
		return
	}
	t.running = false
	rs.s.log.recordThread(t, "suspended", rs.suspensionEnd(t))
	rs.s.loads.considerUnloadingThread(t)
}

// suspensionEnd returns when the last suspension of the thread ends, whatever its
// reason; never if that is not known; 0 if it is not suspended.
func (rs *rules) suspensionEnd(t *thread) instant {
	if t.shaping == nil {
		return t.suspendedUntil
	}
	_, until := t.shaping.suspension()
	return max(t.suspendedUntil, until)
}

// suspension returns the rule that suspends the thread for the longest time, and until when;
// nil and 0: none does.
func (x *shaping) suspension() (longest *rule.ReplyRule, until instant) {
	for _, e := range x.effects {
		if e.rule.Verb == rule.ReplySuspend && e.until > until {
			longest, until = e.rule, e.until
		}
	}
	return longest, until
}

// viewEffects adds the effects on a thread to its view, and by whom it is suspended.
func (rs *rules) viewEffects(v *view.Thread, t *thread) {
	if t.suspendedUntil != 0 {
		v.SuspendedBy = view.AsDead
	}
	x := t.shaping
	if x == nil {
		return
	}
	if _, until := x.suspension(); until > t.suspendedUntil {
		v.SuspendedBy = view.ByRule
	}
	if told := t.told(); told != nil {
		v.Effects = append(v.Effects, view.Effect{By: "node " + told.Node, Because: told.Reason, Until: rs.s.agenda.timeAt(t.suspendedUntil)})
	}
	for i := range x.effects {
		e := &x.effects[i]
		v.Effects = append(v.Effects, view.Effect{Rule: e.rule.Place(), Action: e.rule.Action, Until: rs.s.agenda.timeAt(e.until)})
	}
}

// lift ends all effects of rules on a thread. Its mail keeps its retry times.
func (rs *rules) lift(key threadKey) {
	if t := rs.s.threads.byKey[key]; t != nil && t.shaping != nil && len(t.shaping.effects) > 0 {
		rs.dropEffects(t, func(*rule.ReplyRule) bool { return true })
		rs.effectDue(t)
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
	if t.shaping == nil {
		return
	}
	for i := range t.shaping.effects {
		if e := &t.shaping.effects[i]; selected(e.rule) {
			e.until = rs.s.agenda.now
		}
	}
	rs.updateEffects(t)
}

// liftRuleSuspensions ends the suspensions of a thread by rules, because somebody
// asked for its mail (ETRN, RETRY).
func (rs *rules) liftRuleSuspensions(t *thread) {
	if t.shaping != nil && t.shaping.suspended {
		rs.dropEffects(t, func(r *rule.ReplyRule) bool { return r.Verb == rule.ReplySuspend })
	}
}

// attachEffects attaches the effects on a thread to the rules of a new configuration.
// The effects of a rule that is no longer there end.
func (rs *rules) attachEffects(t *thread) {
	x := t.shaping
	if x == nil {
		return
	}
	for i := range x.effects {
		e := &x.effects[i]
		if st := findRule(rs.replyRules, e.rule.Key()); st != nil {
			e.rule = st.rule
		} else {
			e.until = rs.s.agenda.now
		}
	}
	if len(x.effects) > 0 {
		rs.updateEffects(t)
	}
}
