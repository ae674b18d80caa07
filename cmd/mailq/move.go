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

// progress is how far --move --all has come.
type progress struct {
	Node      string `json:"node"`
	OnTheWay  int    `json:"on_the_way"` // recipients in channel xfer that the node has not taken yet
	Left      int    `json:"left"`       // other recipients: with agents, or not looked at yet
	Held      int    `json:"held"`       // held messages that are left
	Arrived   int    `json:"arrived"`    // recipients that the node has taken, those of earlier rounds too
	Diagnosis string `json:"diagnosis,omitempty"`
}

func (g *progress) String() string {
	text := fmt.Sprintf("%d arrived at %s, %d on the way, %d left with agents", g.Arrived, g.Node, g.OnTheWay, g.Left)
	if g.Held > 0 {
		text += fmt.Sprintf(", %s", mailq.Plural(g.Held, "held message left", "held messages left"))
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
	sent, last := 0, progress{}
	for {
		for i := range orders {
			did, err := p.client.Order(&orders[i])
			if err != nil && client.KindOf(err) != client.NotDone {
				return err // NotDone: nothing matches
			}
			sent += did.Recipients
		}
		now, err := p.progress(sent)
		if err != nil {
			return err
		}
		if now != last {
			if err := p.printProgress(&now); err != nil {
				return err
			}
			last = now
		}
		if now.OnTheWay+now.Left+now.Held == 0 {
			return nil
		}
		time.Sleep(movePause)
	}
}

// progress counts what is left. sent is how many recipients were ordered to move.
func (p *program) progress(sent int) (progress, error) {
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
	g.Held = len(held)
	g.Arrived = max(0, sent-g.OnTheWay-g.Left)
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
