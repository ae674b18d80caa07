package scheduler

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"zsched/internal/text"
	"zsched/ta"
)

// Reply rules: what the scheduler does when a server gives a certain reply (reply,
// PARAMreplies). The effects that last are in effect.go.

// ReplyRule says what happens when an agent reports a certain reply. Of all
// rules, the first one that matches applies.
type ReplyRule struct {
	Channel, Host string // patterns
	Expression    string // regular expression for the reply, as written
	// Match reports whether the expression matches one form of a reply (ReplyForms).
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
	// ReplyPostpone delays the message, in this thread, for Span. It does not expire before
	// its next attempt.
	ReplyPostpone
)

// delays reports whether the rule makes the message wait.
func (v ReplyVerb) delays() bool { return v == ReplyDefer || v == ReplyPostpone }

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
	lastAt  date // of the last hit; 0: none yet
	effects int  // in force now
}

// RuleView is a reply rule with what it has done since the start, or since it has its
// present form.
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
// their hits. What they have done to threads is counted when the threads are attached
// (attachEffects).
func (q *queue) setRules(rules []ReplyRule) {
	before := q.replyRules
	q.replyRules = make([]*ruleState, 0, len(rules))
	for i := range rules {
		st := &ruleState{rule: &rules[i]}
		// Of two rules with the same key, only the first one matches.
		known := findRule(before, st.rule.Key())
		if known != nil && findRule(q.replyRules, st.rule.Key()) == nil {
			st.hits, st.lastAt = known.hits, known.lastAt
		}
		q.replyRules = append(q.replyRules, st)
	}
}

// findRule returns the first rule with a key, or nil.
func findRule(rules []*ruleState, key ReplyKey) *ruleState {
	i := slices.IndexFunc(rules, func(st *ruleState) bool { return st.rule.Key() == key })
	if i < 0 {
		return nil
	}
	return rules[i]
}

// ReplyForms returns the texts that the expressions of rules are matched against: the
// last reply in the text of a report, in one line; the same after the status code and
// a blank; and the diagnostic of the notary fields after the status code and a blank.
// The diagnostics of the agent smtp have parentheses and no enhanced status code. The
// whole text stands for a diagnostic that is missing. If the text is empty, only the
// last form is there.
func ReplyForms(notary ta.Notary, s string) []string {
	// The last report of a recipient is kept with so much of its text.
	s = s[max(0, len(s)-maxDiagnostic):]
	code, _, _ := strings.Cut(notary.Code(), " ")
	kind, diagnostic, found := strings.Cut(notary.Diagnostic(), ";")
	if !found || strings.Contains(kind, " ") { // without the type, such as "smtp;"
		diagnostic = notary.Diagnostic()
	}
	diagnostic = cmp.Or(strings.TrimSpace(diagnostic), s)
	diagnostic = diagnostic[max(0, len(diagnostic)-maxDiagnostic):]
	var forms []string
	if last := text.LastReply(s); last != "" {
		forms = append(forms, last, code+" "+last)
	}
	return append(forms, code+" "+strings.NewReplacer("\r", " ", "\n", " ").Replace(diagnostic))
}

// FormsOfReply returns the forms of a reply that the agent smtp would report, such as
// "421 4.7.0 try later". A reply without a status code gets one from its first digit,
// such as 4.0.0. A text that does not begin with a reply code is its only form.
func FormsOfReply(s string) []string {
	code, status, rest := text.ReplyCodes(text.LastReply(s))
	if code == "" {
		return []string{s}
	}
	status = cmp.Or(status, code[:1]+".0.0")
	return ReplyForms(ta.Fields{Code: status, Diagnostic: "smtp; " + code + " (" + rest + ")"}.Notary(), s)
}

// Matches reports whether the expression matches one of the forms of a reply.
func (r *ReplyRule) Matches(forms []string) bool { return slices.ContainsFunc(forms, r.Match) }

// ruleFor returns the rule for a reply in a thread, or nil.
func (q *queue) ruleFor(key threadKey, notary ta.Notary, text string) *ruleState {
	if len(q.replyRules) == 0 {
		return nil
	}
	forms := ReplyForms(notary, text)
	for _, st := range q.replyRules {
		if st.rule.applies(key) && st.rule.Matches(forms) {
			return st
		}
	}
	return nil
}

// matchReply returns the rule for a report, or nil.
func (dv *delivery) matchReply(t *thread, rep *ta.Report) *ruleState {
	if rep.Status < ta.Error {
		return nil
	}
	st := dv.ruleFor(t.key, rep.Notary, rep.Text)
	if st != nil {
		st.hits++
		st.lastAt = dv.date
	}
	return st
}

// applyReply applies a rule to a report of a line that is open.
func (dv *delivery) applyReply(st *ruleState, l *line, v *vertex, rep *ta.Report) {
	t, r := dv.threadOf(v), st.rule
	switch r.Verb {
	case ReplySuspend, ReplySlow, ReplyRate:
		dv.addEffect(t, st, rep)
		return
	case ReplyDefer, ReplyPostpone:
		if l.rule == nil || l.rule.Span < r.Span { // the longest wait counts
			l.rule = r
		}
	}
	if l.noted != r {
		l.noted = r
		dv.noteReplyRule(v, r)
	}
	dv.noteRule(t, st, rep)
}

// delayingRule returns the rule of a last report that makes a message wait: the one of
// the verbs defer and postpone that matches it first, or nil.
func (s *Scheduler) delayingRule(t *thread, last *diagnostic) *ReplyRule {
	st := s.ruleFor(t.key, ta.Notary(last.notary), last.text)
	if st == nil || !st.rule.Verb.delays() {
		return nil
	}
	return st.rule
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
func (dv *delivery) takeRuleStep(v *vertex, rule *ReplyRule) bool {
	if rule == nil || dv.wholeOrder(v) != 0 || !dv.countAttempts(v) {
		return false
	}
	until := dv.now.after(max(rule.Span, shortestRetry))
	if rule.Verb == ReplyPostpone {
		for i := range v.len() {
			dv.recipient(v, i).flags |= mustAttempt
		}
		dv.postpone(v, until)
		return true
	}
	_, v.retry = retryStep(dv.threadOf(v).params, v.retry, dv.date.since(dv.messageOf(v).modifiedAt), dv.rand)
	v.inRetryStep = false
	if primary, _ := dv.expiry(v); primary > dv.date {
		until = min(until, dv.instantAt(primary))
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
	if x.noted == st.rule && x.notedAt.after(ruleNoteInterval) > dv.now {
		return
	}
	x.noted, x.notedAt = st.rule, dv.now
	dv.do(Note{Text: "reply rule " + st.rule.Place() + " (" + st.rule.Action + ") applies to " +
		t.key.channel + "/" + t.key.host + ": " + ReplyForms(rep.Notary, rep.Text)[0]})
}
