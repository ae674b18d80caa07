package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"zsched/mailq"
)

// command is one of those that a known user may give.
type command struct {
	words  string // the verb and those behind it that make it this command
	usage  string // what follows, for HELP
	right  Rights
	count  string // its counter: what follows SC.MQ2 in its name
	asJSON bool   // JSON may stand in front
	// run answers and says whether the session goes on.
	run func(r *request, ctx context.Context) bool
}

// request is a command as it was given.
type request struct {
	*session
	*command
	verb, rest string // the line
	arg        string // what stands behind the command's words
	asJSON     bool
}

const orderTail = " [DRYRUN] [BECAUSE text]"

// commandTable is every command but QUIT, EXIT and AUTH. Of those that begin
// alike the longest match counts.
func commandTable() []*command {
	list := []*command{
		{words: "SHOW SNMP", right: RightSNMP, count: "CommandShowQueueVeryShort", asJSON: true, run: showSNMP},
		{words: "SHOW QUEUE SHORT", right: RightQQ, count: "CommandShowQueueShort", asJSON: true, run: showShort},
		{words: "SHOW QUEUE THREADS", right: RightTT, count: "CommandShowQueueThreads", asJSON: true, run: showThreads},
		{words: "SHOW QUEUE THREADS2", right: RightTT, count: "CommandShowQueueThreads2", asJSON: true, run: showThreads2},
		{words: "SHOW THREAD", usage: "channel host", right: RightTT, count: "CommandShowThread", asJSON: true, run: showThread},
		{words: "SHOW MSG", usage: "id", right: RightTT, asJSON: true, run: showMessage},
		{words: "SHOW REASONS", right: RightTT, asJSON: true, run: showReasons},
		{words: "SHOW SHAPE", right: RightTT, asJSON: true, run: showShape},
		{words: "SHOW COUNTERS", count: "CommandShowCounters", asJSON: true, run: showCounters},
		{words: "EXPLAIN", usage: "channel host", right: RightTT, asJSON: true, run: explain},
		{words: "FIND", usage: "recipient|sender|message-id|spoolid value", right: RightTT, asJSON: true, run: find},
		{words: "ETRN", usage: "host [text]", right: RightETRN, count: "CommandETRN", run: trigger},
	}
	for _, verb := range []mailq.Verb{mailq.Kill, mailq.Expire, mailq.Retry, mailq.Hold, mailq.Release, mailq.Requeue, mailq.Reroute} {
		about, to := "MSG id | THREAD channel host | WHERE key=value...", ""
		switch verb {
		case mailq.Requeue:
			about = "MSG id | WHERE key=value..."
		case mailq.Reroute:
			about, to = "MSG id channel host | THREAD channel host channel host | WHERE key=value...", " TO channel host"
		}
		list = append(list, &command{words: string(verb), usage: about + to + orderTail, right: RightKILL, run: order})
	}
	return append(list,
		&command{words: "HELP", run: help},
		&command{words: "QUIT", run: help})
}

