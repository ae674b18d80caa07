// This file tests reply rules (scheduler.cf(5)) with what this agent reports.

package smtp

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"zsched/ctlfile"
	"zsched/internal/zenv"
	"zsched/scheduler"
	"zsched/scheduler/config"
	"zsched/ta"
	"zsched/ta/smtp/smtptest"
)

// The rules of replies.example, and rules in the forms that scheduler.cf(5) describes,
// apply to what this agent reports of a server's reply, and --try-reply says the same.
// NUL begins another line of the reply.
func TestReplyRulesMatchReportsOfThisAgent(t *testing.T) {
	const example = "PARAMreplies=../../replies.example\n"
	const gmail = "421 4.7.28 Gmail has detected an unusual rate of mail\x00421 4.7.28 from your IP address. See\x00421 4.7.28 the guidelines. x1si2.1 - gsmtp"
	const yahoo = "421 4.7.0 [TSS04] Messages from 192.0.2.1 temporarily deferred due to unexpected volume or user complaints - 4.16.55.1"
	for _, c := range []struct{ rules, reply, expression string }{
		{example, gmail, `4\.7\.28 .*gsmtp`},
		{example, "421 4.7.0 This message has an unusual rate\x00421 4.7.0 of unsolicited mail. - gsmtp", `421[- ]4\.7\.0 .*unusual rate.*gsmtp`},
		{example, "450 4.2.1 The user you are trying to contact is receiving mail at a rate that\x00450 4.2.1 prevents it. - gsmtp", `450[- ]4\.2\.1 .*receiving (e?mail) (too quickly|at a rate)`},
		{example, "450 4.2.1 The user you are trying to contact is receiving\x00450 4.2.1 mail too quickly. - gsmtp", `450[- ]4\.2\.1 .*receiving (e?mail) (too quickly|at a rate)`},
		{example, "452 4.2.2 The recipient's inbox is out of storage space.\x00452 4.2.2 Please direct the recipient to the help. - gsmtp", `452[- ]4\.2\.2 .*gsmtp`},
		{example, yahoo, `4\.7\.0 \[TS[A-Z]*\d+\]`},
		{example, "421 RP-001 (SNT0-MC2-F19) Unfortunately, some messages from 192.0.2.1 weren't sent.", `421 RP-00[123]`},
		{example, "550 5.7.1 Unfortunately, messages from [192.0.2.1] weren't sent. Part of their network is on our block list (S3150).", `550 .*block list \(A?S31[45]0\)`},
		{example, "451 4.7.650 The mail server [192.0.2.1] has been temporarily rate limited due to IP reputation. (S775)", `451[- ]4\.7\.65\d .*temporarily rate limited`},
		{example, "451 4.7.500 Server busy. Please try again later from 192.0.2.1.", `451[- ]4\.7\.[56]\d\d .*[Ss]erver busy`},
		{example, "450 4.7.1 greylisted", ""},
		// Several lines in one, as mailq shows them.
		{`reply smtp "^421 4\.7\.28 Gmail .* mail from your .* See the .*gsmtp$" suspend 1h` + "\n", gmail, ""},
		// The status code before the reply, and before the diagnostic of this agent.
		{`reply smtp "^4\.7\.0 421 4\.7\.0 \[TSS04\]" suspend 1h` + "\n", yahoo, ""},
		{`reply smtp "^4\.7\.0 421 \(\[TSS04\] .*\)$" suspend 1h` + "\n", yahoo, ""},
		// A command of ours is no part of a reply.
		{`reply smtp "^4.*bob@a" suspend 1h` + "\n" + `reply smtp "later$" defer 1h` + "\n", "450 later", `later$`},
	} {
		file, err := config.Load(write(t, "scheduler.cf", c.rules+"smtp command=x\n"), &zenv.File{})
		if err != nil {
			t.Fatal(err)
		}
		want := c.expression
		if want == "" && c.rules != example {
			want = file.Scheduler.Replies[0].Expression
		}
		for _, on := range []string{"RCPT", "dot"} {
			got := expressionApplied(t, file, reportOf(t, on+" -> "+c.reply))
			if got != want {
				t.Errorf("%s -> %q: the rule %q applies, want %q", on, c.reply, got, want)
			}
		}
		tried := ""
		lines := strings.Split(c.reply, "\x00")
		for i, line := range lines[:len(lines)-1] {
			lines[i] = line[:3] + "-" + line[4:]
		}
		if try := file.TryReply(strings.Join(lines, "\n")); len(try) > 0 {
			tried = try[0].Expression
		}
		if tried != want {
			t.Errorf("%q: the rule tried is %q, want %q", c.reply, tried, want)
		}
	}
}

// reportOf returns the report of a recipient for whom a server follows a rule.
func reportOf(t *testing.T, rule string) ta.Report {
	p := start(t, smtptest.Options{Rules: script(rule)})
	o := newTestSpool(t)
	o.message(1, to("bob@a.example"), header, "text\n")
	said := o.once(options(p))
	line := ta.ParseLine([]byte(strings.TrimSuffix(said, "\n")))
	if line.Report.Message != 1 {
		t.Fatalf("not one report: %q", said)
	}
	return line.Report
}

// expressionApplied returns the expression of the rule that the scheduler applies to a
// report; "": none.
func expressionApplied(t *testing.T, file *config.File, rep ta.Report) (expression string) {
	s := scheduler.New(file.Scheduler, rand.New(rand.NewPCG(1, 2)))
	now := time.Unix(1_800_000_000, 0)
	s.Step(scheduler.At(now), scheduler.Arrived{Message: scheduler.Message{ID: 1, Path: "1", ModifiedAt: now,
		Recipients: []ctlfile.OpenRecipient{{Offset: rep.Offset, Channel: "smtp", Host: "a.example"}}}})
	s.Step(scheduler.At(now), scheduler.AgentSaid{Agent: 1, Word: scheduler.Hungry})
	s.Step(scheduler.At(now), scheduler.AgentReported{Agent: 1, Report: rep})
	for _, r := range s.Rules() {
		if r.Hits > 0 {
			expression += r.Expression
		}
	}
	return expression
}
