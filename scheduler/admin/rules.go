package admin

// SHOW RULES: the reply rules. EXPLAIN: the rules that keep mail waiting, each in a sentence with the numbers
// and the settings that it follows.

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"zsched/mailq"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
	"zsched/scheduler/rule"
)

// Rules yields the reply rules in their order.
func (q *Queue) Rules(ctx context.Context) iter.Seq2[*mailq.RuleItem, error] {
	return func(yield func(*mailq.RuleItem, error) bool) {
		var items []*mailq.RuleItem
		err := q.port.Ask(ctx, func(l *daemon.Loop) {
			for _, r := range l.Core().Rules() {
				items = append(items, &mailq.RuleItem{
					File: r.File, Line: r.Line, Pattern: r.Channel + "/" + r.Host, Expression: r.Expression, Action: r.Action,
					Hits: r.Hits, LastAt: r.LastAt, Threads: r.Effects,
				})
			}
		})
		yieldAll(yield, items, err)
	}
}

// rulesOf returns the rules that keep the next job of a thread from being fed.
func rulesOf(x *scheduler.Explanation, settings []mailq.Setting) (rules []mailq.Rule) {
	for _, wait := range x.Rules {
		rules = append(rules, ruleOf(wait, x, settings))
	}
	return rules
}

func ruleOf(wait scheduler.Wait, x *scheduler.Explanation, settings []mailq.Setting) mailq.Rule {
	text, names := sentence(wait, x)
	out := mailq.Rule{Rule: string(wait)}
	var values []string
	for _, name := range names {
		i := slices.IndexFunc(settings, func(s mailq.Setting) bool { return s.Name == name })
		if i < 0 {
			continue
		}
		out.Settings = append(out.Settings, settings[i])
		if value := settings[i].Value; value != "" {
			name += "=" + value
		}
		values = append(values, name)
	}
	if values != nil {
		text += " (" + strings.Join(values, ", ") + ")"
	}
	out.Text = text + "."
	return out
}

// sentence says what a rule does, without the full stop, and names the settings
// that it follows.
func sentence(wait scheduler.Wait, x *scheduler.Explanation) (text string, settings []string) {
	switch wait {
	case scheduler.WaitTA, scheduler.WaitChannel, scheduler.WaitRing, scheduler.WaitThread, scheduler.WaitWindow, scheduler.WaitMessage:
		return sessionSentence(wait, x)
	case scheduler.WaitShare, scheduler.WaitQuantum, scheduler.WaitJobs:
		return turnSentence(wait, x)
	case scheduler.WaitOrder, scheduler.WaitRule:
		return suspensionSentence(wait, x), nil
	case scheduler.WaitSite:
		text := "The site of the thread (its MX host) has as many sessions as it may have"
		if t := x.Thread; t != nil && t.Site != "" {
			text = "The site of the thread, " + t.Site + ", has as many sessions as it may have"
		}
		return text, []string{"sitemax"}
	case scheduler.WaitRate, scheduler.WaitChannelRate, scheduler.WaitSiteRate:
		return rateSentence(wait, x), []string{string(wait), "rateburst"}
	case scheduler.WaitClusterMax, scheduler.WaitClusterSite:
		whose := map[scheduler.Wait]string{scheduler.WaitClusterMax: "thread's limit", scheduler.WaitClusterSite: "limit of the site (the MX host)"}[wait]
		for _, l := range x.Limits {
			if l.Name == string(wait) {
				return fmt.Sprintf("It waits for a session: of the %s in the cluster, this node may now have %s, and %s", whose, sessions(l.Most), busy(l.Used)),
					[]string{string(wait)}
			}
		}
		return "It waits for a session under the " + whose + " in the cluster", []string{string(wait)}
	case scheduler.WaitClusterRate:
		return "This node has no token of the thread's rate in the cluster", []string{"clusterrate"}
	case scheduler.WaitProbe:
		return "The destination has failed: one session tries it, and the other mail waits for the result", deathSettings(x.Params)
	case scheduler.WaitSuspend:
		return deathSentence(x)
	case scheduler.WaitRetry:
		return "Every job waits for its retry" + delaySentences(x), backoffSettings(x.Params)
	case scheduler.WaitTrigger:
		return "The thread waits to be asked for (ETRN or mailq retry)", []string{"queueonly"}
	}
	text = because[wait]
	if wait == scheduler.WaitHeld && x.Hold == nil {
		text = "All of its mail is held: mailq release ends that"
	}
	if t := x.Thread; t != nil && t.StartError != "" {
		switch wait {
		case scheduler.WaitStart, scheduler.WaitCommand:
			text = asSentence(mailq.StartReason(t.StartError))
		case scheduler.WaitAgent:
			text += "; the last try: " + t.StartError
		}
	}
	return text, nil
}

