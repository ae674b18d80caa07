package main

// Draining a node: mailq drain.

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/internal/text"
	"zsched/mailq"
	"zsched/mailq/client"
	"zsched/xfer"
)

const (
	// movePause is how long mailq drain waits before it looks again. New mail and
	// recipients that an agent was working on are moved in the next round.
	movePause = time.Second
	// moveRounds is how many rounds may pass without any change before mailq drain
	// gives up on mail that cannot be moved.
	moveRounds = 5
	// orderRounds is the most rounds that pass until the orders are given again. While
	// nothing changes, they are given ever more rarely: each is an event of the mail
	// that it concerns.
	orderRounds = 60
	// refusedLines bounds the refused recipients that are named at the end.
	refusedLines = 100
)

// progress is how far mailq drain has come.
type progress struct {
	Node      string `json:"node"`
	Arrived   int    `json:"arrived"`             // recipients that were here at the beginning and are gone
	OnTheWay  int    `json:"on_the_way"`          // recipients in channel xfer that the node has not taken yet
	Left      int    `json:"left"`                // other recipients: with agents, or not moved yet
	Held      int    `json:"held"`                // recipients of held messages
	Parked    int    `json:"parked,omitempty"`    // messages in postman/
	Unloaded  int    `json:"unloaded,omitempty"`  // messages that the scheduler cannot load, because they are locked, for example
	Finishing int    `json:"finishing,omitempty"` // messages without recipients, whose notices or files are being worked on
	Diagnosis string `json:"diagnosis,omitempty"`
}

func (g *progress) String() string {
	text := fmt.Sprintf("%d arrived at %s, %d on the way, %d left", g.Arrived, g.Node, g.OnTheWay, g.Left)
	for _, more := range []struct {
		n    int
		what string
	}{{g.Held, "held"}, {g.Parked, "parked"}, {g.Unloaded, "not loaded"}, {g.Finishing, "finishing"}} {
		if more.n > 0 {
			text += fmt.Sprintf(", %d %s", more.n, more.what)
		}
	}
	if g.Diagnosis != "" {
		text += " (" + g.Diagnosis + ")"
	}
	return text
}

// recipients returns how many recipients are still here.
func (g *progress) recipients() int { return g.OnTheWay + g.Left + g.Held }

// drain is one mailq drain.
type drain struct {
	*program
	orders []mailq.Order // for held, parked and other mail
	errors []string      // of each order, in the last round; "": none
	first  int           // recipients at the beginning
	last   progress
	same   int // rounds without a change
	skip   int // rounds until the orders are given again
	gap    int // skip after that, if nothing changes
	// refused are the recipients that the node refuses, as far as they are known since
	// the last change.
	refused []refusal
}

// refusal is a recipient that the node refuses.
type refusal struct {
	path, spoolID string // of its message
	offset        int64
	reason        string
}

// runDrain moves all mail to the node that the argument names.
func (p *program) runDrain(args []string) error {
	if err := p.setNode(args[0]); err != nil {
		return err
	}
	return p.ask(p.moveAll)
}

// moveAll moves all mail to another node and waits until it has arrived. It prints a
// line whenever something has changed, and at the end what is left here and why.
func (p *program) moveAll() error {
	p.drains = true
	d := &drain{program: p}
	for _, where := range []mailq.Selection{{State: mailq.StateHeld}, {State: mailq.StateParked}, {Channel: "*"}} {
		order := p.order
		order.Where = &where
		d.orders = append(d.orders, order)
	}
	if p.order.DryRun {
		return d.dryRun()
	}
	if err := p.confirm(d.orders[2:]); err != nil {
		return err
	}
	if err := d.checkNode(); err != nil {
		return err
	}
	first, err := d.count()
	if err != nil {
		return err
	}
	d.first = first.recipients()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	for {
		done, err := d.round()
		if err != nil {
			return err
		}
		if done || ctx.Err() != nil {
			return d.leave()
		}
		select {
		case <-time.After(movePause):
		case <-ctx.Done():
		}
	}
}

