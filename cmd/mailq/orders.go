package main

// Orders: what mailq hold, kill, reroute and the others do with their targets.

import (
	"encoding/json"
	"fmt"
	"strings"

	"zsched/ctlfile"
	"zsched/internal/text"
	"zsched/mailq"
	"zsched/mailq/client"
	"zsched/scheduler/view"
)

// runOrder gives the orders of a subcommand.
func (p *program) runOrder(args []string) error {
	orders, err := p.parseOrders(args)
	if err != nil {
		return usageError(err.Error())
	}
	return p.ask(func() error { return p.act(orders) })
}

// parseOrders returns the orders for the targets that the arguments name.
func (p *program) parseOrders(args []string) (orders []mailq.Order, err error) {
	targets, err := parseTargets(args)
	if err != nil {
		return nil, err
	}
	if p.order.Verb == view.VerbReroute && p.order.To == (mailq.Name{}) {
		return nil, fmt.Errorf("%s needs --to", p.what)
	}
	return p.options.orders(&targets)
}

// act gives orders and prints what each did. An order that cannot be executed is
// reported, and the next one is given; act returns any other error at once.
func (p *program) act(orders []mailq.Order) error {
	if err := p.confirm(orders); err != nil {
		return err
	}
	var failed error
	for i := range orders {
		order := &orders[i]
		did, err := p.asker.client.Order(order)
		if client.KindOf(err) == client.NotDone {
			fmt.Fprintf(p.asker.stderr, "mailq: %s: %v\n", text.Escape(targetOf(order)), err)
			failed = errSilent
			continue
		}
		if err != nil {
			return err
		}
		switch {
		case did.Threads == 0: // nothing is done to what was selected
			failed = errSilent
		case order.Verb == view.VerbHold && order.Thread != nil && did.Messages == 0:
			fmt.Fprintf(p.asker.stderr, "mailq: %s has no mail now\n", text.Escape(targetOf(order)))
		}
		if p.json {
			err = json.NewEncoder(p.out).Encode(orderItem{order.Verb, order.DryRun, targetOf(order), did})
		} else {
			_, err = fmt.Fprintln(p.out, outcomeText(order, did, len(orders) > 1))
		}
		if err != nil {
			return err
		}
	}
	return failed
}

// confirm refuses orders that would touch many messages, unless the user has
// given --yes. The scheduler counts them in a dry run, except a few that are named.
func (p *program) confirm(orders []mailq.Order) error {
	if p.yes || p.order.DryRun {
		return nil
	}
	messages := 0
	for _, order := range orders {
		if order.Message != "" && len(orders) <= mailq.MaxUnconfirmed && order.To.Channel != ctlfile.TransferChannel {
			messages++
			continue
		}
		order.DryRun = true
		would, err := p.asker.client.Order(&order)
		if err != nil && client.KindOf(err) != client.NotDone {
			return err
		}
		messages += would.Messages
	}
	if messages > mailq.MaxUnconfirmed {
		return fmt.Errorf("%s would touch %d messages; give --yes if that is what you want", p.what, messages)
	}
	return nil
}

// orderItem is the line of --json for an order.
type orderItem struct {
	Verb   view.Verb `json:"verb"`
	DryRun bool      `json:"dry_run"`
	Target string    `json:"target"`
	mailq.Outcome
}

// targetOf says what an order is about.
func targetOf(o *mailq.Order) string {
	switch {
	case o.Thread != nil:
		return "thread " + o.Thread.Channel + "/" + o.Thread.Host
	case o.Where != nil:
		return o.Where.String()
	}
	return "message " + o.Message
}

// outcomeText says what an order did, and if named is true, to what.
func outcomeText(o *mailq.Order, did mailq.Outcome, named bool) string {
	s := text.Escape(string(o.Verb) + " " + strings.Join(did.Sentences(o.Verb), " "))
	if o.DryRun {
		s = "DRYRUN " + s
	}
	if named {
		s = text.Escape(targetOf(o)) + ": " + s
	}
	return s
}
