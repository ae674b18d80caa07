package main

// The lists of messages: ZMailer's, and mailq list.

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"zsched/internal/text"
	"zsched/internal/units"
	"zsched/mailq"
	"zsched/mailq/client"
)

// threadFilter is what -c and -h say: the channel and the host of the threads that are
// shown, regardless of case. "" matches every channel or host.
type threadFilter struct {
	channel, host string
}

// selection selects the mail of these threads.
func (f threadFilter) selection() *mailq.Selection {
	if f.host != "" {
		return &mailq.Selection{Threads: []mailq.Name{{Channel: strings.ToLower(f.channel), Host: strings.ToLower(f.host)}}}
	}
	return &mailq.Selection{Channel: cmp.Or(f.channel, "*")}
}

// list prints the mail that is selected, thread by thread, and its total. where is nil for
// ZMailer's list, which is that of -c and -h, or of all mail. If nothing is selected otherwise, the
// error is errSilent.
func (p *program) list(where *mailq.Selection) error {
	mayBeEmpty, all := where == nil, where == nil && p.thread == (threadFilter{}) && p.owner == nil && !p.json
	if where == nil {
		where = p.thread.selection()
	}
	threads, err := p.threads(where.Threads)
	if err != nil {
		return err
	}
	var notes []string
	if all {
		if notes, err = p.notes(); err != nil {
			return err
		}
	}
	counted, err := p.printJobs(where, threads)
	switch {
	case err != nil:
		return err
	case counted.shown == 0 && !mayBeEmpty:
		return errSilent
	case p.json || p.owner != nil || p.thread.host != "":
		return nil
	case counted.shown > 0 || len(notes) > 0:
		total := fmt.Sprintf("Total: %s, %s, %s", units.Plural(len(counted.messages), "message", "messages"),
			units.Plural(counted.recipients, "recipient", "recipients"), units.Plural(len(counted.threads), "thread", "threads"))
		if p.limit > 0 {
			total += fmt.Sprintf(" (%d shown)", counted.shown)
		}
		notes = slices.Insert(notes, 0, total)
	}
	printer := p.printer()
	for i := 0; i < len(notes) && err == nil; i++ {
		err = printer.Line(notes[i])
	}
	return err
}

// notes returns the lines below the list of all mail that say what needs attention. It is called
// before the list is printed, because printing may be interrupted. That the scheduler cannot write
// its files it prints itself, above the list.
func (p *program) notes() ([]string, error) {
	t, err := p.asker.client.Totals()
	if err != nil || t == nil {
		return nil, err
	}
	if trouble := t.SpoolText(time.Now()); trouble != "" {
		t.Spool = mailq.Spool{}
		if _, err := fmt.Fprintln(p.out, text.Escape(trouble)); err != nil {
			return nil, err
		}
	}
	return t.Notes(time.Now()), nil
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

// counted is how much mail was listed, beyond --limit too.
type counted struct {
	shown      int // jobs
	recipients int
	messages   map[string]bool // by spoolid
	threads    map[mailq.Name]bool
}

// threads returns the threads with these names, or all if there are none, for the headings of the
// list; none for --json.
func (p *program) threads(names []mailq.Name) (map[mailq.Name]*mailq.Thread, error) {
	threads := make(map[mailq.Name]*mailq.Thread)
	if p.json {
		return threads, nil
	}
	for _, name := range names {
		for x, err := range client.Objects[mailq.Explanation](p.asker.client.Show("JSON " + mailq.Explain(name))) {
			if err != nil {
				return nil, err
			}
			if x.Thread != nil {
				threads[x.Thread.Name] = x.Thread
			}
		}
	}
	if len(names) > 0 {
		return threads, nil
	}
	for t, err := range p.asker.client.Threads() {
		if err != nil {
			return nil, err
		}
		threads[t.Name] = t
	}
	return threads, nil
}

// printJobs prints the jobs that are selected, as many as --limit allows.
func (p *program) printJobs(where *mailq.Selection, threads map[mailq.Name]*mailq.Thread) (c counted, err error) {
	command := "JSON SHOW WHERE " + where.String()
	if p.json {
		c.shown, err = p.printJSON(p.asker.client.Show(command))
		return c, err
	}
	c.messages, c.threads = make(map[string]bool), make(map[mailq.Name]bool)
	printer := p.printer()
	printer.Threads = threads
	for job, err := range client.Objects[mailq.JobLine](p.asker.client.Show(command)) {
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
	return c, printer.Finish()
}
