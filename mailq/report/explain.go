package report

// What mailq explain prints: why the mail for a destination waits, in a sentence, and what applies
// to it.

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"zsched/internal/units"
	"zsched/mailq"
	"zsched/scheduler/view"
)

// waits has a sentence for each value of Explanation.Wait, and the settings that it depends on. A
// limit without one is named as its setting.
var waits = map[view.Wait]struct{ sentence, settings string }{
	view.WaitTA:          {"As many agents run as may run", "maxta"},
	view.WaitChannel:     {"The channel has as many sessions, or agents, as it may have", "maxchannel maxta"},
	view.WaitRing:        {"The ring has as many sessions, or agents, as it may have", "maxring maxta"},
	view.WaitThread:      {"The thread has as many sessions as it may have", "maxthr wakeuprestartonly"},
	view.WaitWindow:      {"The thread has as many sessions as its window allows now", "initialconcurrency positivefeedback negativefeedback maxthr"},
	view.WaitProbe:       {"The destination has failed: one session tries it, and the other mail waits for the result", "initialconcurrency cohortlimit"},
	view.WaitMessage:     {"The message has as many sessions as it may have", "msgsessions msgscale"},
	view.WaitShare:       {"The mail that has its source has as many sessions as it may have", "sharescale share"},
	view.WaitFrozen:      {"The scheduler is frozen (option -F): no agent is started", ""},
	view.WaitForks:       {"It waits for an agent: as many were started in this second as option -R allows", ""},
	view.WaitCommand:     {"No clause that matches has a command", ""},
	view.WaitStart:       {"Agents of this clause could not be started, or died before they asked for work", ""},
	view.WaitHeld:        {"It is held: mailq release ends that", ""},
	view.WaitTrigger:     {"The thread waits to be asked for (ETRN or mailq retry)", "queueonly"},
	view.WaitSpool:       {"The spool cannot be written: nothing is fed until it can", ""},
	view.WaitSuspend:     {"The destination has failed, or an agent said when to try again, so the thread is suspended", "initialconcurrency cohortlimit interval retries backoff minbackoff maxbackoff"},
	view.WaitSelect:      {"The scheduler delivers only the mail of other threads (option -p)", ""},
	view.WaitStopping:    {"The scheduler is stopping", ""},
	view.WaitAgent:       {"It waits for an agent that is starting or will soon be free", ""},
	view.WaitRule:        {"A reply rule has suspended the thread", ""},
	view.WaitRate:        {"The rate of the thread is used up", "rate rateburst"},
	view.WaitSite:        {"The site of the thread (its MX host) has as many sessions as it may have", "sitemax"},
	view.WaitSiteRate:    {"The rate of the site (the MX host) is used up", "siterate rateburst"},
	view.WaitChannelRate: {"The rate of the channel is used up", "channelrate rateburst"},
	view.WaitClusterMax:  {"This node uses its part of the thread's limit in the cluster", "clustermax"},
	view.WaitClusterSite: {"This node uses its part of the site's limit in the cluster", "clustersitemax"},
	view.WaitClusterRate: {"This node uses its part of the thread's rate in the cluster", "clusterrate"},
	view.WaitRetry:       {"All mail waits for its retry", "interval retries backoff minbackoff maxbackoff jitter"},
}

// Explanation returns the lines about a destination: what its mail waits for or does, then
// limits, clauses and parameters.
func Explanation(e *mailq.Explanation, now time.Time) []string {
	text := []string{e.Channel + "/" + e.Host + ": " + sentence(e) + "."}
	if !e.Until.IsZero() {
		text = append(text, "until: "+untilText(e.Until, now))
	}
	if e.Hold != nil {
		text = append(text, "held:"+mailq.HoldText(e.Hold, now))
	}
	if e.Thread != nil {
		text = append(text, threadText(e.Thread, now)...)
	}
	return append(text, settingsText(e)...)
}

// heldOneByOne is about messages that are held, in a thread that is not.
const heldOneByOne = "Mail of it is held, or will be as soon as no agent is working on any part of the message: mailq release ends that"