// dryRun prints what each of the orders would do. It is no error if there is no held or
// parked mail.
func (d *drain) dryRun() error {
	if err := d.checkNode(); err != nil {
		return err
	}
	var some []mailq.Order
	for _, order := range d.orders {
		_, err := d.client.Order(&order)
		if err == nil || err.Error() != mailq.NothingMatches {
			some = append(some, order)
		}
	}
	if len(some) == 0 {
		return errors.New(mailq.NothingMatches)
	}
	return d.act(some)
}

// checkNode returns the error with which the scheduler refuses to move mail to that node,
// or nil. It tries that with a thread that has no mail: the scheduler refuses a move of any
// thread of another channel than xfer to its own node.
func (d *drain) checkNode() error {
	order := d.order
	order.Thread, order.DryRun = &mailq.Name{Channel: "-", Host: "-"}, true
	if _, err := d.client.Order(&order); err != nil && err.Error() != mailq.NothingMatches {
		return err
	}
	return nil
}

// round gives the orders, if they are due, and counts what is left. done says that nothing
// is left that could still move.
func (d *drain) round() (done bool, err error) {
	due := d.skip == 0
	if due {
		d.skip, d.gap = d.gap, min(2*d.gap+1, orderRounds)
		err = d.giveOrders()
	} else {
		d.skip--
	}
	if err != nil {
		return false, err
	}
	now, err := d.count()
	if err != nil {
		return false, err
	}
	now.Arrived = max(0, d.first-now.recipients())
	if now == d.last {
		d.same++
	} else {
		d.same, d.last, d.skip, d.gap, d.refused = 0, now, 0, 0, nil
		if err := d.print(&now, now.String()); err != nil {
			return false, err
		}
	}
	// Not in each round: the scheduler lists all that is on the way for that.
	if now.OnTheWay > 0 && (d.same == moveRounds || d.same > moveRounds && due) {
		if err := d.findRefused(); err != nil {
			return false, err
		}
	}
	switch {
	case now.OnTheWay-len(d.refused)+now.Left+now.Unloaded+now.Finishing > 0:
		return false, nil // the mail waits for an agent, or for a process that has locked it
	case now.Held+now.Parked+now.OnTheWay > 0:
		return d.same >= moveRounds, nil
	}
	return true, nil
}

// giveOrders gives the orders once.
func (d *drain) giveOrders() error {
	d.errors = make([]string, len(d.orders))
	for i := range d.orders {
		_, err := d.client.Order(&d.orders[i])
		switch {
		case client.KindOf(err) == client.NotDone: // also if there is no such mail
			d.errors[i] = err.Error()
		case err != nil:
			return err
		}
	}
	return nil
}

// findRefused finds out which recipients on the way are refused by the node.
func (d *drain) findRefused() error {
	d.refused = nil
	where := mailq.Selection{Channel: ctlfile.TransferChannel, Host: d.order.To.Host}
	for job, err := range client.Objects[mailq.Job](d.client.Show("JSON SHOW WHERE " + where.String())) {
		if err != nil {
			return err
		}
		for i := range job.Recipients {
			if r := &job.Recipients[i]; xfer.IsFinal(r.Code) {
				d.refused = append(d.refused, refusal{job.Path, job.SpoolID, r.Offset, r.Reason})
			}
		}
	}
	return nil
}

// refusedText returns a line for each recipient that the node refuses: its message, its
// address and the reason. The last line says how many there are beyond refusedLines.
func (d *drain) refusedText() (lines []string, err error) {
	var spoolID string
	var users map[int64]string
	for i, r := range d.refused {
		if i == refusedLines {
			return append(lines, fmt.Sprintf("%d more recipients that the node refuses: mailq list channel=%s host=%s",
				len(d.refused)-i, ctlfile.TransferChannel, d.order.To.Host)), nil
		}
		if r.spoolID != spoolID {
			spoolID = r.spoolID
			if users, err = d.users(spoolID); err != nil {
				return nil, err
			}
		}
		lines = append(lines, strings.TrimSpace(r.path+" "+users[r.offset])+": "+r.reason)
	}
	return lines, nil
}

