package server

// The questions: what the queue can be asked, the table of verbs, and who may use each.

import (
	"context"
	"iter"
	"strings"

	"zsched/mailq"
	"zsched/scheduler/view"
)

// jobs is a sequence of jobs.
type jobs = iter.Seq2[*mailq.JobLine, error]

// Queue is the scheduler as sessions see it. Its methods are called from any
// goroutine. A sequence reads the queue in small pieces, so a large queue may
// change while it is shown. A sequence ends early when ctx is done.
type Queue interface {
	// Totals returns counters that are kept as the queue changes.
	Totals(ctx context.Context) (mailq.Totals, error)
	// Rings yields every ring, the oldest first.
	Rings(ctx context.Context) iter.Seq2[*mailq.Ring, error]
	// Threads yields every ring and after it its threads, oldest first.
	Threads(ctx context.Context) iter.Seq2[view.Item, error]
	// Thread finds a thread by its name; nil: there is none.
	Thread(ctx context.Context, name mailq.Name) (*mailq.Thread, error)
	// Jobs yields the jobs of one thread in the order in which agents get them,
	// or those of all threads when the name is empty.
	Jobs(ctx context.Context, name mailq.Name) jobs
	// Select yields the jobs that a selection matches: those that an order with
	// it would affect. It may read many files.
	Select(ctx context.Context, where mailq.Selection) jobs
	// Message returns a message by its spoolid or number, held or not.
	Message(ctx context.Context, id string) (m *mailq.Message, found bool, err error)
	// Explain says what the mail for a destination is waiting for.
	Explain(ctx context.Context, name mailq.Name) (*mailq.Explanation, error)
	// Counters returns the numbers of SHOW COUNTERS by name, such
	// as "SC.StoredMessages-G". A name that is missing counts as 0.
	Counters(ctx context.Context) (map[string]float64, error)
	// Trigger starts delivery of the mail for a host now (ETRN) and reports
	// whether there was any.
	Trigger(ctx context.Context, host, text string) (bool, error)
	// Held yields the held messages, with an item for each destination, and the
	// held threads.
	Held(ctx context.Context) iter.Seq2[*mailq.HeldItem, error]
	// Rules yields the reply rules in their order.
	Rules(ctx context.Context) iter.Seq2[*mailq.RuleItem, error]
	// Cluster yields the store, the nodes and the limits of the cluster, or an error if the
	// scheduler is in no cluster.
	Cluster(ctx context.Context) iter.Seq2[*mailq.ClusterItem, error]
	// Act executes an order.
	Act(ctx context.Context, order mailq.Order) (mailq.Outcome, error)
}

// command is an entry of the table of verbs.
type command struct {
	words     string // the verb and the words after it that name the command
	arguments string // for HELP; "": it takes none
	right     rights
	// text writes ZMailer's answer of many lines, and objects the answer to the command with
	// JSON before it, one object a line. nil: the command has no such form.
	text, objects show
	// run executes a command that has another answer, and reports whether the session
	// continues.
	run func(r *request, ctx context.Context) bool
}

// show writes an answer of many lines. arg is what follows the words of the command.
type show func(ctx context.Context, r *report, arg string) error

// request is a command as a peer gave it.
type request struct {
	*session
	*command
	verb, rest string // the line
	arg        string // what follows the command's words
	asJSON     bool
}

// each is the answer of a sequence, one object an item.
func each[T any](items func(Queue, context.Context) iter.Seq2[T, error]) show {
	return func(ctx context.Context, r *report, _ string) error {
		for item, err := range items(r.queue, ctx) {
			if err == nil {
				err = r.out.object(item)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

const selection = "key=value..."

// verbs returns every command but QUIT, EXIT and AUTH, which need no login. A
// line names the first of these commands whose words it begins with.
func verbs() []*command {
	list := []*command{
		{words: "SHOW SNMP", right: rightSNMP, text: showSNMP, objects: totalsObject},
		{words: "SHOW QUEUE SHORT", right: rightQQ, text: showShort, objects: each(Queue.Rings)},
		{words: "SHOW QUEUE THREADS", right: rightTT, text: showThreads, objects: threadObjects},
		{words: "SHOW QUEUE THREADS2", right: rightTT, text: showThreads2},
		{words: "SHOW THREAD", arguments: "channel host", right: rightTT, text: showThread, objects: jobObjects},
		{words: "SHOW COUNTERS", text: showCounters},
		{words: "SHOW WHERE", arguments: selection, right: rightTT, objects: showWhere},
		{words: "SHOW MSG", arguments: "id", right: rightTT, objects: showMessage},
		{words: "SHOW HELD", right: rightTT, objects: each(Queue.Held)},
		{words: "SHOW RULES", right: rightTT, objects: each(Queue.Rules)},
		{words: "SHOW CLUSTER", right: rightTT, objects: each(Queue.Cluster)},
		{words: "SHOW COUNT", arguments: "destination|domain|reason|sender|source", right: rightTT, objects: showCount},
		{words: "EXPLAIN", arguments: "channel host", right: rightTT, objects: explain},
		{words: "ETRN", arguments: "host [text]", right: rightETRN, run: etrn},
	}
	for _, verb := range view.Verbs {
		list = append(list, &command{words: string(verb.Verb), arguments: verb.Arguments(), right: rightKILL, run: act})
	}
	return append(list, &command{words: "HELP", text: help})
}

// findCommand returns the command of a line, or nil.
func findCommand(verb, rest string) (c *command, arg string, asJSON bool) {
	if verb == "JSON" {
		verb, rest = mailq.CutRaw(rest)
		asJSON = true
	}
	for _, candidate := range verbs() {
		first, more, _ := strings.Cut(candidate.words, " ")
		if first != verb || asJSON && candidate.objects == nil || !asJSON && candidate.text == nil && candidate.run == nil {
			continue
		}
		arg, ok := rest, true
		for more != "" && ok {
			var want, got string
			want, more, _ = strings.Cut(more, " ")
			got, arg = mailq.CutRaw(arg)
			ok = want == got
		}
		if ok {
			return candidate, arg, asJSON
		}
	}
	return nil, "", asJSON
}

// help executes HELP: it lists the commands that the user may use.
func help(_ context.Context, r *report, _ string) error {
	for _, c := range verbs() {
		if !r.rights.has(c.right) {
			continue
		}
		line := strings.TrimRight(c.words+" "+c.arguments, " ")
		switch {
		case c.objects != nil && c.text != nil:
			line = "[JSON] " + line
		case c.objects != nil:
			line = "JSON " + line
		}
		if err := r.out.text(line); err != nil {
			return err
		}
	}
	return r.out.text("QUIT")
}
