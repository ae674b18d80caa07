package main

// The lists of messages: ZMailer's, and mailq list.

import (
	"cmp"
	"encoding/json"
	"errors"
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

// threads returns the threads to list: the one that -h names, or those of the
// queue, or of the channel that -c names.
func (p *program) threads() (threads []*mailq.Thread, err error) {
	if p.thread.host != "" {
		return p.oneThread(mailq.Name{Channel: strings.ToLower(p.thread.channel), Host: strings.ToLower(p.thread.host)})
	}
	for t, err := range p.client.Threads() {
		if err != nil {
			return nil, err
		}
		if p.thread.matches(t.Name) {
			threads = append(threads, &t.Thread)
		}
	}
	return threads, nil
}

// oneThread returns the thread that -h names. Its state, for the heading, is that of
// EXPLAIN, if the server has that and the user may use it.
func (p *program) oneThread(name mailq.Name) ([]*mailq.Thread, error) {
	threads := []*mailq.Thread{{Name: name}}
	if hasJSON, err := p.client.HasJSON(); err != nil || !hasJSON || p.json {
		return threads, err
	}
	for x, err := range client.Objects[mailq.Explanation](p.client.Show("JSON " + mailq.Explain(name))) {
		if client.KindOf(err) == client.Refused {
			break
		}
		if err != nil {
			return nil, err
		}
		if x.Thread != nil {
			threads[0] = x.Thread
		}
	}
	return threads, nil
}

// errEnough ends a list at its limit.
var errEnough = errors.New("as many as --limit allows")

// list prints the mail of the threads, then held messages, which are in no thread,
// and the total.
func (p *program) list() error {
	threads, err := p.threads()
	if err != nil {
		return err
	}
	names := make([]mailq.Name, len(threads))
	for i, t := range threads {
		names[i] = t.Name
	}
	hasJSON, err := p.client.HasJSON()
	if err != nil {
		return err
	}
	var total []string
	if hasJSON && !p.json && p.owner == nil && p.thread.host == "" {
		if total, err = p.total(threads); err != nil {
			return err
		}
	}
	var held []*mailq.HeldItem
	if hasJSON && p.owner == nil && p.summary == 0 {
		if held, err = p.heldMessages(); err != nil {
			return err
		}
	}
	printer := p.printer()
	printer.ZMailer = !hasJSON
	printer.Threads = make(map[mailq.Name]*mailq.Thread)
	for _, t := range threads {
		printer.Threads[t.Name] = t
	}
	shown := 0
	within := func(print func() error) error {
		if p.limit > 0 && shown == p.limit {
			return errEnough
		}
		shown++
		return print()
	}
	if p.json {
		err = p.client.Pipeline(len(names),
			func(i int) string { return "JSON " + mailq.ShowThread(names[i]) },
			func(_ int, line string) error { return within(func() error { return printer.JSON(line) }) })
	} else {
		err = p.client.Jobs(names, func(job *mailq.Job) error { return within(func() error { return printer.Job(job) }) })
	}
	for i := 0; i < len(held) && err == nil; i++ {
		err = within(func() error { return p.printHeld(printer, held[i], i == 0) })
	}
	if errors.Is(err, errEnough) {
		err = nil
	}
	if p.json {
		return err
	}
	err = errors.Join(err, printer.Finish(2))
	if p.limit > 0 && len(total) > 0 {
		total[0] += fmt.Sprintf(" (%d shown)", shown)
	}
	for i := 0; i < len(total) && err == nil; i++ {
		err = printer.Line(total[i])
	}
	return err
}

// runList lists the mail that the arguments select, or all.
func (p *program) runList(args []string) error {
	targets, err := parseTargets(args)
	if err != nil {
		return usageError(err.Error())
	}
	where, err := targets.selection()
	switch {
	case err != nil:
		return usageError(err.Error())
	case where == nil:
		return p.ask(p.list)
	}
	return p.ask(func() error { return p.listSelected(where) })
}

// listSelected prints the mail that is selected, thread by thread, and its total. If
// nothing is selected, the error is errSilent.
func (p *program) listSelected(where *mailq.Selection) error {
	lines := p.client.Show("JSON SHOW WHERE " + where.String())
	if p.json {
		shown, err := p.printJSON(lines)
		if err == nil && shown == 0 {
			err = errSilent
		}
		return err
	}
	byThread := make(map[mailq.Name][]*mailq.Job)
	var names []mailq.Name
	recipients := 0
	messages := make(map[string]bool)
	for job, err := range client.Objects[mailq.Job](lines) {
		if err != nil {
			return err
		}
		if byThread[job.Name] == nil {
			names = append(names, job.Name)
		}
		recipients += len(job.Recipients)
		messages[job.SpoolID] = true
		byThread[job.Name] = append(byThread[job.Name], job)
	}
	if len(names) == 0 {
		return errSilent
	}
	var jobs []*mailq.Job
	for _, name := range names {
		jobs = append(jobs, byThread[name]...)
	}
	shown := min(len(jobs), cmp.Or(p.limit, len(jobs)))
	printer := p.printer()
	for _, job := range jobs[:shown] {
		if err := printer.Job(job); err != nil {
			return err
		}
	}
	if err := printer.Finish(2); err != nil {
		return err
	}
	total := totalText(len(messages), recipients, len(names))
	if p.limit > 0 {
		total += fmt.Sprintf(" (%d shown)", shown)
	}
	return printer.Line(total)
}

func totalText(messages, recipients, threads int) string {
	return fmt.Sprintf("Total: %s, %s, %s", mailq.Plural(messages, "message", "messages"),
		mailq.Plural(recipients, "recipient", "recipients"), mailq.Plural(threads, "thread", "threads"))
}

// heldMessages returns the held messages, which are in no thread. Those that are to be held are
// still in their threads.
func (p *program) heldMessages() (items []*mailq.HeldItem, err error) {
	for item, err := range client.Objects[mailq.HeldItem](p.client.Show("JSON SHOW HELD")) {
		if client.KindOf(err) == client.Refused { // an older scheduler, or a user who may not ask
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if !item.IsThread() && item.Order == "" && p.thread.matches(item.Name) {
			items = append(items, item)
		}
	}
	return items, nil
}

// printHeld prints a part of a held message.
func (p *program) printHeld(printer *client.Printer, item *mailq.HeldItem, first bool) error {
	if p.json {
		line, err := json.Marshal(item)
		if err != nil {
			return err
		}
		return printer.JSON(string(line))
	}
	if first {
		if err := printer.Line("held:"); err != nil {
			return err
		}
	}
	return printer.Line("\t" + item.Text(printer.Now))
}

// total returns the lines below a list: the total, and what is kept back. There is
// none if there is nothing to count. It is called before the list is printed, because
// printing may be interrupted. That the scheduler cannot write its files it prints itself,
// above the list.
func (p *program) total(threads []*mailq.Thread) (lines []string, err error) {
	var all mailq.Totals
	withMail := 0
	for _, t := range threads {
		if t.Jobs > 0 {
			withMail++
		}
		all.Messages += t.Jobs // one that is in several threads counts once in each
		all.Recipients += t.Recipients
	}
	if p.thread == (threadFilter{}) {
		totals, err := p.client.Totals()
		if err != nil {
			return nil, err
		}
		if totals != nil {
			all = *totals
		}
	}
	if trouble := all.SpoolText(time.Now()); trouble != "" { // it comes first
		all.Spool = mailq.Spool{}
		if _, err := fmt.Fprintln(p.out, text.Escape(trouble)); err != nil {
			return nil, err
		}
	}
	notes := all.Notes(time.Now())
	if withMail == 0 && all.Messages == 0 && len(notes) == 0 {
		return nil, nil
	}
	return slices.Concat([]string{totalText(all.Messages, all.Recipients, withMail)}, notes), nil
}
