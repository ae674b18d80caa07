package rule

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"zsched/internal/pattern"
	"zsched/internal/text"
	"zsched/scheduler/limit"
	"zsched/ta"
)

// Reply rules: what they match, and what they say (reply, PARAMreplies).

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
	Rate   limit.Rate    // of ReplyRate
	File   string
	Line   int
}

// ReplyVerb is what a reply rule does.
type ReplyVerb uint8

const (
	// ReplySuspend suspends the thread for Span.
	ReplySuspend ReplyVerb = iota + 1
	// ReplyRate sets a rate for Span.
	ReplyRate
	// ReplyDefer makes the message wait for Span instead of until its usual retry.
	ReplyDefer
	// ReplyFail turns a deferral into a failure.
	ReplyFail
)

// Lasts reports whether the rule has an effect on the thread that lasts.
func (v ReplyVerb) Lasts() bool { return v == ReplySuspend || v == ReplyRate }

// Place is the file and the line of the rule.
func (r *ReplyRule) Place() string { return r.File + ":" + strconv.Itoa(r.Line) }

// Applies reports whether a rule is for a thread.
func (r *ReplyRule) Applies(channel, host string) bool {
	return pattern.Glob(r.Channel, channel) && pattern.Glob(r.Host, host)
}

// MaxDiagnostic is how many bytes of an agent's text are kept. A longer text loses
// its beginning, because the end of a transcript says what happened.
const MaxDiagnostic = 1000

// ReplyForms returns the texts that the expressions of rules are matched against: the
// last reply in the text of a report, in one line; the same after the status code and
// a blank; and the diagnostic of the notary fields after the status code and a blank.
// The diagnostics of the agent smtp have parentheses and no enhanced status code. The
// whole text stands for a diagnostic that is missing. If the text is empty, only the
// last form is there.
func ReplyForms(notary ta.Notary, s string) []string {
	// The last report of a recipient is kept with so much of its text.
	s = s[max(0, len(s)-MaxDiagnostic):]
	code, _, _ := strings.Cut(notary.Code(), " ")
	kind, diagnostic, found := strings.Cut(notary.Diagnostic(), ";")
	if !found || strings.Contains(kind, " ") { // without the type, such as "smtp;"
		diagnostic = notary.Diagnostic()
	}
	diagnostic = cmp.Or(strings.TrimSpace(diagnostic), s)
	diagnostic = diagnostic[max(0, len(diagnostic)-MaxDiagnostic):]
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
