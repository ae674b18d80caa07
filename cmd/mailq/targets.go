package main

// Targets: the arguments that say what an order, or a list, is about.

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"zsched/mailq"
)

// targets are the arguments by their kinds.
type targets struct {
	messages []string
	threads  []mailq.Name
	where    []string // key=value
}

// controlFile matches the name of a control file below transport/.
var controlFile = regexp.MustCompile(`^([A-Z]/){1,2}[0-9]+(-[0-9]+)?$`)

func parseTargets(args []string) (t targets, err error) {
	for _, arg := range args {
		key, _, isCondition := strings.Cut(arg, "=")
		isThread := strings.Contains(key, "/") && !controlFile.MatchString(arg)
		switch {
		case arg == "":
			return t, errors.New("a target is empty")
		case isCondition && !isThread:
			t.where = append(t.where, arg)
		case isThread:
			name, err := parseThread(arg)
			if err != nil {
				return t, err
			}
			t.threads = append(t.threads, name)
		case strings.ContainsAny(arg, "*?"):
			return t, fmt.Errorf("%s names one message, not a pattern; conditions such as sender=%s take patterns", arg, arg)
		case strings.Contains(arg, "@"):
			return t, fmt.Errorf("%s is no spoolid and no number; conditions such as message-id=%s or sender=%s find mail in lists and orders", arg, arg, arg)
		default:
			t.messages = append(t.messages, arg)
		}
	}
	return t, nil
}

// parseThread reads the name of one thread.
func parseThread(arg string) (mailq.Name, error) {
	name, err := mailq.ParseName(arg)
	if err == nil && strings.ContainsAny(arg, "*?") {
		err = fmt.Errorf("%s names one thread, not a pattern; the conditions channel=%s host=%s take patterns", arg, name.Channel, name.Host)
	}
	return name, err
}

// selection returns what the targets select together, or nil if there are none.
func (t *targets) selection() (*mailq.Selection, error) {
	selection := new(mailq.Selection)
	if len(t.where) > 0 {
		// The shell has removed the quotes, so blanks belong to the value.
		var words []string
		for _, s := range t.where {
			key, value, _ := strings.Cut(s, "=")
			words = append(words, key+"="+mailq.Quote(value))
		}
		var err error
		if *selection, err = mailq.ParseSelection(strings.Join(words, " ")); err != nil {
			return nil, err
		}
	} else if len(t.threads)+len(t.messages) == 0 {
		return nil, nil
	}
	selection.Threads = append(selection.Threads, t.threads...)
	selection.Messages = append(selection.Messages, t.messages...)
	return selection, nil
}

// orders returns the orders for the targets. Targets of one kind are alternatives: there is an
// order for each message or each thread. Different kinds restrict each other: they make one
// selection.
func (o *options) orders(t *targets) ([]mailq.Order, error) {
	switch may := o.order.Verb.Info(); {
	case !may.Where && len(t.messages)+len(t.where) > 0:
		return nil, errors.New("only threads, channel/host, can be lifted")
	case !may.Thread && len(t.messages)+len(t.where) == 0:
		return nil, fmt.Errorf("%s takes a thread only together with a message or a condition", strings.ToLower(string(o.order.Verb)))
	}
	if len(t.where) > 0 || len(t.threads) > 0 && len(t.messages) > 0 {
		where, err := t.selection()
		if err != nil {
			return nil, err
		}
		order := o.order
		order.Where = where
		return []mailq.Order{order}, nil
	}
	var orders []mailq.Order
	for _, id := range t.messages {
		order := o.order
		order.Message = id
		orders = append(orders, order)
	}
	for i := range t.threads {
		order := o.order
		order.Thread = &t.threads[i]
		orders = append(orders, order)
	}
	return orders, nil
}
