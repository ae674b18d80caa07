package top

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"zsched/mailq"
	"zsched/mailq/client"
)

// target is what an order is for: a message, a thread or a selection.
type target struct {
	message string
	queued  bool // the message is in the queue, neither held nor parked
	thread  *mailq.Name
	where   *mailq.Selection
}

func (t target) isZero() bool { return t == target{} }

func (t target) String() string {
	switch {
	case t.thread != nil:
		return "thread " + t.thread.Channel + "/" + t.thread.Host
	case t.where != nil:
		return "mail with " + t.where.String()
	}
	return "message " + t.message
}

// proposal is an order that the user prepares, line by line: first its arguments,
// then, when the server has counted what it would affect, the answer to a question.
type proposal struct {
	order   mailq.Order // without a target
	on      *page
	targets []target
	ask     []prompt // what is still to be entered
}

// prompt is a line that the user enters at the foot of the screen.
type prompt struct {
	label string
	text  string
	// changed is called after each key, and done when the line is complete; an
	// error keeps the line open. canceled is called for Esc. changed and canceled
	// may be nil.
	changed  func(text string)
	done     func(text string) (question, error)
	canceled func()
}

// orderKeys are the keys of the orders.
var orderKeys = map[rune]mailq.Verb{
	'h': mailq.Hold, 'r': mailq.Release, 't': mailq.Retry, 'X': mailq.Expire, 'K': mailq.Kill,
	'Q': mailq.Requeue, 'R': mailq.Reroute,
}

// propose begins an order for the marked rows, or else the row under the cursor.
func (v *view) propose(verb mailq.Verb) question {
	p := v.page()
	targets := p.targets()
	if len(targets) == 0 {
		v.note = "nothing to " + strings.ToLower(string(verb)) + " here"
		return nil
	}
	v.proposal = &proposal{order: mailq.Order{Verb: verb}, on: p, targets: targets}
	o := &v.proposal.order
	verbName := strings.ToLower(string(verb))
	if verb == mailq.Reroute {
		v.askFor("reroute to channel/host: ", func(text string) (err error) {
			o.To, err = mailq.ParseName(text)
			return err
		})
	}
	if verb == mailq.Hold {
		v.askFor("hold for a time such as 2h (empty: until released): ", func(text string) (err error) {
			if text != "" {
				o.For, err = mailq.ParseSpan("time", text)
			}
			return err
		})
	}
	if verb != mailq.Retry && verb != mailq.Release {
		v.askFor(verbName+" because (may be empty): ", func(text string) error {
			o.Why = text
			return nil
		})
	}
	return v.nextPrompt()
}

// askFor adds an argument that the user is asked for.
func (v *view) askFor(label string, set func(string) error) {
	v.proposal.ask = append(v.proposal.ask, prompt{
		label: label,
		done: func(text string) (question, error) {
			if err := set(strings.TrimSpace(text)); err != nil {
				return nil, err
			}
			return v.nextPrompt(), nil
		},
		canceled: v.cancelOrder,
	})
}

// nextPrompt asks for the next argument, or has the server count.
func (v *view) nextPrompt() question {
	p := v.proposal
	if len(p.ask) > 0 {
		v.prompt = &p.ask[0]
		p.ask = p.ask[1:]
		return nil
	}
	v.prompt = nil
	v.note = "counting …"
	orders, err := p.orders(true)
	if err != nil {
		v.proposal, v.note = nil, err.Error()
		return nil
	}
	return func(source Source) answer {
		would, failed, err := source.Orders(orders)
		return func(v *view) question {
			if v.proposal != p {
				return nil // canceled meanwhile
			}
			if err == nil && (would == mailq.Outcome{}) && len(failed) > 0 {
				err = failed[0]
			}
			if err != nil {
				v.proposal, v.note = nil, p.failure(err)
				return nil
			}
			v.note = ""
			v.confirm(p, would)
			return nil
		}
	}
}

// maxUnconfirmed is how many messages an order may affect and still be confirmed with
// one key. It is the number that mailq accepts without --yes.
const maxUnconfirmed = 100

// confirm asks the user whether to give the order. For many messages, the answer
// must be a whole word.
func (v *view) confirm(p *proposal, would mailq.Outcome) {
	text := fmt.Sprintf("%s %s", p.order.Verb, p.name())
	if p.order.Verb == mailq.Reroute {
		text += " to " + p.order.To.Channel + "/" + p.order.To.Host
	}
	if p.order.For > 0 {
		text += " for " + mailq.FormatSpan(p.order.For)
	}
	if would.Messages <= maxUnconfirmed {
		v.unconfirmed = fmt.Sprintf("%s: %s? (y/n)", text, outcomeText(&p.order, would))
		return
	}
	v.prompt = &prompt{
		label: fmt.Sprintf("%s would touch %d messages%s; type yes: ", text, would.Messages, would.HeldNote(&p.order)),
		done: func(text string) (question, error) {
			v.prompt = nil
			if text != "yes" {
				v.cancelOrder()
				return nil, nil
			}
			return v.give(p), nil
		},
		canceled: v.cancelOrder,
	}
}

