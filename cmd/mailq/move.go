package main

// Draining a node: mailq drain.

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"time"

	"zsched/ctlfile"
	"zsched/internal/text"
	"zsched/mailq"
	"zsched/mailq/client"
)

const (
	// drainPause is how long mailq drain waits before it looks again.
	drainPause = time.Second
	// drainAgain is after how long it gives the order again although nothing has changed:
	// each order is an event of the mail that it concerns.
	drainAgain = time.Minute
)

// progress is how far mailq drain has come.
type progress struct {
	Node      string `json:"node"`
	Arrived   int    `json:"arrived"`             // recipients that were here at the beginning and are gone
	OnTheWay  int    `json:"on_the_way"`          // recipients in channel xfer that the node has not taken yet
	Left      int    `json:"left"`                // other recipients: with agents, or not moved yet
	Unloaded  int    `json:"unloaded,omitempty"`  // messages that the scheduler cannot load, because they are locked, for example
	Finishing int    `json:"finishing,omitempty"` // messages without recipients, whose notices or files are being worked on
	Reason    string `json:"reason,omitempty"`    // why what is on the way waits
}

func (g *progress) String() string {
	line := fmt.Sprintf("%d arrived at %s, %d on the way, %d left", g.Arrived, g.Node, g.OnTheWay, g.Left)
	if g.Unloaded > 0 {
		line += fmt.Sprintf(", %d not loaded", g.Unloaded)
	}
	if g.Finishing > 0 {
		line += fmt.Sprintf(", %d finishing", g.Finishing)
	}
	if g.Reason != "" {
		line += " (" + g.Reason + ")"
	}
	return line
}

// waits reports whether there is mail that can still move.
func (g *progress) waits() bool { return g.OnTheWay+g.Left+g.Unloaded+g.Finishing > 0 }

// runDrain moves all mail to the node that the argument names.
func (p *program) runDrain(args []string) error {
	if err := p.setNode(args[0]); err != nil {
		return err
	}
	p.order.Where = &mailq.Selection{Channel: "*"}
	return p.ask(p.moveAll)
}

// moveAll moves all mail to another node and waits until it has arrived. It prints a
// line whenever something has changed, and at the end what is left here and why.
func (p *program) moveAll() error {
	if p.order.DryRun {
		return p.act([]mailq.Order{p.order})
	}
	if err := p.confirm([]mailq.Order{p.order}); err != nil {
		return err
	}
	if err := p.checkNode(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var last progress
	var orderedAt time.Time
	first := -1
	why := ""
	for {
		now, err := p.progress()
		if err != nil {
			return err
		}
		if first < 0 {
			first = now.OnTheWay + now.Left
		}
		now.Arrived = max(0, first-now.OnTheWay-now.Left)
		if now != last {
			if err := p.printItem(&now, now.String()); err != nil {
				return err
			}
		}
		if !now.waits() || ctx.Err() != nil {
			return p.leave(&now, why)
		}
		if now.Left > 0 && (now != last || time.Since(orderedAt) > drainAgain) {
			_, err := p.client.Order(&p.order)
			switch {
			case client.KindOf(err) == client.NotDone:
				why = err.Error()
			case err != nil:
				return err
			}
			orderedAt = time.Now()
		}
		last = now
		select {
		case <-time.After(drainPause):
		case <-ctx.Done():
		}
	}
}

// checkNode returns the error with which the scheduler refuses to move mail to that node,
// or nil. It tries that with a thread that has no mail.
func (p *program) checkNode() error {
	order := p.order
	order.Where, order.Thread, order.DryRun = nil, &mailq.Name{Channel: "-", Host: "-"}, true
	if _, err := p.client.Order(&order); err != nil && err.Error() != mailq.NothingMatches {
		return err
	}
	return nil
}

// progress counts what is here and can move.
func (p *program) progress() (progress, error) {
	g := progress{Node: p.order.To.Host}
	held := make(map[mailq.Name]bool) // threads
	for t, err := range p.client.Threads() {
		switch {
		case err != nil:
			return g, err
		case t.Held:
			held[t.Name] = true
		case t.Channel == ctlfile.TransferChannel && t.Host == g.Node:
			g.OnTheWay += t.Recipients
			g.Reason = text.Escape(t.Reason)
		default:
			g.Left += t.Recipients
		}
	}
	for item, err := range client.Objects[mailq.HeldItem](p.client.Show("JSON SHOW HELD")) {
		if err != nil {
			return g, err
		}
		if !item.IsThread() && item.Order == "" && !held[item.Name] {
			g.Left -= len(item.Recipients)
		}
	}
	g.Left = max(0, g.Left) // the lists were read one after the other
	totals, err := p.client.Totals()
	if err == nil {
		g.Unloaded = totals.Unloaded.Count
		if g.OnTheWay+g.Left == 0 && totals.HeldThreads.Count == 0 {
			g.Finishing = totals.Messages - totals.Held.Count
		}
	}
	return g, err
}

// remains is a line about what is left here.
type remains struct {
	Node  string `json:"node"`
	Left  string `json:"left_here"`
	Count int    `json:"count"`
	Why   string `json:"why"`
}

// leave prints what is left here, and why the rest does not move. If something is left, the
// error is errSilent.
func (p *program) leave(g *progress, why string) error {
	totals, err := p.client.Totals()
	if err != nil {
		return err
	}
	heldThreads := 0
	for t, err := range p.client.Threads() {
		if err != nil {
			return err
		}
		if t.Held {
			heldThreads += t.Recipients
		}
	}
	router := "the router has not routed it yet"
	if totals.Router.Dead {
		router = "the router is not running"
	}
	left := false
	for _, r := range []remains{
		{"", "recipients on the way", g.OnTheWay, cmp.Or(g.Reason, "the node has not answered yet")},
		{"", "recipients in the queue", g.Left, cmp.Or(why, "with agents, or not moved yet")},
		{"", "held messages", totals.Held.Count, "held mail is not moved: release it first"},
		{"", "recipients of held threads", heldThreads, "held mail is not moved: release it first"},
		{"", "parked messages", totals.Parked.Count, "their notices cannot be written"},
		{"", "messages without recipients", g.Finishing, "notices are being written, or files removed"},
		{"", "messages not loaded", totals.Unloaded.Count, totals.Unloaded.Reason},
		{"", "quarantined messages", totals.Quarantined.Count, cmp.Or(totals.Quarantined.Reason, "they cannot be read")},
		{"", "messages in router/", totals.Router.Count, router},
	} {
		if r.Count == 0 {
			continue
		}
		r.Node, r.Why, left = g.Node, text.Escape(r.Why), true
		if err := p.printItem(&r, fmt.Sprintf("left here: %d %s: %s", r.Count, r.Left, r.Why)); err != nil {
			return err
		}
	}
	if left {
		return errSilent
	}
	return nil
}

// printItem prints a value as JSON or in words.
func (p *program) printItem(value any, words string) error {
	var err error
	if p.json {
		err = json.NewEncoder(p.out).Encode(value)
	} else {
		_, err = fmt.Fprintln(p.out, words)
	}
	if err == nil {
		err = p.out.Flush()
	}
	return err
}