// users returns the addresses of the recipients of a message, by offset. There are none if
// the message is gone.
func (d *drain) users(spoolID string) (map[int64]string, error) {
	users := make(map[int64]string)
	for m, err := range client.Objects[mailq.Message](d.client.Show("JSON " + mailq.ShowMessage(spoolID))) {
		if client.KindOf(err) == client.NotDone {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		for i := range m.Recipients {
			users[m.Recipients[i].Offset] = m.Recipients[i].User
		}
	}
	return users, nil
}

// count counts what is here.
func (d *drain) count() (progress, error) {
	g := progress{Node: d.order.To.Host}
	for t, err := range d.client.Threads() {
		switch {
		case err != nil:
			return g, err
		case t.Channel == ctlfile.TransferChannel && t.Host == g.Node:
			g.OnTheWay += t.Recipients
			g.Diagnosis = text.Escape(t.Reason)
		default:
			g.Left += t.Recipients
		}
	}
	held, err := d.heldMessages()
	if err != nil {
		return g, err
	}
	for _, item := range held {
		g.Held += len(item.Recipients)
	}
	totals, err := d.client.Totals()
	if err == nil {
		g.Parked, g.Unloaded = totals.Parked.Count, totals.Unloaded.Count
		if g.OnTheWay+g.Left == 0 {
			g.Finishing = totals.Messages
		}
	}
	return g, err
}

// remains is the last line with --json.
type remains struct {
	Node string   `json:"node"`
	Left []string `json:"remains"` // what is left here, and why
}

// leave prints what is left here, and why. If something is, the error is errSilent.
func (d *drain) leave() error {
	totals, err := d.client.Totals()
	if err != nil {
		return err
	}
	r := remains{Node: d.order.To.Host, Left: []string{}}
	add := func(n int, one, several, why string) {
		if n > 0 {
			r.Left = append(r.Left, text.Escape(mailq.Plural(n, one, several)+": "+why))
		}
	}
	refused, err := d.refusedText()
	if err != nil {
		return err
	}
	for _, s := range refused {
		r.Left = append(r.Left, text.Escape(s))
	}
	add(d.last.OnTheWay-len(d.refused), "recipient on the way", "recipients on the way", cmp.Or(d.last.Diagnosis, "the node has not answered yet"))
	for t, err := range d.client.Threads() {
		if err != nil {
			return err
		}
		if t.Channel != ctlfile.TransferChannel || t.Host != r.Node {
			of := fmt.Sprintf(" of %s/%s", t.Channel, t.Host)
			why := "with agents, or not moved yet"
			if t.Channel == ctlfile.TransferChannel {
				why = cmp.Or(d.errors[2], why)
			}
			add(t.Recipients, "recipient"+of, "recipients"+of, why)
		}
	}
	router := "the router has not routed them yet"
	if totals.Router.Dead {
		router = "the router is not running"
	}
	add(d.last.Held, "held recipient", "held recipients", d.errors[0])
	add(d.last.Parked, "parked message", "parked messages", d.errors[1])
	add(d.last.Finishing, "message without recipients", "messages without recipients", "notices are being written, or files removed")
	add(totals.Unloaded.Count, "message not loaded", "messages not loaded", totals.Unloaded.Reason)
	add(totals.Quarantined.Count, "quarantined message", "quarantined messages", cmp.Or(totals.Quarantined.Reason, "it cannot be read"))
	add(totals.Router.Count, "message in router/", "messages in router/", router)
	if d.json || len(r.Left) > 0 {
		if err := d.print(&r, "left here: "+strings.Join(r.Left, "\nleft here: ")); err != nil {
			return err
		}
	}
	if len(r.Left) > 0 {
		return errSilent
	}
	return nil
}

// print prints a value as JSON or in words.
func (d *drain) print(value any, words string) error {
	var err error
	if d.json {
		err = json.NewEncoder(d.out).Encode(value)
	} else {
		_, err = fmt.Fprintln(d.out, words)
	}
	if err == nil {
		err = d.out.Flush()
	}
	return err
}