// findCommand is the command of a line, or nil.
func findCommand(verb, rest string) (c *command, arg string, asJSON bool) {
	if verb == "JSON" {
		verb, rest = mailq.CutRaw(rest)
		asJSON = true
	}
	for _, candidate := range commandTable() {
		first, more, _ := strings.Cut(candidate.words, " ")
		if first != verb || asJSON && !candidate.asJSON || first == "QUIT" {
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

func help(r *request, _ context.Context) bool {
	return r.list(func(out *lines) error {
		for _, c := range commandTable() {
			if !r.rights.has(c.right) {
				continue
			}
			line := c.words
			if c.asJSON {
				line = "[JSON] " + line
			}
			if c.usage != "" {
				line += " " + c.usage
			}
			if err := out.text(line); err != nil {
				return err
			}
		}
		return nil
	})
}

// list answers with text lines. The session ends if they cannot be written.
func (r *request) list(write func(out *lines) error) bool {
	out := &lines{w: r.out, framed: true}
	err := write(out)
	if err != nil && !errors.Is(err, errWrite) {
		r.note(Note{Kind: NoteQueue, Err: err})
	}
	return out.end(err, r.asJSON) == nil
}

// report answers with one of the reports, in text or as JSON.
func (r *request) report(text, asJSON func(*reports) error) bool {
	return r.list(func(out *lines) error {
		rep := &reports{queue: r.server.queue, now: time.Now(), out: out}
		if r.asJSON {
			return asJSON(rep)
		}
		return text(rep)
	})
}

// wrong answers a command that was not understood and goes on.
func (r *request) wrong(err error) bool {
	r.server.counts.add("CommandsRej")
	r.say("-ERR; " + mailq.OneReply(err.Error()))
	return true
}

// bare refuses words behind a command that takes none.
func (r *request) bare() bool {
	if r.arg == "" {
		return true
	}
	r.refuse(r.command, r.verb, r.rest)
	return false
}

func showSNMP(r *request, ctx context.Context) bool {
	return !r.bare() || r.report(
		func(rep *reports) error { return rep.totals(ctx, true) },
		func(rep *reports) error {
			t, err := rep.queue.Totals(ctx)
			if err != nil {
				return err
			}
			return rep.out.object(t)
		})
}

func showShort(r *request, ctx context.Context) bool {
	return !r.bare() || r.report(
		func(rep *reports) error { return rep.short(ctx) },
		func(rep *reports) error { return objects(rep.out, rep.queue.Rings(ctx)) })
}

func showThreads(r *request, ctx context.Context) bool {
	return !r.bare() || r.report(
		func(rep *reports) error { return rep.full(ctx) },
		func(rep *reports) error { return rep.threadItems(ctx) })
}

func showThreads2(r *request, ctx context.Context) bool {
	return !r.bare() || r.report(
		func(rep *reports) error { return rep.threads2(ctx) },
		func(rep *reports) error { return rep.threadItems(ctx) })
}

func showThread(r *request, ctx context.Context) bool {
	name, err := threadName(r.arg)
	if err != nil {
		return r.wrong(err)
	}
	return r.report(
		func(rep *reports) error { return rep.thread(ctx, name) },
		func(rep *reports) error { return objects(rep.out, rep.queue.Jobs(ctx, name)) })
}

// threadName reads a channel and a host. The old client does not know of
// quotes; what it sends for a host with blanks is taken whole.
func threadName(arg string) (mailq.Name, error) {
	name, rest, err := mailq.CutName(arg)
	if err == nil && rest != "" {
		_, host := mailq.CutRaw(arg)
		name.Host = strings.TrimRight(host, " \t")
	}
	return name, err
}

func explain(r *request, ctx context.Context) bool {
	name, err := threadName(r.arg)
	if err != nil {
		return r.wrong(err)
	}
	return r.report(
		func(rep *reports) error { return rep.explain(ctx, name) },
		func(rep *reports) error {
			e, err := rep.queue.Explain(ctx, name)
			if err != nil {
				return err
			}
			return rep.out.object(e)
		})
}

func showMessage(r *request, ctx context.Context) bool {
	id, rest, ok, err := mailq.CutWord(r.arg)
	if err == nil && (!ok || rest != "") {
		err = errors.New("the spoolid or number of one message is needed")
	}
	if err != nil {
		return r.wrong(err)
	}
	return r.list(func(out *lines) error {
		m, found, err := r.server.queue.Message(ctx, id)
		switch {
		case err != nil:
			return err
		case !found:
			return fmt.Errorf("no message %q is in the queue", id)
		case r.asJSON:
			return out.object(m)
		}
		return writeMessage(out, m, time.Now())
	})
}

func find(r *request, ctx context.Context) bool {
	kind, rest := mailq.CutRaw(r.arg)
	switch kind {
	case "recipient", "sender", "message-id", "spoolid":
	default:
		return r.wrong(errors.New("FIND recipient, sender, message-id or spoolid is needed, and a value"))
	}
	value, rest, ok, err := mailq.CutWord(rest)
	if err == nil && (!ok || rest != "") {
		err = errors.New("one value is needed")
	}
	if err != nil {
		return r.wrong(err)
	}
	return r.report(
		func(rep *reports) error {
			for m, err := range rep.queue.Find(ctx, mailq.Sought{Kind: kind, Value: value}) {
				if err != nil {
					return err
				}
				if err := writeMessage(rep.out, m, rep.now); err != nil {
					return err
				}
			}
			return nil
		},
		func(rep *reports) error {
			return objects(rep.out, rep.queue.Find(ctx, mailq.Sought{Kind: kind, Value: value}))
		})
}

// trigger is ETRN. Hosts are lower case in the queue, so any case will do.
func trigger(r *request, ctx context.Context) bool {
	host, text := mailq.CutRaw(r.arg)
	host = strings.ToLower(host)
	started := false
	if host != "" {
		var err error
		started, err = r.server.queue.Trigger(ctx, host, text)
		r.note(Note{Kind: NoteTrigger, Host: host, Text: text, Started: started, Err: err})
		if err != nil {
			return r.wrong(err)
		}
	}
	if started {
		r.say("+OK; an ETRN started something.")
	} else {
		r.say("+OK; an ETRN didn't start anything.")
	}
	return true
}
