package scheduler

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"zsched/ta"
)

// Reply rules: what the scheduler does when a server gives a certain reply (reply,
// PARAMreplies). The effects that last are in effect.go.

// ReplyRule says what happens when an agent reports a certain reply. Of all
// rules, the first one that matches applies.
type ReplyRule struct {
	Channel, Host string // patterns
	Expression    string // regular expression for the reply, as written
	// Match reports whether the expression matches a reply (ReplyText).
	Match  func(reply string) bool
	Action string // as written
	Verb   ReplyVerb
	Span   time.Duration // 0 for ReplyFail
	Factor float64       // of ReplySlow; above 1
	Rate   Rate          // of ReplyRate
	File   string
	Line   int
}

// ReplyVerb is what a reply rule does.
type ReplyVerb uint8

const (
	// ReplySuspend suspends the thread for Span.
	ReplySuspend ReplyVerb = iota + 1
	// ReplySlow divides the rate and the window limit of the thread. They return to
	// their values in equal steps.
	ReplySlow
	// ReplyRate sets a rate for Span.
	ReplyRate
	// ReplyDefer makes the message wait for Span instead of until its usual retry.
	ReplyDefer
	// ReplyFail turns a deferral into a failure.
	ReplyFail
	// ReplyHold delays the message, in this thread, for Span. It does not expire before
	// its next attempt.
	ReplyHold
)

// lasts reports whether the rule has an effect on the thread that lasts.
func (v ReplyVerb) lasts() bool { return v == ReplySuspend || v == ReplySlow || v == ReplyRate }

// Place is the file and the line of the rule.
func (r *ReplyRule) Place() string { return r.File + ":" + strconv.Itoa(r.Line) }

// ReplyKey identifies a rule across reloads and restarts.
type ReplyKey struct{ Channel, Host, Expression, Action string }

// Key returns the key of the rule.
func (r *ReplyRule) Key() ReplyKey { return ReplyKey{r.Channel, r.Host, r.Expression, r.Action} }

// ruleState is a rule and what it has done.
type ruleState struct {
	rule    *ReplyRule
	hits    uint64
	lastAt  instant // of the last hit; 0: none yet
	effects int     // in force now
	unsaved bool    // has hits that were not saved
}

// RuleView is a reply rule with what it has done since it has its present form.
type RuleView struct {
	*ReplyRule
	Hits    uint64
	LastAt  time.Time // of the last hit; zero: none yet
	Effects int       // threads on which it has an effect now
}

// Rules returns all reply rules in their order.
func (s *Scheduler) Rules() []RuleView {
	views := make([]RuleView, len(s.replyRules))
	for i, st := range s.replyRules {
		views[i] = RuleView{ReplyRule: st.rule, Hits: st.hits, Effects: st.effects}
		if st.lastAt != 0 {
			views[i].LastAt = st.lastAt.time()
		}
	}
	return views
}

// setRules takes the rules of a configuration. Rules that were there before keep
// their counts.
func (q *queue) setRules(rules []ReplyRule) {
	before := make(map[ReplyKey]*ruleState)
	for _, st := range q.replyRules {
		before[st.rule.Key()] = st
	}
	q.replyRules = nil
	for i := range rules {
		r := &rules[i]
		st := cmp.Or(before[r.Key()], new(ruleState))
		if slices.Contains(q.replyRules, st) { // the same rule twice: only the first one matches
			st = new(ruleState)
		}
		st.rule = r
		q.replyRules = append(q.replyRules, st)
	}
}

// ReplyText returns what the expressions of rules are matched against: the status
// code, a blank, and the diagnostic in one line.
func ReplyText(notary ta.Notary, text string) string {
	code, _, _ := strings.Cut(notary.Code(), " ")
	kind, diagnostic, found := strings.Cut(notary.Diagnostic(), ";")
	if !found || strings.Contains(kind, " ") { // without the type, such as "smtp;"
		diagnostic = notary.Diagnostic()
	}
	diagnostic = cmp.Or(strings.TrimSpace(diagnostic), text)
	if len(diagnostic) > maxDiagnostic {
		diagnostic = diagnostic[len(diagnostic)-maxDiagnostic:]
	}
	return code + " " + strings.Map(func(c rune) rune {
		if c == '\r' || c == '\n' {
			return ' '
		}
		return c
	}, diagnostic)
}