// delaySentences says which jobs wait because of reply rules, after a semicolon.
func delaySentences(x *scheduler.Explanation) (text string) {
	for _, d := range x.Delays {
		text += fmt.Sprintf("; %s because of the reply rule of %s (%s), until %s",
			mailq.Plural(d.Vertices, "job waits", "jobs wait"), d.Rule.Place(), d.Rule.Action, d.Until.Format(time.RFC3339))
		if d.Vertices > 1 {
			text += " at the latest"
		}
	}
	return text
}

// suspensionSentence explains a suspension by SUSPEND or by a reply rule.
func suspensionSentence(wait scheduler.Wait, x *scheduler.Explanation) string {
	t := x.Thread
	if wait == scheduler.WaitOrder {
		if t == nil || t.Order == nil {
			return "The thread is suspended by an order"
		}
		effect := mailq.Effect{Until: t.Order.Until, By: t.Order.By, Why: t.Order.Why}
		return "The thread is " + effect.Sentence()
	}
	if t != nil {
		var longest scheduler.EffectView
		for _, e := range t.Effects {
			if e.Rule.Verb == rule.ReplySuspend && e.Until.After(longest.Until) {
				longest = e
			}
		}
		if longest.Rule != nil {
			return "The reply rule of " + longest.Rule.Place() + " (" + longest.Rule.Action + ") has suspended the thread until " + longest.Until.Format(time.RFC3339)
		}
	}
	return "A reply rule has suspended the thread"
}

// deathSentence explains a suspension because the destination has failed.
func deathSentence(x *scheduler.Explanation) (text string, settings []string) {
	t, told := x.Thread, x.Told
	switch {
	case t == nil:
		return "The destination has failed, so the thread is suspended for a while", nil
	case !t.Feedback.Dead:
		return "An agent said when to try again (retryat), so the thread is suspended until " + t.FailedUntil.Format(time.RFC3339), nil
	case told == nil:
		return "The destination has failed, so the thread is suspended until " + t.FailedUntil.Format(time.RFC3339),
			append(deathSettings(x.Params), backoffSettings(x.Params)...)
	}
	text = "Node " + told.Node + " has found that the destination fails"
	if told.Reason != "" {
		text += fmt.Sprintf(" (%q)", told.Reason)
	}
	return text + ", so the thread is suspended until " + t.FailedUntil.Format(time.RFC3339), nil
}

// rateSentence explains a wait for a rate.
func rateSentence(wait scheduler.Wait, x *scheduler.Explanation) string {
	whose := map[scheduler.Wait]string{
		scheduler.WaitRate: "thread", scheduler.WaitChannelRate: "channel", scheduler.WaitSiteRate: "site",
	}[wait]
	text := "The rate of the " + whose + " is used up"
	if !x.GateUntil.IsZero() {
		text += "; it allows the next job line at " + x.GateUntil.Format("2006-01-02T15:04:05.000Z07:00")
	}
	return text
}

// because has the sentences about rules that depend on no setting of a clause.
var because = map[scheduler.Wait]string{
	scheduler.WaitFrozen:   "The scheduler is frozen (option -F): no agent is started",
	scheduler.WaitForks:    "It waits for an agent: as many were started in this second as option -R allows",
	scheduler.WaitCommand:  asSentence(mailq.StartReason(scheduler.NoCommand)),
	scheduler.WaitStart:    "Agents of this clause could not be started, or died before they asked for work",
	scheduler.WaitHeld:     "The thread is held: mailq release ends that",
	scheduler.WaitSpool:    "The spool cannot be written: nothing is fed until it can",
	scheduler.WaitSelect:   "The scheduler delivers only the mail of other threads (option -p)",
	scheduler.WaitStopping: "The scheduler is stopping",
	scheduler.WaitAgent:    "It waits for an agent that is starting or will soon be free",
}

