package main

// The options together: which of them contradict each other, and the orders that they make.

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/mailq"
)

// check refuses options that contradict each other, and sets the default channel
// of -h.
func (o *options) check() error {
	if o.etrn != "" {
		o.chosen = append(o.chosen, "--etrn")
	}
	if o.top {
		o.chosen = append(o.chosen, "--top")
	}
	targets := len(o.messages) + len(o.threads) + len(o.subjects) + len(o.where)
	moving := len(o.chosen) == 1 && o.chosen[0] == "--move"
	if moving {
		o.order.To = mailq.Name{Channel: ctlfile.TransferChannel, Host: strings.ToLower(o.to)}
	}
	switch {
	case moving && o.to == "":
		return errors.New("--move needs --to and the name of a node")
	case !moving && (o.to != "" || o.all):
		return errors.New("--to and --all can only be used with --move")
	case o.all && targets > 0:
		return errors.New("--all cannot be used with --msg, --thread or --where")
	case len(o.chosen) > 1:
		return fmt.Errorf("%s: only one report or order at a time", strings.Join(o.chosen, " and "))
	case o.thread != threadFilter{} && (len(o.chosen) > 0 || o.queue > 1):
		return errors.New("-c and -h can only be used with the list of messages or with -Q")
	case o.limit < 0:
		return errors.New("--limit must not be negative")
	case o.showsSenders() && o.sort != "" && mailq.SenderSorts[o.sort] == nil:
		return fmt.Errorf("senders cannot be sorted by %s", o.sort)
	case !o.showsSenders() && o.sort != "" && sortKeys[o.sort] == nil:
		return fmt.Errorf("only senders can be sorted by %s", o.sort)
	case o.sort != "" && !o.showsSenders() && (len(o.chosen) > 0 || o.queue > 1):
		return errors.New("--sort can only be used with the list of messages, with -Q or with --senders")
	case o.limit > 0 && !o.showsSenders() && !o.mayFindNothing && (len(o.chosen) > 0 || o.queue > 1):
		return errors.New("--limit can only be used with the list of messages, with -Q, --find or --senders")
	case o.order.Verb == "" && (targets > len(o.where) || o.yes || o.order.DryRun || o.order.Why != ""):
		return errors.New("--msg, --thread, --dry-run, --yes and --because need an order, such as --hold")
	case o.order.Verb == "" && len(o.where) > 0 && (len(o.chosen) > 0 || o.queue > 0 || o.thread != threadFilter{}):
		return errors.New("--where can only be used with an order or with the list of messages; instead of -c and -h it has channel= and host=")
	case o.order.For > 0 && o.order.Verb != mailq.Hold && o.order.Verb != mailq.Suspend:
		return errors.New("--for can only be used with --hold or --suspend")
	case (o.order.Verb == mailq.Suspend || o.order.Verb == mailq.Lift) && targets > 1:
		return fmt.Errorf("%s names its thread; --msg, --thread and --where cannot be used with it", o.chosen[0])
	case moving && targets == 0 && !o.all:
		return errors.New("--move needs --all, --msg, --thread or --where")
	case o.order.Verb != "" && targets == 0 && !o.all:
		return fmt.Errorf("%s needs --msg, --thread or --where", o.chosen[0])
	case o.order.Verb == mailq.Requeue && targets == len(o.threads):
		return errors.New("--requeue takes --msg or --where, and --thread only together with them")
	case o.eventLog != "" && o.trace == "" && !o.top:
		return errors.New("--event-log can only be used with --trace or --top")
	case o.queue > 4:
		return errors.New("-Q may be given four times at most")
	case o.every < 100*time.Millisecond:
		return errors.New("--every must be 100ms or more")
	case o.timeout < 0:
		return errors.New("--timeout must not be negative")
	}
	if o.thread.host != "" && o.thread.channel == "" {
		o.thread.channel = "smtp"
	}
	return nil
}

// showsSenders reports whether the report is one of senders.
func (o *options) showsSenders() bool { return strings.HasPrefix(o.report, "SHOW SENDERS") }

// orders returns the orders of the command line. Without a verb there is none. Options of
// one kind are alternatives: there is an order for each message or each thread. Different
// kinds restrict each other: they make one selection.
func (o *options) orders() ([]mailq.Order, error) {
	where, err := o.selection()
	if err != nil || o.order.Verb == "" {
		return nil, err
	}
	threads, err := o.threadNames()
	if err != nil {
		return nil, err
	}
	if where == nil && len(threads) > 0 && len(o.messages) > 0 {
		where = new(mailq.Selection)
	}
	if where != nil {
		where.Threads = append(where.Threads, threads...)
		where.Messages = append(where.Messages, o.messages...)
		order := o.order
		order.Where = where
		return []mailq.Order{order}, nil
	}
	var orders []mailq.Order
	for _, id := range o.messages {
		order := o.order
		order.Message = id
		orders = append(orders, order)
	}
	for i := range threads {
		order := o.order
		order.Thread = &threads[i]
		orders = append(orders, order)
	}
	return orders, nil
}

// threadNames returns the threads that --thread, --suspend and --lift name.
func (o *options) threadNames() (names []mailq.Name, err error) {
	for _, s := range slices.Concat(o.subjects, o.threads) {
		name, err := mailq.ParseName(s)
		if err != nil {
			return nil, fmt.Errorf("--thread: %w", err)
		}
		switch isPattern := strings.ContainsAny(s, "*?"); {
		case isPattern && (o.order.Verb == mailq.Suspend || o.order.Verb == mailq.Lift):
			return nil, fmt.Errorf("%s %s names one thread, not a pattern; give the order for each thread", o.chosen[0], s)
		case isPattern:
			return nil, fmt.Errorf("--thread %s names one thread, not a pattern; use --where channel=%s --where host=%s",
				s, name.Channel, name.Host)
		}
		names = append(names, name)
	}
	return names, nil
}

// selection returns what --where selects, or nil.
func (o *options) selection() (*mailq.Selection, error) {
	if len(o.where) == 0 {
		return nil, nil
	}
	// The shell has removed the quotes, so blanks belong to the value.
	var words []string
	for _, s := range o.where {
		key, value, _ := strings.Cut(s, "=")
		words = append(words, key+"="+mailq.Quote(value))
	}
	selection, err := mailq.ParseSelection(strings.Join(words, " "))
	if err != nil {
		return nil, fmt.Errorf("--where: %w", err)
	}
	return &selection, nil
}
