package config

// Reply rules: the lines "reply" of scheduler.cf and of the file of PARAMreplies.

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"time"

	"zsched/internal/units"
	"zsched/scheduler"
)

// Bounds of reply rules.
const (
	maxReplies = 1000 // rules
	maxFactor  = 1000 // of slow
)

// takeReplies reads the reply rules of scheduler.cf and returns the text without
// them. Their lines become empty comments, so that the other lines keep their
// numbers.
func (r *reader) takeReplies(name, text string) string {
	lines := strings.SplitAfter(text, "\n")
	quoted := false // the line continues a quoted value
	for i, line := range lines {
		if !quoted && isReply(line) {
			r.reply(&r.file.Scheduler.Replies, Place{name, i + 1, 1}, line)
			lines[i] = "#\n"
		}
		content := strings.TrimRight(line, "\r\n")
		quoted = strings.HasSuffix(content, `\`) && (quoted || strings.Contains(content, `"`))
	}
	return strings.Join(lines, "")
}

// isReply reports whether a line is a reply rule, and not a clause for a channel
// named reply.
func isReply(line string) bool {
	fields := strings.Fields(line)
	return strings.HasPrefix(line, "reply") && len(fields) > 1 && fields[0] == "reply" &&
		!strings.HasPrefix(fields[1], "#") && !strings.Contains(fields[1], "=")
}

// reply reads one rule and adds it to the list.
func (r *reader) reply(list *[]scheduler.ReplyRule, at Place, line string) {
	rule, err := parseReply(line)
	if err == nil && len(*list) >= maxReplies {
		err = fmt.Errorf("there are more than %d reply rules", maxReplies)
	}
	if err != nil {
		r.errors = append(r.errors, Error{at, "reply: " + err.Error()})
		return
	}
	rule.File, rule.Line = at.File, at.Line
	*list = append(*list, rule)
}

var errReply = errors.New(`a rule is: reply channel/host "EXPRESSION" ACTION`)

// parseReply reads a line such as
//
//	reply smtp/*.example "^4\.7\.\d+ 421 " suspend 15m
//
// A quote after a backslash does not end the expression; both characters belong to it.
func parseReply(line string) (rule scheduler.ReplyRule, err error) {
	rest := strings.TrimSpace(strings.TrimPrefix(line, "reply"))
	pattern := rest[:max(0, strings.IndexAny(rest, " \t"))]
	rest = strings.TrimSpace(rest[len(pattern):])
	var found bool
	if rule.Channel, rule.Host, found = strings.Cut(pattern, "/"); !found || rule.Host == "" {
		rule.Host = "*"
	}
	if !strings.HasPrefix(rest, `"`) {
		return rule, errReply
	}
	end := 1
	for end < len(rest) && rest[end] != '"' {
		if rest[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(rest) {
		return rule, errors.New("the quote of the expression is not closed")
	}
	rule.Expression = rest[1:end]
	compiled, err := regexp.Compile(rule.Expression)
	if err != nil {
		var wrong *syntax.Error
		if errors.As(err, &wrong) {
			return rule, fmt.Errorf("expression: %s: %q", wrong.Code, wrong.Expr)
		}
		return rule, fmt.Errorf("expression: %w", err)
	}
	rule.Match = compiled.MatchString
	action, _, _ := strings.Cut(rest[end+1:], "#")
	words := strings.Fields(action)
	rule.Action = strings.Join(words, " ")
	return rule, parseAction(&rule, words)
}

// actions are what a rule may do, with the number of words after the name.
var actions = map[string]struct {
	verb  scheduler.ReplyVerb
	words int
	form  string
}{
	"suspend":  {scheduler.ReplySuspend, 1, "suspend TIME"},
	"slow":     {scheduler.ReplySlow, 2, "slow FACTOR TIME"},
	"rate":     {scheduler.ReplyRate, 2, "rate N/TIME TIME"},
	"defer":    {scheduler.ReplyDefer, 1, "defer TIME"},
	"fail":     {scheduler.ReplyFail, 0, "fail"},
	"postpone": {scheduler.ReplyPostpone, 1, "postpone TIME"},
}

func parseAction(rule *scheduler.ReplyRule, words []string) (err error) {
	if len(words) == 0 {
		return errReply
	}
	known, found := actions[words[0]]
	switch {
	case words[0] == "hold": // until 0.9
		return errors.New("the action hold is written \"postpone TIME\"; it holds nothing")
	case !found:
		return fmt.Errorf("%q is not an action; the actions are suspend, slow, rate, defer, fail and postpone", words[0])
	}
	if len(words) != 1+known.words {
		return fmt.Errorf("the action %s is written %q", words[0], known.form)
	}
	rule.Verb = known.verb
	switch rule.Verb {
	case scheduler.ReplySlow:
		rule.Factor, err = strconv.ParseFloat(words[1], 64)
		if err != nil || !(rule.Factor > 1 && rule.Factor <= maxFactor) {
			return fmt.Errorf("the factor of slow must be above 1 and at most %d", maxFactor)
		}
	case scheduler.ReplyRate:
		if rule.Rate, err = parseRate(words[1]); err != nil {
			return err
		}
	case scheduler.ReplyFail:
		return nil
	}
	span := words[len(words)-1]
	rule.Span, err = units.ParseInterval(span)
	if err == nil && (rule.Span < time.Second || rule.Span > year) {
		err = fmt.Errorf("must be from 1s to %s", units.FormatInterval(year))
	}
	if err != nil {
		return fmt.Errorf("%q: the time: %w", span, err)
	}
	return nil
}

// repliesFile is the path of a file of reply rules. "#" begins a comment line.
type repliesFile struct{}

func (repliesFile) String() string { return "path" }

func (repliesFile) read(value string, r *reader) (func(*Params), error) {
	file := r.expand(value)
	data, err := readFile(file)
	if err != nil {
		return nil, err
	}
	var rules []scheduler.ReplyRule
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case isReply(line):
			r.reply(&rules, Place{file, n, 1}, line)
		default:
			r.errors = append(r.errors, Error{Place{file, n, 1}, errReply.Error()})
		}
	}
	return func(p *Params) { p.RepliesFile, p.Replies = file, rules }, nil
}

func (repliesFile) show(p *Params) string {
	return text[Params]{field: func(p *Params) *string { return &p.RepliesFile }}.show(p)
}

// Try lists the rules that match a reply.
type Try struct {
	Text string // the reply in one line
	// Rules are those whose expression matches, in their order. For a thread, the
	// first one that matches its channel and host applies.
	Rules []*scheduler.ReplyRule
}

// TryReply finds the rules that match a reply, such as "421 4.7.0 try later".
func (f *File) TryReply(reply string) Try {
	forms := scheduler.FormsOfReply(reply)
	t := Try{Text: forms[0]}
	for i := range f.Scheduler.Replies {
		if rule := &f.Scheduler.Replies[i]; rule.Matches(forms) {
			t.Rules = append(t.Rules, rule)
		}
	}
	return t
}
