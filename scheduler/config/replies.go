package config

// Reply rules: the lines "reply" of scheduler.cf and of the file of PARAMreplies.

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"time"

	"zsched/scheduler/rule"
)

// maxReplies bounds the reply rules.
const maxReplies = 1000

// reply reads one rule and adds it to the list.
func (r *reader) reply(list *[]rule.ReplyRule, s *section) {
	parsed, err := parseReply(s.Reply)
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
	parsed.File, parsed.Line = r.at.File, r.at.Line
	*list = append(*list, parsed)
}

var errReply = errors.New(`a rule is: reply channel/host "EXPRESSION" ACTION`)

// parseReply reads a line such as
//
//	reply smtp/*.example "^4\.7\.\d+ 421 " suspend 15m
//
// A quote after a backslash does not end the expression; both characters belong to it.
func parseReply(line string) (parsed rule.ReplyRule, err error) {
	rest := strings.TrimSpace(strings.TrimPrefix(line, "reply"))
	pattern := rest[:max(0, strings.IndexAny(rest, " \t"))]
	rest = strings.TrimSpace(rest[len(pattern):])
	var found bool
	if parsed.Channel, parsed.Host, found = strings.Cut(pattern, "/"); !found || parsed.Host == "" {
		parsed.Host = "*"
	}
	if !strings.HasPrefix(rest, `"`) {
		return parsed, errReply
	}
	end := 1
	for end < len(rest) && rest[end] != '"' {
		if rest[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(rest) {
		return parsed, errors.New("the quote of the expression is not closed")
	}
	parsed.Expression = rest[1:end]
	compiled, err := regexp.Compile(parsed.Expression)
	if err != nil {
		var wrong *syntax.Error
		if errors.As(err, &wrong) {
			return parsed, fmt.Errorf("expression: %s: %q", wrong.Code, wrong.Expr)
		}
		return parsed, fmt.Errorf("expression: %w", err)
	}
	parsed.Match = compiled.MatchString
	action, _, _ := strings.Cut(rest[end+1:], "#")
	words := strings.Fields(action)
	parsed.Action = strings.Join(words, " ")
	return parsed, parseAction(&parsed, words)
}

// actions are what a rule may do, with the number of words after the name.
var actions = map[string]struct {
	verb  rule.ReplyVerb
	words int
	form  string
}{
	"suspend": {rule.ReplySuspend, 1, "suspend TIME"},
	"rate":    {rule.ReplyRate, 2, "rate N/TIME TIME"},
	"defer":   {rule.ReplyDefer, 1, "defer TIME"},
	"fail":    {rule.ReplyFail, 0, "fail"},
}

func parseAction(parsed *rule.ReplyRule, words []string) (err error) {
	if len(words) == 0 {
		return errReply
	}
	known, found := actions[words[0]]
	if !found {
		return fmt.Errorf("%q is not an action%s; the actions are suspend, rate, defer and fail", words[0], insteadOf(words[0]))
	}
	if len(words) != 1+known.words {
		return fmt.Errorf("the action %s is written %q", words[0], known.form)
	}
	parsed.Verb = known.verb
	switch parsed.Verb {
	case rule.ReplyRate:
		if parsed.Rate, err = parseRate(words[1]); err != nil {
			return err
		}
	case rule.ReplyFail:
		return nil
	}
	span := words[len(words)-1]
	if parsed.Span, err = parseSpan(span, time.Second, year); err != nil {
		return fmt.Errorf("%q: the time: %w", span, err)
	}
	return nil
}

// Replies is a file of reply rules. "#" begins a comment line.
type Replies struct {
	File  string // its path
	Rules []rule.ReplyRule
}

// repliesFile is the path of a file of reply rules.
var repliesFile = kindOf("path", readReplies)

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
func (f *File) TryReply(reply string) (rules []*rule.ReplyRule) {
	forms := rule.FormsOfReply(reply)
	for i := range f.Scheduler.Replies {
		if one := &f.Scheduler.Replies[i]; one.Matches(forms) {
			rules = append(rules, one)
		}
	}
	return rules
}
