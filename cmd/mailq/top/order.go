package top

// Orders: what the user enters for one, the count, the confirmation.

import (
	"fmt"
	"strings"

	"zsched/mailq"
	"zsched/mailq/client"
	"zsched/mailq/report"
)

// argument is something that the user enters for an order.
type argument struct {
	label string
	set   func(text string) error
}

// propose begins an order for the row under the cursor.
func (v *view) propose(verb *mailq.VerbInfo) {
	r, found := v.page().selected()
	order := mailq.Order{Verb: verb.Verb}
	target := found && setTarget(&order, &r)
	if !target {
		v.note("nothing to " + strings.ToLower(string(verb.Verb)) + " here")
		return
	}
	var arguments []argument
	if verb.To {
		arguments = append(arguments, argument{"reroute to channel/host: ", func(text string) (err error) {
			order.To, err = mailq.ParseName(text)
			return err
		}})
	}
	if verb.For {
		arguments = append(arguments, argument{"hold for a time such as 2h (empty: until released): ", func(text string) (err error) {
			if text != "" {
				order.For, err = mailq.ParseSpan("time", text)
			}
			return err
		}})
	}
	if verb.Effect != "" {
		arguments = append(arguments, argument{strings.ToLower(string(verb.Verb)) + " because (may be empty): ", func(text string) error {
			order.Because = text
			return nil
		}})
	}
	v.readArguments(&order, arguments)
}

// setTarget makes an order one about a row. It returns false if the row is about no mail.
func setTarget(o *mailq.Order, r *report.Row) bool {
	switch {
	case r.Message != "":
		o.Message = r.Message
	case r.Where != nil:
		o.Where = r.Where
	case r.Thread != nil && !o.Verb.Info().Thread: // it takes no threads
		o.Where = &mailq.Selection{Threads: []mailq.Name{*r.Thread}}
	case r.Thread != nil:
		o.Thread = r.Thread
	default:
		return false
	}
	return true
}

// readArguments reads one argument after the other, and then has the server count.
func (v *view) readArguments(order *mailq.Order, arguments []argument) {
	if len(arguments) == 0 {
		v.count(order)
		return
	}
	v.read(arguments[0].label, func(text string) {
		if err := arguments[0].set(text); err != nil {
			v.note(err.Error())
			return
		}
		v.readArguments(order, arguments[1:])
	})
}

// count asks the server what the order would do, and then the user whether to give it.
func (v *view) count(order *mailq.Order) {
	from, dry := v.page(), *order
	dry.DryRun = true
	v.note("counting …")
	v.give(&dry, func(would mailq.Outcome) {
		if v.page() == from && !v.entering {
			v.confirm(order, would)
		}
	})
}

// confirm asks the user whether to give the order. For many messages, the answer
// must be a whole word.
func (v *view) confirm(order *mailq.Order, would mailq.Outcome) {
	answers := "y/n"
	if would.Messages > mailq.MaxUnconfirmed {
		answers = "yes/n"
	}
	v.note(fmt.Sprintf("%s: %s?", order, outcomeText(order, would)))
	v.read("give the order ("+answers+"): ", func(text string) {
		if text != "yes" && (text != "y" || answers != "y/n") {
			v.note("nothing done")
			return
		}
		v.note("asking …")
		v.give(order, func(did mailq.Outcome) {
			v.note(fmt.Sprintf("done: %s %s", order.Verb, outcomeText(order, did)))
			v.refresh()
		})
	})
}

// give gives an order, or has it counted, and then calls done, unless it fails.
func (v *view) give(order *mailq.Order, done func(mailq.Outcome)) {
	var did mailq.Outcome
	v.ask(func() error {
		return v.session(func(c *client.Client) (err error) {
			did, err = c.Order(order)
			return err
		})
	}, func(err error) {
		v.note("")
		if err != nil {
			v.note(fmt.Sprintf("%s: %v", order.Verb, client.RefusalOf(err, "orders")))
			return
		}
		done(did)
	})
}

// outcomeText says in one line what an order did or would do.
func outcomeText(o *mailq.Order, did mailq.Outcome) string {
	return strings.TrimSuffix(strings.ReplaceAll(strings.Join(did.Sentences(o), " "), ". ", "; "), ".")
}
