package scheduler

import (
	"cmp"
	"slices"
	"strings"
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
	replyRules []RuleView // in their order
}

// RuleView is a reply rule with what it has done since the configuration was read.
type RuleView struct {
	*rule.ReplyRule
	Hits   uint64
	LastAt time.Time // of the last hit; zero: none yet
}

// Rules returns all reply rules in their order.
func (s *Scheduler) Rules() []RuleView { return slices.Clone(s.rules.replyRules) }

// setConfig takes a configuration.
func (rs *rules) setConfig(config *rule.Config) {
	rs.config, rs.replyRules = config, make([]RuleView, len(config.Replies))
	for i := range config.Replies {
		rs.replyRules[i].ReplyRule = &config.Replies[i]
	}
}

// matchReply returns the rule for a report, or nil. A reply counts once, and not for those who were not
// tried because of it.
func (rs *rules) matchReply(t *thread, rep *ta.Report) *rule.ReplyRule {
	if rep.Status < ta.Error || len(rs.replyRules) == 0 || strings.Contains(rep.Text, ta.NotTriedAgain) {
		return nil
	}
	forms := rule.ReplyForms(rep.Notary, rep.Text)
	for i := range rs.replyRules {
		if r := &rs.replyRules[i]; r.Applies(t.key.channel, t.key.host) && r.Matches(forms) {
			r.Hits++
			r.LastAt = rs.s.agenda.date.time()
			return r.ReplyRule
		}
	}
	return nil
}

// applyReply applies a rule to a report of a line that is open.
func (rs *rules) applyReply(r *rule.ReplyRule, l *line, v *vertex, rep *ta.Report) {
	if r.Verb.Lasts() {
		rs.addEffect(rs.s.mail.threadOf(v), r, rep)
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