// matchReply returns the rule for a report, or nil.
func (dv *delivery) matchReply(t *thread, rep *ta.Report) *ruleState {
	if len(dv.replyRules) == 0 || rep.Status < ta.Error {
		return nil
	}
	text := ReplyText(rep.Notary, rep.Text)
	for _, st := range dv.replyRules {
		if st.rule.applies(t.key) && st.rule.Match(text) {
			st.hits++
			st.lastAt, st.unsaved = dv.now, true
			return st
		}
	}
	return nil
}

// applyReply applies a rule to a report of a line that is open.
func (dv *delivery) applyReply(st *ruleState, l *line, v *vertex, rep *ta.Report) {
	t, r := dv.threadOf(v), st.rule
	switch r.Verb {
	case ReplySuspend, ReplySlow, ReplyRate:
		dv.addEffect(t, st, rep)
		return
	case ReplyDefer, ReplyHold:
		l.rule = strictest(l.rule, st)
	}
	if l.noted != st {
		l.noted = st
		dv.noteReplyRule(v, r)
	}
	dv.noteRule(t, st, rep)
}

// delayingRule returns the rule of a last report that makes a message wait: the one of
// the verbs defer and hold that matches it first, or nil.
func (s *Scheduler) delayingRule(t *thread, last *diagnostic) *ReplyRule {
	text := ReplyText(ta.Notary(last.notary), last.text)
	for _, st := range s.replyRules {
		if st.rule.applies(t.key) && st.rule.Match(text) {
			if st.rule.Verb == ReplyDefer || st.rule.Verb == ReplyHold {
				return st.rule
			}
			return nil
		}
	}
	return nil
}

// strictest returns the one of two rules for the same line that makes it wait
// longer. a may be nil.
func strictest(a, b *ruleState) *ruleState {
	if a != nil && a.rule.Span >= b.rule.Span {
		return a
	}
	return b
}

// failReported turns the deferral of a recipient into a failure. A deferall applies
// to all recipients of the line that have not been reported.
func (dv *delivery) failReported(a *agent, l *line, v *vertex, i int, rep *ta.Report) {
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
		for j := range v.len() {
			if j != i && dv.recipient(v, j).state == open {
				l.unreported--
				dv.undeliverable(a, v, j, &failed, false)
			}
		}
	}
	fields.Recipient = cmp.Or(rep.Notary.Recipient(), fields.Recipient)
	failed.Notary = fields.Notary()
	dv.undeliverable(a, v, i, &failed, false)
}

// takeRuleStep makes an ended vertex wait as a rule says. It reports false if there
// is no such rule, or if no recipient is left to wait.
func (dv *delivery) takeRuleStep(v *vertex, st *ruleState) bool {
	if st == nil || st.rule == nil || v.ordered != 0 || !dv.countAttempts(v) {
		return false
	}
	until := dv.now.after(max(st.rule.Span, shortestRetry))
	if st.rule.Verb == ReplyHold {
		for i := range v.len() {
			dv.recipient(v, i).flags |= mustAttempt
		}
		dv.postpone(v, until)
		return true
	}
	_, v.retry = retryStep(dv.threadOf(v).params, v.retry, dv.now.since(dv.messageOf(v).modifiedAt), dv.rand)
	v.inRetryStep = false
	if primary, _ := dv.expiry(v); primary > dv.now {
		until = min(until, primary)
	}
	dv.postpone(v, until)
	return true
}

// ruleNoteInterval is the least time between two log messages about the same rule on
// the same thread.
const ruleNoteInterval = time.Minute

// noteRule logs that a rule has matched, at most once in ruleNoteInterval for a
// thread.
func (dv *delivery) noteRule(t *thread, st *ruleState, rep *ta.Report) {
	x := dv.obtainShaping(t)
	if x.noted == st && x.notedAt.after(ruleNoteInterval) > dv.now {
		return
	}
	x.noted, x.notedAt = st, dv.now
	dv.do(Note{Text: "reply rule " + st.rule.Place() + " (" + st.rule.Action + ") applies to " +
		t.key.channel + "/" + t.key.host + ": " + ReplyText(rep.Notary, rep.Text)})
}
