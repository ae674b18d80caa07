package main

// Draining a node: --move --all.

import (
	"encoding/json"
	"fmt"
	"time"

	"zsched/ctlfile"
	"zsched/mailq"
	"zsched/mailq/client"
)

// movePause is how long --move --all waits before it looks again. New mail and
// recipients that an agent was working on are moved in the next round.
const movePause = time.Second

// progress is how far --move --all has come, in recipients.
type progress struct {
	Node      string `json:"node"`
	Arrived   int    `json:"arrived"`    // recipients that were here at the beginning and are gone
	OnTheWay  int    `json:"on_the_way"` // those in channel xfer that the node has not taken yet
	Left      int    `json:"left"`       // others: with agents, or not moved yet
	Held      int    `json:"held"`       // those of held messages
	Diagnosis string `json:"diagnosis,omitempty"`
}

func (g *progress) String() string {
	text := fmt.Sprintf("%d arrived at %s, %d on the way, %d left", g.Arrived, g.Node, g.OnTheWay, g.Left)
	if g.Held > 0 {
		text += fmt.Sprintf(", %d held", g.Held)
	}
	if g.Diagnosis != "" {
		text += " (" + g.Diagnosis + ")"
	}
	return text
}

// moveAll moves all mail to another node and waits until it has arrived. It prints a
// line whenever something has changed.
func (p *program) moveAll() error {
	orders := make([]mailq.Order, 2)
	for i, where := range []mailq.Selection{{State: mailq.StateHeld}, {Channel: "*"}} {
		orders[i] = p.order
		orders[i].Where = &where
	}
	if p.order.DryRun {
		return p.act(orders)
	}
	if err := p.confirm(orders[1:]); err != nil {
		return err
	}
	first, err := p.progress()
	if err != nil {
		return err
	}
	last := progress{}
	for {
		for i := range orders {
			_, err := p.client.Order(&orders[i])
			if err != nil && client.KindOf(err) != client.NotDone { // NotDone: nothing matches
				return err
			}
		}
		now, err := p.progress()
		if err != nil {
			return err
		}
		now.Arrived = max(0, first.total()-now.total())
		if now != last {
			if err := p.printProgress(&now); err != nil {
				return err
			}
			last = now
		}
		if now.total() == 0 {
			return nil
		}
		time.Sleep(movePause)
	}
}

func (g *progress) total() int { return g.OnTheWay + g.Left + g.Held }

// progress counts the recipients that are here.
func (p *program) progress() (progress, error) {
	g := progress{Node: p.order.To.Host}
	for t, err := range p.client.Threads() {
		switch {
		case err != nil:
			return g, err
		case t.Channel == ctlfile.TransferChannel && t.Host == p.order.To.Host:
			g.OnTheWay += t.Recipients
			g.Diagnosis = client.Plain(t.Reason)
		default:
			g.Left += t.Recipients
		}
	}
	held, err := p.heldMessages()
	for _, item := range held {
		g.Held += len(item.Recipients)
	}
	return g, err
}

func (p *program) printProgress(g *progress) error {
	var err error
	if p.json {
		err = json.NewEncoder(p.out).Encode(g)
	} else {
		_, err = fmt.Fprintln(p.out, g)
	}
	if err == nil {
		err = p.out.Flush()
	}
	return err
}
