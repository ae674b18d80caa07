package client

import (
	"iter"
	"strings"

	"zsched/mailq"
)

// This file asks for threads and jobs: as JSON, or as text from a server that has
// no JSON.

// jsonSupport says whether the server has JSON.
type jsonSupport int

const (
	unknown jsonSupport = iota
	noJSON
	hasJSON
)

// HasJSON reports whether the server has JSON, as ours does. It sends HELP once,
// which ZMailer's server refuses.
func (c *Client) HasJSON() (bool, error) {
	if c.json == unknown {
		found := noJSON
		for line, err := range c.Show("HELP") {
			if KindOf(err) == Refused {
				break
			}
			if err != nil {
				return false, err
			}
			if strings.HasPrefix(line, "[JSON] ") {
				found = hasJSON
			}
		}
		c.json = found
	}
	return c.json == hasJSON, nil
}

// Threads yields all threads. From a server without JSON they have only names,
// counts and what they wait for.
func (c *Client) Threads() iter.Seq2[*mailq.ThreadItem, error] {
	return func(yield func(*mailq.ThreadItem, error) bool) {
		json, err := c.HasJSON()
		switch {
		case err != nil:
			yield(nil, err)
		case json:
			Objects[mailq.ThreadItem](c.Show("JSON SHOW QUEUE THREADS"))(yield)
		default:
			for line, err := range c.Show("SHOW QUEUE THREADS2") {
				var t *mailq.ThreadItem
				if err == nil {
					if t, err = parseThread(line); err != nil {
						_ = c.breakOff(err)
					}
				}
				if !yield(t, err) || err != nil {
					return
				}
			}
		}
	}
}

// Totals returns the totals, or nil from a server without JSON or one that refuses
// them to this user.
func (c *Client) Totals() (totals *mailq.Totals, err error) {
	if json, err := c.HasJSON(); err != nil || !json {
		return nil, err
	}
	for t, err := range Objects[mailq.Totals](c.Show("JSON SHOW SNMP")) {
		if KindOf(err) == Refused {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		totals = t
	}
	return totals, nil
}

// List returns the objects of an answer in JSON, at most limit of them, and whether there are
// more. If there are, the client can only be closed.
func List[T any](c *Client, command string, limit int) (items []*T, more bool, err error) {
	for item, err := range Objects[T](c.Show("JSON " + command)) {
		if err != nil {
			return nil, false, err
		}
		if len(items) == limit {
			return items, true, nil
		}
		items = append(items, item)
	}
	return items, false, nil
}

// Order gives an order and returns what it did.
func (c *Client) Order(order *mailq.Order) (mailq.Outcome, error) {
	text, err := c.Ask(order.String())
	if err != nil {
		return mailq.Outcome{}, err
	}
	did, err := mailq.ParseOutcome("+" + text)
	if err != nil {
		return did, &Error{Kind: Unavailable, Err: err}
	}
	return did, nil
}
