package main

// Reports: the subcommands that ask one question and print the answer, which is JSON, as a table,
// as text, or as it is.

import (
	"fmt"
	"iter"
	"time"

	"github.com/spf13/pflag"

	"zsched/internal/text"
	"zsched/mailq"
	"zsched/mailq/client"
	"zsched/mailq/report"
)

// question is a subcommand that prints the answer to a command of the protocol.
type question struct {
	use, short, command string // the argument of the subcommand follows the command
	presenter
}

// questions are these subcommands, in the order of help.
var questions = []question{
	{"threads", "show the counts, times and state of each thread", "SHOW QUEUE THREADS", tableOf(report.Threads)},
	{"rings", "show the threads, agents and limits of each ring", "SHOW QUEUE SHORT", tableOf(report.Rings)},
	{"agents", "show the job lines that agents have, and since when", "SHOW WHERE state=fed", tableOf(report.Agents)},
	{"show MESSAGE", "show one message with the state of each recipient", "SHOW MSG", textOf(report.Message)},
	{"explain CHANNEL/HOST", "say what the mail for a destination waits for", "EXPLAIN", textOf(report.Explanation)},
	{"senders", "show recipients, messages and ages by sender", "SHOW COUNT sender", tableOf(report.Counts)},
	{"domains", "the same by the sender's domain", "SHOW COUNT domain", tableOf(report.Counts)},
	{"sources", "the same by the source, such as login:bob, which orders and trace take", "SHOW COUNT source", tableOf(report.Counts)},
	{"reasons", "show the last diagnostics and how many recipients have them", "SHOW COUNT reason", tableOf(report.Counts)},
	{"shape", "show recipients by destination and age", "SHOW COUNT destination", tableOf(report.Ages)},
	{"held", "show what is held: by whom, since when, why and until when", "SHOW HELD", textOf(line((*mailq.HeldItem).Text))},
	{"rules", "show the reply rules and how often they have matched", "SHOW RULES", textOf(line((*mailq.RuleItem).Text))},
	{"cluster", "show the store of the cluster, its nodes, and the part of each limit that this node has", "SHOW CLUSTER", textOf(line((*mailq.ClusterItem).Text))},
	{"totals", "show the totals, and what needs attention", "SHOW SNMP", textOf(report.Totals)},
}

// subcommand returns the subcommand of a question.
func (q *question) subcommand(p *program) subcommand {
	s := subcommand{use: q.use, short: q.short, flags: []func(*pflag.FlagSet){p.jsonFlag}}
	if q.empty != nil {
		s.flags = []func(*pflag.FlagSet){p.sortFlag(q.empty()), p.limitFlag, p.jsonFlag}
	}
	s.run = func(args []string) error {
		command := q.command
		if len(args) == 1 {
			command += " " + mailq.Quote(args[0])
			if q.command == "EXPLAIN" {
				thread, err := parseThread(args[0])
				if err != nil {
					return usageError(err.Error())
				}
				command = mailq.Explain(thread)
			} else if _, err := parseTargets(args); err != nil {
				return usageError(err.Error())
			}
		}
		return p.ask(func() error {
			lines := p.asker.client.Show("JSON " + command)
			if p.json && q.empty == nil {
				_, err := p.printJSON(lines)
				return err
			}
			return q.print(p, lines)
		})
	}
	return s
}

// presenter says how the answer is shown to people.
type presenter struct {
	empty func() *report.Table // the table without rows; nil: it is no table
	print func(p *program, lines iter.Seq2[string, error]) error
}

// tableOf presents a table.
func tableOf[T any](tabulate func([]*T, time.Time) *report.Table) presenter {
	return presenter{
		empty: func() *report.Table { return tabulate(nil, time.Time{}) },
		print: func(p *program, lines iter.Seq2[string, error]) error {
			var items []*T
			var raw []string
			keep := func(yield func(string, error) bool) {
				for line, err := range lines {
					if raw = append(raw, line); !yield(line, err) {
						return
					}
				}
			}
			for item, err := range client.Objects[T](keep) {
				if err != nil {
					return err
				}
				items = append(items, item)
			}
			table := tabulate(items, time.Now())
			for i := range table.Rows {
				table.Rows[i].Line = raw[i]
			}
			return p.printTable(table)
		},
	}
}

// printTable prints a table, or its items as JSON, in the order of --sort and as many as --limit
// allows.
func (p *program) printTable(table *report.Table) error {
	if p.sort != "" {
		table.Sorted, _ = table.Column(p.sort)
	}
	table.Sort(table.Sorted)
	all := table.Limit(p.limit)
	if p.json {
		printer := p.printer()
		for i := range table.Rows {
			if err := printer.JSON(table.Rows[i].Line); err != nil {
				return err
			}
		}
		return nil
	}
	if err := table.Write(p.out); err != nil {
		return err
	}
	if p.limit > 0 && all > p.limit {
		fmt.Fprintf(p.out, "(%d of %d shown)\n", p.limit, all)
	}
	return nil
}

// textOf presents lines of text about each item.
func textOf[T any](describe func(*T, time.Time) []string) presenter {
	return presenter{print: func(p *program, lines iter.Seq2[string, error]) error {
		for item, err := range client.Objects[T](lines) {
			if err != nil {
				return err
			}
			for _, line := range describe(item, time.Now()) {
				if _, err := fmt.Fprintln(p.out, text.Escape(line)); err != nil {
					return err
				}
			}
		}
		return nil
	}}
}

// line describes an item that is one line of text.
func line[T any](text func(*T, time.Time) string) func(*T, time.Time) []string {
	return func(item *T, now time.Time) []string { return []string{mailq.OneReply(text(item, now))} }
}

// printJSON prints the objects of an answer, as many as --limit allows, and returns how many.
func (p *program) printJSON(lines iter.Seq2[string, error]) (shown int, err error) {
	printer := p.printer()
	for line, err := range lines {
		if err != nil || p.limit > 0 && shown == p.limit {
			return shown, err
		}
		shown++
		if err := printer.JSON(line); err != nil {
			return shown, err
		}
	}
	return shown, nil
}
