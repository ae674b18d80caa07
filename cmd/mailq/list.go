package main

// The lists of messages and threads: which threads, in which order, how many,
// and the total below.

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"zsched/internal/text"
	"zsched/mailq"
	"zsched/mailq/client"
)

// sortKeys are what --sort takes: which of two threads comes first. Equal threads keep
// the order of the server.
var sortKeys = map[string]func(a, b *mailq.Thread) int{
	"size": func(a, b *mailq.Thread) int { return cmp.Compare(b.Jobs, a.Jobs) },
	"age":  func(a, b *mailq.Thread) int { return compareTimes(a.OldestAt, b.OldestAt) },
	"rate": func(a, b *mailq.Thread) int { return cmp.Compare(b.Rate, a.Rate) },
	"next": func(a, b *mailq.Thread) int {
		if a.Held != b.Held {
			return map[bool]int{true: 1, false: -1}[a.Held]
		}
		return a.WakeAt.Compare(b.WakeAt) // without a time it is due
	},
}

// compareTimes compares two times; one that is not known comes last.
func compareTimes(a, b time.Time) int {
	if a.IsZero() || b.IsZero() {
		return b.Compare(a)
	}
	return a.Compare(b)
}

// setSort sets --sort.
func (o *options) setSort(key string) error { return setKey(&o.sort, sortKeys, key) }

// setSenderSort sets --sort of senders.
func (o *options) setSenderSort(key string) error { return setKey(&o.sort, mailq.SenderSorts, key) }

func setKey[F any](to *string, keys map[string]F, key string) error {
	if _, ok := keys[key]; !ok {
		return fmt.Errorf("%q is not one of %s", key, strings.Join(slices.Sorted(maps.Keys(keys)), ", "))
	}
	*to = key
	return nil
}

// threads returns the threads to list: the one that -h names, or those of the
// queue, or of the channel that -c names, in the order that --sort names.
func (p *program) threads() ([]*mailq.Thread, error) {
	if p.thread.host != "" && p.queue == 0 {
		name := mailq.Name{Channel: strings.ToLower(p.thread.channel), Host: strings.ToLower(p.thread.host)}
		return p.oneThread(name)
	}
	var threads []*mailq.Thread
	for t, err := range p.client.Threads() {
		if err != nil {
			return nil, err
		}
		if p.thread.matches(t.Name) {
			threads = append(threads, &t.Thread)
		}
	}
	if p.sort != "" {
		slices.SortStableFunc(threads, sortKeys[p.sort])
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

// listSelected prints the mail that is selected, thread by thread, and its total. If
// nothing is selected, the error is errSilent, as for mailq find.
func (p *program) listSelected(where *mailq.Selection) error {
	command := "JSON SHOW WHERE " + where.String()
	if p.json {
		return p.limited(command)
	}
	rank, err := p.ranks()
	if err != nil {
		return err
	}
	byThread := make(map[mailq.Name][]*mailq.Job)
	var names []mailq.Name
	total := mailq.Outcome{}
	messages := make(map[string]bool)
	for job, err := range client.Objects[mailq.Job](p.client.Show(command)) {
		if err != nil {
			return err
		}
		if byThread[job.Name] == nil {
			names = append(names, job.Name)
		}
		total.Recipients += len(job.Recipients)
		messages[job.SpoolID] = true
		byThread[job.Name] = append(byThread[job.Name], job)
	}
	if len(names) == 0 {
		return errSilent
	}
	slices.SortStableFunc(names, func(a, b mailq.Name) int { return cmp.Compare(rank[a], rank[b]) })
	printer := p.printer()
	shown := 0
	for _, name := range names {
		for _, job := range byThread[name] {
			if shown < p.bounded(shown+1) {
				shown++
				if err := printer.Job(job); err != nil {
					return err
				}
			}
		}
	}
	if err := printer.Finish(2); err != nil || p.owner != nil {
		return err
	}
	text := fmt.Sprintf("Total: %s, %s, %s", mailq.Plural(len(messages), "message", "messages"),
		mailq.Plural(total.Recipients, "recipient", "recipients"), mailq.Plural(len(names), "thread", "threads"))
	if p.limit > 0 {
		text += fmt.Sprintf(" (%d shown)", shown)
	}
	return printer.Line(text)
}

// ranks returns the position of each thread in the order of --sort, or nothing without
// --sort.
func (p *program) ranks() (map[mailq.Name]int, error) {
	if p.sort == "" {
		return nil, nil
	}
	threads, err := p.threads()
	if err != nil {
		return nil, err
	}
	rank := make(map[mailq.Name]int)
	for i, t := range threads {
		rank[t.Name] = i
	}
	return rank, nil
}

// limited prints the objects of an answer, as many as --limit allows.
func (p *program) limited(command string) error {
	printer := p.printer()
	shown := 0
	for line, err := range p.client.Show(command) {
		if err != nil {
			return err
		}
		if p.limit > 0 && shown == p.limit {
			return nil
		}
		shown++
		if err := printer.JSON(line); err != nil {
			return err
		}
	}
	if shown == 0 {
		return errSilent
	}
	return nil
}

// heldMessages returns the held messages, which are in no thread, as many as
// --limit allows. Those that are to be held are still in their threads.
func (p *program) heldMessages() (items []*mailq.HeldItem, err error) {
	for item, err := range client.Objects[mailq.HeldItem](p.client.Show("JSON SHOW HELD")) {
		if client.KindOf(err) == client.Refused { // an older scheduler, or a user who may not ask
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if (p.limit == 0 || len(items) < p.limit) && !item.IsThread() && item.Order == "" && p.thread.matches(item.Name) {
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
	if s := all.SpoolText(time.Now()); s != "" { // it comes first
		all.Spool = mailq.Spool{}
		if _, err := fmt.Fprintln(p.out, text.Escape(s)); err != nil {
			return nil, err
		}
	}
	notes := all.Notes(time.Now())
	if withMail == 0 && all.Messages == 0 && len(notes) == 0 {
		return nil, nil
	}
	lines = append(lines, fmt.Sprintf("Total: %s, %s, %s", mailq.Plural(all.Messages, "message", "messages"),
		mailq.Plural(all.Recipients, "recipient", "recipients"), mailq.Plural(withMail, "thread", "threads")))
	return append(lines, notes...), nil
}

// sortedLines prints the lines of -Q that are about threads, without those of
// rings and totals, in the order of --sort and as many as --limit allows.
func (p *program) sortedLines() error {
	threads, err := p.threads()
	if err != nil {
		return err
	}
	printer := p.printer()
	command, nameOf, show := "SHOW QUEUE THREADS", lineName, printer.Line
	if p.json {
		command, nameOf, show = "JSON "+command, jsonName, printer.JSON
	}
	lines := make(map[mailq.Name]string)
	for line, err := range p.client.Show(command) {
		if err != nil {
			return err
		}
		if name, ok := nameOf(line); ok {
			lines[name] = line
		}
	}
	for _, t := range threads[:p.bounded(len(threads))] {
		if line, ok := lines[t.Name]; ok { // it may have ended meanwhile
			if err := show(line); err != nil {
				return err
			}
		}
	}
	if p.json {
		return nil
	}
	return printer.Line(fmt.Sprintf("Total: %s (%d shown)", mailq.Plural(len(threads), "thread", "threads"), p.bounded(len(threads))))
}

// bounded returns n, or --limit if that is less.
func (p *program) bounded(n int) int {
	if p.limit > 0 {
		return min(n, p.limit)
	}
	return n
}
