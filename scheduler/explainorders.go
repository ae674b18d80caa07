package scheduler

import (
	"slices"
	"time"

	"zsched/scheduler/rule"
)

// Explain: the vertices of a thread for which an order waits, and those that a reply rule
// delays.

// DelayView says how many vertices of a thread wait because of a reply rule, and when the
// last of them is due.
type DelayView struct {
	Rule     *rule.ReplyRule
	Vertices int
	Until    time.Time
}

// explainOrders counts the orders that wait for agents of a thread.
func (s *Scheduler) explainOrders(e *Explanation, t *thread) {
	for i, a := range t.agents {
		if slices.Contains(t.agents[:i], a) {
			continue
		}
		for j := range a.lines {
			if l := &a.lines[j]; l.thread == t && !l.ended() {
				e.countOrdered(s.orderOn(l.vertex))
			}
		}
	}
}

// maxDelayed bounds the vertices that explainDelays looks at.
const maxDelayed = 1000

// explainDelays counts the vertices that wait because of reply rules, among the first ones
// of a thread. The rule is that of the last report.
func (s *Scheduler) explainDelays(e *Explanation, t *thread) {
	if len(s.replyRules) == 0 {
		return
	}
	n := 0
	for ref := t.vertices.Head; ref != 0 && n < maxDelayed; ref = t.vertices.Next(ref) {
		n++
		if v := s.vertices.At(ref); v.state == waiting {
			e.addDelay(s.delayOf(t, v), s.timeAt(s.wakeAt(v)))
		}
	}
}

// delayOf returns the reply rule that makes a vertex wait; nil: none does.
func (s *Scheduler) delayOf(t *thread, v *vertex) (rule *rule.ReplyRule) {
	for i := range v.len() {
		r := s.recipient(v, i)
		last := s.diagnostics.Get(r.diagnostic)
		if r.state == done || last == nil {
			continue
		}
		if one := s.delayingRule(t, last); one != nil && (rule == nil || one.Span > rule.Span) {
			rule = one
		}
	}
	return rule
}

// addDelay counts a vertex that waits because of a rule; nil: because of none.
func (e *Explanation) addDelay(rule *rule.ReplyRule, until time.Time) {
	if rule == nil {
		return
	}
	i := slices.IndexFunc(e.Delays, func(d DelayView) bool { return d.Rule == rule })
	if i < 0 {
		e.Delays = append(e.Delays, DelayView{Rule: rule})
		i = len(e.Delays) - 1
	}
	d := &e.Delays[i]
	d.Vertices++
	if until.After(d.Until) {
		d.Until = until
	}
}

// countOrdered counts a vertex for which an order waits, and where it is sent; nil: none does.
func (e *Explanation) countOrdered(o *order) {
	if o == nil {
		return
	}
	if e.Ordered == nil {
		e.Ordered = make(map[Verb]int)
	}
	e.Ordered[o.verb]++
	if o.verb == VerbReroute {
		if e.Rerouted == nil {
			e.Rerouted = make(map[Target]int)
		}
		e.Rerouted[o.target()]++
	}
}
