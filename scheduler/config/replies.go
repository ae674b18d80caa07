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

	"zsched/scheduler"
	"zsched/scheduler/rule"
)

// Bounds of reply rules.
const (
	maxReplies = 1000 // rules
	maxFactor  = 1000 // of slow
)

// reply reads one rule and adds it to the list.
func (r *reader) reply(list *[]scheduler.ReplyRule, s *section) {
	rule, err := parseReply(s.Reply)
	switch {
	case err != nil:
	case r.at.Column > 1:
		err = errors.New("a rule begins in the first column")
	case len(*list) >= maxReplies:
		err = fmt.Errorf("there are more than %d rules", maxReplies)
	}
	if err != nil {
		r.fail("reply: %v", err)
		return
	}
	rule.File, rule.Line = r.at.File, r.at.Line
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
	if rule.Span, err = parseSpan(span, time.Second, year); err != nil {
		return fmt.Errorf("%q: the time: %w", span, err)
	}
	return nil
}

// Replies is a file of reply rules. "#" begins a comment line.
type Replies struct {
	File  string // its path
	Rules []scheduler.ReplyRule
}

// repliesFile is the path of a file of reply rules.
var repliesFile = kindOf("path", readReplies, func(f Replies) string { return quote(f.File) })

func readReplies(text string, r *reader) (Replies, error) {
	f := Replies{File: r.expand(text)}
	data, err := readFile(f.File)
	if err != nil {
		return f, err
	}
	before := r.at
	defer func() { r.at = before }()
	for _, s := range r.sections(f.File, data) {
		if r.at = (Place{f.File, s.Pos.Line, s.Pos.Column}); s.Reply == "" {
			r.fail("%v", errReply)
			continue
		}
		r.reply(&f.Rules, s)
	}
	return f, nil
}

// TryReply returns the rules whose expression matches a reply, such as "421 4.7.0 try
// later", in their order. For a thread, the first one that matches its channel and host
// applies.
func (f *File) TryReply(reply string) (rules []*scheduler.ReplyRule) {
	forms := rule.FormsOfReply(reply)
	for i := range f.Scheduler.Replies {
		if rule := &f.Scheduler.Replies[i]; rule.Matches(forms) {
			rules = append(rules, rule)
		}
	}
	return rules
}
