package server

import (
	"context"
	"errors"
	"strings"
	"time"

	"zsched/mailq"
)

// This file has the table of verbs, and finds the command of a line.

// command is an entry of the table of verbs.
type command struct {
	words     string // the verb and the words after it that name the command
	arguments string // for HELP
	right     rights
	counter   string // its name in SHOW COUNTERS without the prefix SC.MQ2; "": none
	asJSON    bool   // JSON may precede it
	// run executes a request and reports whether the session continues.
	run func(r *request, ctx context.Context) bool
}

// request is a command as a peer gave it.
type request struct {
	*session
	*command
	verb, rest string // the line
	arg        string // what follows the command's words
	asJSON     bool
}

// verbs returns every command but QUIT, EXIT and AUTH, which need no login. A
// line names the first of these commands whose words it begins with.
func verbs() []*command {
	list := []*command{
		{words: "SHOW SNMP", right: rightSNMP, counter: "CommandShowQueueVeryShort", asJSON: true, run: showSNMP},
		{words: "SHOW QUEUE SHORT", right: rightQQ, counter: "CommandShowQueueShort", asJSON: true, run: showShort},
		{words: "SHOW QUEUE THREADS", right: rightTT, counter: "CommandShowQueueThreads", asJSON: true, run: showThreads},
		{words: "SHOW QUEUE THREADS2", right: rightTT, counter: "CommandShowQueueThreads2", asJSON: true, run: showThreads2},
		{words: "SHOW THREAD", arguments: "channel host", right: rightTT, counter: "CommandShowThread", asJSON: true, run: showThread},
		{words: "SHOW WHERE", arguments: "key=value...", right: rightTT, asJSON: true, run: showWhere},
		{words: "SHOW MSG", arguments: "id", right: rightTT, asJSON: true, run: showMessage},
		{words: "SHOW HELD", right: rightTT, asJSON: true, run: showHeld},
		{words: "SHOW SUSPENDED", right: rightTT, asJSON: true, run: showSuspended},
		{words: "SHOW RULES", right: rightTT, asJSON: true, run: showRules},
		{words: "SHOW CLUSTER", right: rightTT, asJSON: true, run: showCluster},
		{words: "SHOW REASONS", right: rightTT, asJSON: true, run: showReasons},
		{words: "SHOW SENDERS", arguments: "[DOMAINS]", right: rightTT, asJSON: true, run: showSenders},
		{words: "SHOW SHAPE", right: rightTT, asJSON: true, run: showShape},
		{words: "SHOW COUNTERS", counter: "CommandShowCounters", asJSON: true, run: showCounters},
		{words: "EXPLAIN", arguments: "channel host", right: rightTT, asJSON: true, run: explain},
		{words: "FIND", arguments: "recipient|sender|message-id|spoolid value", right: rightTT, asJSON: true, run: find},
		{words: "ETRN", arguments: "host [text]", right: rightETRN, counter: "CommandETRN", run: etrn},
	}
	for _, verb := range []mailq.Verb{mailq.Kill, mailq.Expire, mailq.Retry, mailq.Hold, mailq.Release, mailq.Requeue, mailq.Reroute, mailq.Suspend, mailq.Lift} {
		arguments := "MSG id | THREAD channel host | WHERE key=value..."
		switch verb {
		case mailq.Requeue:
			arguments = "MSG id | WHERE key=value..."
		case mailq.Suspend, mailq.Lift:
			arguments = "THREAD channel host"
		case mailq.Reroute:
			arguments = "MSG id channel host | THREAD channel host channel host | WHERE key=value... TO channel host"
		}
		tail := " [DRYRUN] [BECAUSE text]"
		if verb == mailq.Hold || verb == mailq.Suspend {
			tail = " [DRYRUN] [FOR span] [BECAUSE text]"
		}
		list = append(list, &command{words: string(verb), arguments: arguments + tail, right: rightKILL, run: act})
	}
	return append(list,
		&command{words: "HELP", asJSON: true, run: help},
		&command{words: "QUIT", run: help})
}

// findCommand returns the command of a line, or nil.
func findCommand(verb, rest string) (c *command, arg string, asJSON bool) {
	if verb == "JSON" {
		verb, rest = mailq.CutRaw(rest)
		asJSON = true
	}
	for _, candidate := range verbs() {
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

// help executes HELP: it lists the commands that the user may use.
func help(r *request, _ context.Context) bool {
	return r.list(func(out *answer) error {
		for _, c := range verbs() {
			if !r.rights.has(c.right) {
				continue
			}
			var err error
			if r.asJSON {
				err = out.object(mailq.VerbItem{Command: c.words, Arguments: c.arguments, JSON: c.asJSON})
			} else {
				line := strings.TrimRight(c.words+" "+c.arguments, " ")
				if c.asJSON {
					line = "[JSON] " + line
				}
				err = out.text(line)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// list sends the lines that the function write produces. The session ends if the peer
// does not read them.
func (r *request) list(write func(out *answer) error) bool {
	out := &answer{w: r.out, framed: true}
	err := write(out)
	var gone notInQueue
	if err != nil && !errors.Is(err, errWrite) && !errors.As(err, &gone) {
		r.note(Note{Kind: NoteQueue, Err: err})
	}
	return out.end(err, r.asJSON) == nil
}

// report answers with a report, in text or as JSON.
func (r *request) report(text, asJSON func(*report) error) bool {
	return r.list(func(out *answer) error {
		rep := &report{queue: r.server.queue, now: time.Now(), out: out, noReasons: !r.rights.has(rightTT)}
		if r.asJSON {
			return asJSON(rep)
		}
		return text(rep)
	})
}

// reject answers a command that is invalid or cannot be executed. The session
// continues.
func (r *request) reject(err error) bool {
	r.server.counts.add("CommandsRej")
	r.reply("-ERR; " + mailq.OneReply(err.Error()))
	return true
}

// hasNoArguments refuses a command that is followed by words but takes none.
func (r *request) hasNoArguments() bool {
	if r.arg == "" {
		return true
	}
	r.refuse(r.command, r.verb, r.rest)
	return false
}

// threadName reads a channel and a host and maps both to lower case, as they are
// in the queue. ZMailer's client does not quote, so a host may contain blanks
// without quotes.
func threadName(arg string) (mailq.Name, error) {
	name, rest, err := mailq.CutName(arg)
	if err == nil && rest != "" {
		_, host := mailq.CutRaw(arg)
		name.Host = strings.TrimRight(host, " \t")
	}
	return mailq.Name{Channel: strings.ToLower(name.Channel), Host: strings.ToLower(name.Host)}, err
}
