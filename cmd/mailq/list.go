package main

// The lists of messages: ZMailer's, and mailq list.

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"zsched/internal/text"
	"zsched/mailq"
	"zsched/mailq/client"
)

// threadFilter is what -c and -h say: the channel and the host of the threads that are
// shown, regardless of case. "" matches every channel or host.
type threadFilter struct {
	channel, host string
}

func (f threadFilter) matches(name mailq.Name) bool {
	return (f.channel == "" || strings.EqualFold(f.channel, name.Channel)) &&
		(f.host == "" || strings.EqualFold(f.host, name.Host))
}

// matchesLine reports whether a line of SHOW QUEUE THREADS is about a thread that
// matches. Lines about rings and totals match if every thread does.
func (f threadFilter) matchesLine(line string) bool {
	if f == (threadFilter{}) {
		return true
	}
	name, isThread := strings.CutPrefix(line, "    ")
	channel, rest, _ := strings.Cut(name, "/")
	// The host is followed by /0 or /2, and then by the numbers.
	host, _, _ := strings.Cut(rest, "\t")
	host, _, _ = strings.Cut(host, " N=")
	return isThread && f.matches(mailq.Name{Channel: channel, Host: host[:max(0, strings.LastIndexByte(host, '/'))]})
}

// list prints the mail that is selected, thread by thread, and its total. where is nil for
// ZMailer's list, which is that of -c and -h, or of all mail.
func (p *program) list(where *mailq.Selection) error {
	if where != nil {
		return p.listSelected(where)
	}
	threads, err := p.threads()
	if client.KindOf(err) == client.Refused { // ZMailer's server has no JSON
		return p.listText()
	}
	if err != nil {
		return err
	}
	name := mailq.Name{Channel: strings.ToLower(p.thread.channel), Host: strings.ToLower(p.thread.host)}
	where = &mailq.Selection{Channel: cmp.Or(name.Channel, "*")}
	if name.Host != "" {
		where = &mailq.Selection{Threads: []mailq.Name{name}}
	}
	var total []string
	if p.thread == (threadFilter{}) && p.owner == nil && !p.json {
		if total, err = p.total(threads); err != nil {
			return err
		}
	}
	counted, err := p.printJobs(where, threads)
	switch {
	case err != nil || p.json || p.owner != nil || name.Host != "":
		return err
	case p.thread != (threadFilter{}) && counted.recipients > 0:
		total = []string{counted.text()}
	}
	if p.limit > 0 && len(total) > 0 {
		total[0] += fmt.Sprintf(" (%d shown)", min(p.limit, counted.shown))
	}
	printer := p.printer()
	for i := 0; i < len(total) && err == nil; i++ {
		err = printer.Line(total[i])
	}
	return err
}

// listText prints the list of a server without JSON.
func (p *program) listText() error {
	names := []mailq.Name{{Channel: strings.ToLower(p.thread.channel), Host: strings.ToLower(p.thread.host)}}
	if p.thread.host == "" {
		names = nil
		for name, err := range p.client.TextThreads() {
			if err != nil {
				return err
			}
			if p.thread.matches(name) {
				names = append(names, name)
			}
		}
	}
	printer := p.printer()
	printer.ZMailer = true
	if err := p.client.TextJobs(names, printer.Job); err != nil {
		return err
	}
	return printer.Finish(2)
}

// runList lists the mail that the arguments select, or all.
func (p *program) runList(args []string) error {
	targets, err := parseTargets(args)
	if err != nil {
		return usageError(err.Error())
	}
	where, err := targets.selection()
	if err != nil {
		return usageError(err.Error())
	}
	return p.ask(func() error { return p.list(where) })
}

// listSelected prints the mail that is selected, and its total. If
// nothing is selected, the error is errSilent.
func (p *program) listSelected(where *mailq.Selection) error {
	threads, err := p.threads()
	if err != nil {
		return err
	}
	counted, err := p.printJobs(where, threads)
	switch {
	case err != nil || p.json && counted.shown > 0:
		return err
	case counted.shown == 0:
		return errSilent
	}
	total := counted.text()
	if p.limit > 0 {
		total += fmt.Sprintf(" (%d shown)", counted.shown)
	}
	return p.printer().Line(total)
}

// counted is how much mail was listed, beyond --limit too.
type counted struct {
	shown      int // jobs
	recipients int
	messages   map[string]bool // by spoolid
	threads    map[mailq.Name]bool
}

// text is the line of the total.
func (c *counted) text() string { return totalText(len(c.messages), c.recipients, len(c.threads)) }

// threads returns all threads, for the headings of the list; none for --json.
func (p *program) threads() (map[mailq.Name]*mailq.Thread, error) {
	threads := make(map[mailq.Name]*mailq.Thread)
	if p.json {
		return threads, nil
	}
	for t, err := range p.client.Threads() {
		if err != nil {
			return nil, err
		}
		threads[t.Name] = &t.Thread
	}
	return threads, nil
}

// printJobs prints the jobs that are selected, as many as --limit allows.
func (p *program) printJobs(where *mailq.Selection, threads map[mailq.Name]*mailq.Thread) (c counted, err error) {
	command := "JSON SHOW WHERE " + where.String()
	if p.json {
		c.shown, err = p.printJSON(p.client.Show(command))
		return c, err
	}
	c.messages, c.threads = make(map[string]bool), make(map[mailq.Name]bool)
	printer := p.printer()
	printer.Threads = threads
	for job, err := range client.Objects[mailq.Job](p.client.Show(command)) {
		if err != nil {
			return c, err
		}
		c.recipients += len(job.Recipients)
		c.messages[job.SpoolID], c.threads[job.Name] = true, true
		if p.limit > 0 && c.shown == p.limit {
			continue
		}
		c.shown++
		if err := printer.Job(job); err != nil {
			return c, err
		}
	}
	return c, printer.Finish(2)
}

func totalText(messages, recipients, threads int) string {
	return fmt.Sprintf("Total: %s, %s, %s", mailq.Plural(messages, "message", "messages"),
		mailq.Plural(recipients, "recipient", "recipients"), mailq.Plural(threads, "thread", "threads"))
}

// total returns the lines below the list of all mail: the total, and what is kept back. There is
// none if there is nothing to count. It is called before the list is printed, because
// printing may be interrupted. That the scheduler cannot write its files it prints itself,
// above the list.
func (p *program) total(threads map[mailq.Name]*mailq.Thread) (lines []string, err error) {
	t, err := p.client.Totals()
	if err != nil || t == nil {
		return nil, err
	}
	if trouble := t.SpoolText(time.Now()); trouble != "" { // it comes first
		t.Spool = mailq.Spool{}
		if _, err := fmt.Fprintln(p.out, text.Escape(trouble)); err != nil {
			return nil, err
		}
	}
	notes, withMail := t.Notes(time.Now()), 0
	for _, t := range threads {
		if t.Jobs > 0 {
			withMail++
		}
	}
	if withMail == 0 && t.Messages == 0 && len(notes) == 0 {
		return nil, nil
	}
	return slices.Concat([]string{totalText(t.Messages, t.Recipients, withMail)}, notes), nil
}
