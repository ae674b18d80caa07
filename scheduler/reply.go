package scheduler

import (
	"cmp"
	"slices"
	"time"

	"zsched/scheduler/rule"
	"zsched/ta"
)

// Reply rules: what the scheduler does when a server gives a certain reply (reply,
// PARAMreplies). The effects that last are in effect.go.

// rules has the configuration and the reply rules, and what they do to threads.
type rules struct {
	s *Scheduler

	config     *rule.Config
	replyRules []*ruleState // the reply rules, in their order
}

// ruleState is a rule and what it has done.
type ruleState struct {
	rule   *rule.ReplyRule
	hits   uint64
	lastAt date // of the last hit; 0: none yet
}

// RuleView is a reply rule with what it has done since the start, or since it has its
// present form.
type RuleView struct {
	*rule.ReplyRule
	Hits    uint64
	LastAt  time.Time // of the last hit; zero: none yet
	Effects int       // threads on which it has an effect now
}

// Rules returns all reply rules in their order.
func (s *Scheduler) Rules() []RuleView {
	effects := make(map[*rule.ReplyRule]int)
	for _, t := range s.threads.byKey {
		effects[t.suspendingRule()]++
		if t.shaping != nil {
			for _, e := range t.shaping.effects {
				effects[e.rule]++
			}
		}
	}
	views := make([]RuleView, len(s.rules.replyRules))
	for i, st := range s.rules.replyRules {
		views[i] = RuleView{ReplyRule: st.rule, Hits: st.hits, Effects: effects[st.rule]}
		if st.lastAt != 0 {
			views[i].LastAt = st.lastAt.time()
		}
	}
	return views
}

// setConfig takes a configuration. Reply rules that were there before keep their hits.
func (rs *rules) setConfig(config *rule.Config) {
	before := rs.replyRules
	rs.config, rs.replyRules = config, make([]*ruleState, 0, len(config.Replies))
	for i := range config.Replies {
		st := &ruleState{rule: &config.Replies[i]}
		// Of two rules with the same key, only the first one matches.
		known := findRule(before, st.rule.Key())
		if known != nil && findRule(rs.replyRules, st.rule.Key()) == nil {
			st.hits, st.lastAt = known.hits, known.lastAt
		}
		rs.replyRules = append(rs.replyRules, st)
	}
}

// findRule returns the first rule with a key, or nil.
func findRule(rules []*ruleState, key rule.ReplyKey) *ruleState {
	i := slices.IndexFunc(rules, func(st *ruleState) bool { return st.rule.Key() == key })
	if i < 0 {
		return nil
	}
	return rules[i]
}

// ruleFor returns the rule for a reply in a thread, or nil.
func (rs *rules) ruleFor(key threadKey, notary ta.Notary, text string) *ruleState {
	if len(rs.replyRules) == 0 {
		return nil
	}
	forms := rule.ReplyForms(notary, text)
	for _, st := range rs.replyRules {
		if st.rule.Applies(key.channel, key.host) && st.rule.Matches(forms) {
			return st
		}
	}
	return nil
}

// matchReply returns the rule for a report, or nil.
func (rs *rules) matchReply(t *thread, rep *ta.Report) *ruleState {
	if rep.Status < ta.Error {
		return nil
	}
	st := rs.ruleFor(t.key, rep.Notary, rep.Text)
	if st != nil {
		st.hits++
		st.lastAt = rs.s.agenda.date
	}
	return st
}

// applyReply applies a rule to a report of a line that is open.
func (rs *rules) applyReply(st *ruleState, l *line, v *vertex, rep *ta.Report) {
	t, r := rs.s.mail.threadOf(v), st.rule
	if r.Verb.Lasts() {
		rs.addEffect(t, r, rep)
		return
	}
	if r.Verb == rule.ReplyDefer && (l.rule == nil || l.rule.Span < r.Span) { // the longest wait counts
		l.rule = r
	}
	if l.noted != r {
		l.noted = r
		rs.s.log.recordVertex(v, "rule", r.Place()+" ("+r.Action+")")
	}
}

// failReported turns the deferral of a recipient into a failure. A deferall applies
// to all recipients of the line that have not been reported.
func (li *lines) failReported(a *agent, l *line, v *vertex, i int, rep *ta.Report) {
	failed := *rep
	failed.Status = ta.Error
	fields := ta.Fields{
		Recipient: "\x03", // the user of the r line
		Action:    "failed", Code: cmp.Or(rep.Notary.Code(), "5.0.0 (not tried again)"),
		Diagnostic: cmp.Or(rep.Notary.Diagnostic(), "smtp; 500 (not tried again)"),
		Remote:     rep.Notary.Remote(), Agent: rep.Notary.Agent(),
	}
	failed.Notary = fields.Notary()
	if rep.Status == ta.DeferAll {
		l.destinationFailed = true
		for j := range li.s.mail.lenOf(v) {
			if j != i && li.s.mail.recipient(v, j).state == open {
				l.unreported--
				li.undeliverable(a, v, j, &failed, false)
			}
		}
	}
	fields.Recipient = cmp.Or(rep.Notary.Recipient(), fields.Recipient)
	failed.Notary = fields.Notary()
	li.undeliverable(a, v, i, &failed, false)
}
