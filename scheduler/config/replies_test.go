package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zsched/scheduler/limit"
	"zsched/scheduler/rule"
)

func TestReplyRules(t *testing.T) {
	file := mustParse(t, "smtp\n\tcommand=x\n"+`reply smtp/*.example "say \"no\" # 4\.7=0" suspend 10m # a comment
	maxthr=3
reply smtp/x "c" rate 100/1m 2h
reply * "d" defer 90s
reply smtp	"e" fail
`)
	want := []rule.ReplyRule{
		{Channel: "smtp", Host: "*.example", Verb: rule.ReplySuspend, Span: 10 * time.Minute, Action: "suspend 10m"},
		{Channel: "smtp", Host: "x", Verb: rule.ReplyRate, Rate: limit.Rate{Recipients: 100, Span: time.Minute}, Span: 2 * time.Hour, Action: "rate 100/1m 2h"},
		{Channel: "*", Host: "*", Verb: rule.ReplyDefer, Span: 90 * time.Second, Action: "defer 90s"},
		{Channel: "smtp", Host: "*", Verb: rule.ReplyFail, Action: "fail"},
	}
	rules := file.Scheduler.Replies
	if len(rules) != len(want) {
		t.Fatalf("%d rules: %+v", len(rules), rules)
	}
	for i, r := range rules {
		w := want[i]
		if r.Channel != w.Channel || r.Host != w.Host || r.Verb != w.Verb || r.Span != w.Span || r.Rate != w.Rate || r.Action != w.Action {
			t.Errorf("rule %d is %+v, want %+v", i, r, w)
		}
	}
	if !rules[0].Match(`4.7.1 say "no" # 4.7=0 or`) || rules[0].Match("say no") {
		t.Error("the expression of the first rule")
	}
	if rules[0].Place() != "f:3" || file.Effective(0).MaxThr != 3 {
		t.Errorf("the first rule is at %s, maxthr is %d", rules[0].Place(), file.Effective(0).MaxThr)
	}
}

func TestReplyRulesWithMistakes(t *testing.T) {
	for reply, want := range map[string]string{
		`reply smtp suspend 1m`:           "a rule is",
		`reply smtp "x`:                   "not closed",
		`reply smtp "x\"`:                 "not closed",
		`reply smtp "x" `:                 "a rule is",
		`reply smtp "(x" fail`:            "missing closing",
		`reply smtp "x" stop 1m`:          "is not an action",
		`reply smtp "x" suspend`:          `is written "suspend TIME"`,
		`reply smtp "x" fail 1m`:          `is written "fail"`,
		`reply smtp "x" suspend 0`:        "must be from 1s",
		`reply smtp "x" suspend 366d`:     "must be from 1s",
		`reply smtp "x" slow 4 1h`:        "is not an action, which is gone: rate sets the rate",
		`reply smtp "x" rate 10 1h`:       "the time",
		`reply smtp "x" defer soon`:       "the time",
		"reply smtp \"x\" defer 1h extra": "is written",
		"reply smtp \"x\" postpone 1h":    "is not an action",
		"smtp command=x\nreply a b c \"d": "a rule is",
	} {
		wantError(t, reply+"\nsmtp command=x\n", want)
	}
}

// A channel may be called reply.
func TestClauseForChannelReply(t *testing.T) {
	file := mustParse(t, "reply command=x\nreply\n\tcommand=y\nreply/*\n\tcommand=\"z \\\nreply smtp \"")
	if n := len(file.Scheduler.Clauses); n != 3 || len(file.Scheduler.Replies) != 0 {
		t.Errorf("%d clauses, rules %+v", n, file.Scheduler.Replies)
	}
}

func TestRulesOfTheFileComeAfterThoseOfTheConfiguration(t *testing.T) {
	name := filepath.Join(t.TempDir(), "replies")
	if err := os.WriteFile(name, []byte("# sample\n\nreply smtp \"b\" fail\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	file := mustParse(t, "PARAMreplies="+name+"\nsmtp command=x\nreply smtp \"a\" fail\n")
	if r := file.Scheduler.Replies; len(r) != 2 || r[0].Expression != "a" || r[1].Place() != name+":3" {
		t.Errorf("rules %+v", r)
	}
	if err := os.WriteFile(name, []byte("smtp \"b\" fail\nreply smtp \"b\" now\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := Parse("f", []byte("PARAMreplies="+name+"\nsmtp command=x"), debian(0))
	if err == nil || !strings.Contains(err.Error(), name+":1:1: a rule is") || !strings.Contains(err.Error(), name+":2:1: reply: ") {
		t.Errorf("got %v", err)
	}
}

func TestTriedReplies(t *testing.T) {
	file := mustParse(t, "smtp command=x\nreply a/b \"^4\\.7\\.0 421 \" fail\nreply smtp \"full\" fail\n")
	for reply, want := range map[string][]int{
		"421 4.7.0 full":       {2, 3},
		"421-4.7.0 busy":       {2},
		"552 mailbox full":     {3},
		"4.7.0 421 no more":    {2},
		"the server is asleep": nil,
	} {
		var lines []int
		for _, r := range file.TryReply(reply) {
			lines = append(lines, r.Line)
		}
		if !slices.Equal(lines, want) {
			t.Errorf("%q: rules %v", reply, lines)
		}
	}
}