func (v *view) cancelOrder() {
	v.proposal, v.unconfirmed, v.note = nil, "", "nothing done"
}

// give gives the order and then refreshes the view.
func (v *view) give(p *proposal) question {
	v.proposal, v.unconfirmed = nil, ""
	orders, err := p.orders(false)
	if err != nil {
		v.note = err.Error()
		return nil
	}
	v.note = fmt.Sprintf("%s %s …", p.order.Verb, p.name())
	return func(source Source) answer {
		did, failed, err := source.Orders(orders)
		return func(v *view) question {
			p.on.clearMarks()
			v.note = fmt.Sprintf("%s %s", p.order.Verb, outcomeText(&p.order, did))
			if len(failed) > 0 {
				v.note += fmt.Sprintf("; %d not done: %v", len(failed), failed[0])
			}
			if err != nil {
				v.note = p.failure(err)
				if (did != mailq.Outcome{}) {
					v.note += "; done before that: " + outcomeText(&p.order, did)
				}
			}
			return v.refresh()
		}
	}
}

// failure says that the order was not given.
func (p *proposal) failure(err error) string {
	return fmt.Sprintf("%s: %v", p.order.Verb, client.RefusalOf(err, "orders"))
}

// name says what the order is for.
func (p *proposal) name() string {
	if len(p.targets) == 1 {
		return p.targets[0].String()
	}
	return fmt.Sprintf("%d marked lines", len(p.targets))
}

// maxTogether bounds the bytes that name the targets of one order: a command has at most
// mailq.MaxLine.
const maxTogether = mailq.MaxLine / 2

// orders returns the orders for the targets: one for all those that a selection can name, and
// one for each of the others.
func (p *proposal) orders(dryRun bool) ([]mailq.Order, error) {
	orders := make([]mailq.Order, 0, len(p.targets))
	var threads, messages *mailq.Selection // to which targets are added
	for _, t := range p.targets {
		together := &threads
		if t.thread == nil {
			together = &messages
		}
		if len(p.targets) > 1 && p.isJoined(t) {
			if *together == nil || len((*together).String())+len(t.String()) > maxTogether {
				o := p.order
				*together = new(mailq.Selection)
				o.DryRun, o.Where = dryRun, *together
				orders = append(orders, o)
			}
			if t.thread != nil {
				threads.Threads = append(threads.Threads, *t.thread)
			} else if !slices.Contains(messages.Messages, t.message) {
				messages.Messages = append(messages.Messages, t.message)
			}
			continue
		}
		o := p.order
		o.DryRun = dryRun
		o.Message, o.Thread, o.Where = t.message, t.thread, t.where
		if t.thread != nil && o.Verb == mailq.Requeue { // it takes no threads
			if o.Thread, o.Where = nil, selectionOf(*t.thread); o.Where == nil {
				return nil, errors.New("no selection matches only the " + t.String())
			}
		}
		orders = append(orders, o)
	}
	return orders, nil
}

// isJoined reports whether an order for a selection does the same to a target as one for it
// alone. A hold of a thread, and its release, are about later mail too. A requeue or reroute of
// a message sends it as one, and only an order for a message alone is for a held one.
func (p *proposal) isJoined(t target) bool {
	switch verb := p.order.Verb; {
	case t.thread != nil:
		return verb != mailq.Hold && verb != mailq.Release && selectionOf(*t.thread) != nil
	case t.queued:
		return verb == mailq.Kill || verb == mailq.Expire || verb == mailq.Retry
	}
	return false
}

// selectionOf returns the selection of a thread's mail, or nil if the name, read
// as patterns, would match others too.
func selectionOf(name mailq.Name) *mailq.Selection {
	if name.Channel == "" || name.Host == "" || strings.ContainsAny(name.Channel+name.Host, "*?") {
		return nil
	}
	return &mailq.Selection{Channel: name.Channel, Host: name.Host}
}

// outcomeText says in one line what an order did or would do.
func outcomeText(o *mailq.Order, did mailq.Outcome) string {
	sentences := did.Sentences(o)
	for i := range sentences {
		sentences[i] = strings.TrimSuffix(sentences[i], ".")
	}
	return strings.Join(sentences, "; ")
}