// sentence says why mail waits, or what happens to it.
func sentence(e *mailq.Explanation) string {
	t := e.Thread
	has := func(setting string) bool {
		return slices.ContainsFunc(e.Settings, func(s view.Setting) bool { return s.Name == setting })
	}
	switch {
	case t == nil && e.Hold != nil:
		return "There is no mail for it, and mail that arrives is held"
	case t == nil && !has("command"):
		return "There is no mail for it, and none would be delivered: no clause that matches has a command"
	case t == nil:
		return "There is no mail for it"
	case e.Wait != "" && t.StartError != "" && slices.Contains([]view.Wait{view.WaitStart, view.WaitCommand, view.WaitAgent}, e.Wait):
		return "No agent starts: " + t.StartError
	case e.Wait == view.WaitHeld && !t.Held:
		return heldOneByOne
	case e.Wait != "":
		if w, ok := waits[e.Wait]; ok {
			return w.sentence + followed(e, w.settings)
		}
		return "As much is busy as it may have" + followed(e, string(e.Wait))
	}
	s := t.States
	for _, state := range []struct{ name, sentence string }{
		{view.Fed, "It is being delivered"},
		{view.Reading, "Control files are being read again after an agent exited or found nothing to do"},
		{view.Held, heldOneByOne},
		{view.Blocked, "Outcomes are being written, or alternatives wait for their turn"},
	} {
		if s[state.name] > 0 {
			return state.sentence
		}
	}
	return "The thread is empty"
}

// followed names those of the settings that a wait depends on which a clause sets.
func followed(e *mailq.Explanation, settings string) string {
	names, values := strings.Fields(settings), []string(nil)
	for _, s := range e.Settings {
		if slices.Contains(names, s.Name) {
			values = append(values, strings.TrimRight(s.Name+"="+s.Value, "="))
		}
	}
	if values == nil {
		return ""
	}
	return " (" + strings.Join(values, ", ") + ")"
}

// untilText says when something ends by itself.
func untilText(at, now time.Time) string {
	if !at.After(now) {
		return "it is due now"
	}
	return fmt.Sprintf("%s, in %s", at.Format(time.RFC3339), mailq.FormatAge(at, now))
}

// threadText says what is known about the mail of a thread.
func threadText(t *mailq.Thread, now time.Time) []string {
	mail := fmt.Sprintf("thread: %s, %s, %s", units.Plural(t.JobLines, "job line", "job lines"), units.Plural(t.Recipients, "recipient", "recipients"),
		units.Plural(t.Attempts, "attempt", "attempts"))
	if !t.OldestAt.IsZero() {
		mail += ", oldest " + mailq.FormatAge(now, t.OldestAt)
	}
	text := []string{mail, "window: " + mailq.WindowText(t)}
	if state := mailq.StateText(t, now); state != "" {
		text = append(text, "state: "+state)
	}
	if t.Site != "" {
		text = append(text, "site: "+t.Site)
	}
	for i := range t.Effects {
		text = append(text, "shaping: "+mailq.EffectText(&t.Effects[i], now))
	}
	if len(t.States) > 0 {
		text = append(text, "job lines: "+states(t.States))
	}
	return appendDiagnostic(text, "last diagnostic: ", t.Reason)
}

// settingsText lists limits, clauses and parameters.
func settingsText(e *mailq.Explanation) (text []string) {
	for _, l := range e.Limits {
		line := fmt.Sprintf("limit: %s, %d used", l.Name, l.Used)
		if l.Most > 0 {
			line += fmt.Sprintf(" of %d", l.Most)
		}
		if l.Share != "" {
			line += " by " + l.Share
		}
		if l.Agents > l.Used {
			line += ", " + units.Plural(l.Agents, "agent", "agents")
		}
		if l.Blocks {
			line += ", blocks"
		}
		text = append(text, line)
	}
	if len(e.Clauses) == 0 {
		text = append(text, "clause: none matches")
	}
	for _, c := range e.Clauses {
		text = append(text, fmt.Sprintf("clause: %s\t%s:%d", c.Pattern, c.File, c.Line))
	}
	for _, s := range e.Settings {
		text = append(text, fmt.Sprintf("setting: %s=%s\t%s:%d", s.Name, s.Value, s.File, s.Line))
	}
	return text
}