// asSentence makes the first letter a capital.
func asSentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// sessionSentence is about the limits on sessions and processes.
func sessionSentence(wait scheduler.Wait, x *scheduler.Explanation) (text string, settings []string) {
	used, most, agents := 0, 0, 0
	for _, l := range x.Limits {
		if l.Name == string(wait) {
			used, most, agents = l.Used, l.Most, l.Agents
		}
	}
	inUse := busy(used)
	if agents > used {
		inUse += fmt.Sprintf(" in %s", mailq.Plural(agents, "agent", "agents"))
	}
	switch wait {
	case scheduler.WaitTA:
		return fmt.Sprintf("It waits for a process: %d agents are running, and %s", used, atMost(most, x.Params.MaxTA)), limitSettings(x.Params.MaxTA, "maxta", x.Params)
	case scheduler.WaitChannel:
		return fmt.Sprintf("It waits for a session: the channel may have %s and as many agents, and %s", sessions(most), inUse),
			limitSettings(x.Params.MaxChannel, "maxchannel", x.Params)
	case scheduler.WaitRing:
		return fmt.Sprintf("It waits for a session: the ring may have %s and as many agents, and %s", sessions(most), inUse),
			limitSettings(x.Params.MaxRing, "maxring", x.Params)
	case scheduler.WaitThread:
		if used < most {
			return "New mail starts no further agent while one is at work", []string{"wakeuprestartonly"}
		}
		return fmt.Sprintf("It waits for a session: the thread may have %s, and %s", sessions(most), busy(used)), []string{"maxthr"}
	case scheduler.WaitWindow:
		if slow := slowedBy(x.Thread); slow != nil {
			return fmt.Sprintf("It waits for a session: the reply rule of %s (%s) reduces the window of the thread to %s, and %s", slow.Place(), slow.Action, sessions(most), busy(used)),
				[]string{"maxthr"}
		}
		return fmt.Sprintf("It waits for a session: the window of the thread is %s, and %s", sessions(most), busy(used)),
			[]string{"initialconcurrency", "positivefeedback", "negativefeedback", "maxthr"}
	}
	text = "It waits for a session: its message has as many as it may have"
	if v := x.Vertex; v != nil && v.Position != nil && v.Position.Job.MaxSessions > 0 {
		text = fmt.Sprintf("It waits for a session: its message may have %s, and %s", sessions(v.Position.Job.MaxSessions), busy(v.Position.Job.Sessions))
	}
	return text, []string{"msgsessions", "msgscale"}
}

// slowedBy returns the reply rule that reduces the window of a thread most, or nil.
func slowedBy(t *scheduler.ThreadView) (slowest *rule.ReplyRule) {
	if t == nil {
		return nil
	}
	least := 1.0
	for _, e := range t.Effects {
		if e.Rule.Verb == rule.ReplySlow && e.Part < least {
			slowest, least = e.Rule, e.Part
		}
	}
	return slowest
}

func sessions(n int) string { return mailq.Plural(n, "session", "sessions") }

func busy(n int) string { return mailq.Plural(n, "is busy", "are busy") }

// atMost says how many agents may run.
func atMost(most, maxTA int) string {
	if maxTA == 0 {
		return fmt.Sprintf("the scheduler's open files allow %d", most)
	}
	return fmt.Sprintf("at most %d may run", most)
}

// limitSettings names the setting that a limit comes from: maxta where it has no
// value of its own.
func limitSettings(value int, name string, p *rule.Params) []string {
	switch {
	case value > 0:
		return []string{name}
	case p.MaxTA > 0:
		return []string{name, "maxta"}
	}
	return nil
}

// shareName is the name of a share as text. Mail of the null sender, and all mail where shares do
// not take turns, has a share without a name.
func shareName(name string) string {
	if name == "" {
		return "<>"
	}
	return mailq.OneReply(name)
}

// turnSentence is about the mail that comes first when a session is free.
func turnSentence(wait scheduler.Wait, x *scheduler.Explanation) (text string, settings []string) {
	p := new(scheduler.PositionView)
	if x.Vertex != nil && x.Vertex.Position != nil {
		p = x.Vertex.Position
	}
	switch wait {
	case scheduler.WaitShare:
		return fmt.Sprintf("When a session is free, it is the turn of %s; %s before %s",
			shareName(p.Turn), countOf(p.SharesBefore, false, "share comes", "shares come"), shareName(p.Share)), []string{"share"}
	case scheduler.WaitQuantum:
		return fmt.Sprintf("The thread has used its quantum in this round: %s first",
			countOf(p.PicksBefore, p.More, "job line of another thread comes", "job lines of other threads come")), []string{"quantum"}
	}
	settings = []string{"slotcost", "slotdiscount", "slotloan", "minslots"}
	if x.Params.AgeOrder {
		settings = []string{"ageorder"}
	}
	text = fmt.Sprintf("In the job list of its share, %s before it", countOf(p.JobsBefore, p.More, "message comes", "messages come"))
	if p.Job.OvertakenBy != 0 {
		text += fmt.Sprintf(", and message %d has overtaken it", p.Job.OvertakenBy)
	}
	return text, settings
}

func countOf(n int, more bool, one, many string) string {
	if more {
		return "over " + mailq.Plural(n, one, many)
	}
	return mailq.Plural(n, one, many)
}

// deathSettings are the settings that decide when a destination is dead.
func deathSettings(p *rule.Params) []string {
	if p != nil && p.InitialConcurrency > 0 {
		return []string{"initialconcurrency", "cohortlimit"}
	}
	return nil
}

// backoffSettings are the settings that give the length of a wait.
func backoffSettings(p *rule.Params) []string {
	if p != nil && p.Backoff == rule.BackoffAge {
		return []string{"backoff", "minbackoff", "maxbackoff", "jitter"}
	}
	return []string{"interval", "retries", "jitter"}
}
