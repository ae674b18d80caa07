package client

import (
	"iter"

	"zsched/mailq"
)

// This file asks for what the server answers in JSON.

// Threads yields all threads.
func (c *Client) Threads() iter.Seq2[*mailq.Thread, error] {
	return Objects[mailq.Thread](c.Show("JSON SHOW QUEUE THREADS"))
}

// Totals returns the totals, or nil from a server that refuses them to this user.
func (c *Client) Totals() (totals *mailq.Totals, err error) {
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
