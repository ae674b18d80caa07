package admin

// Targets of an order: the job lines that it is about.

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"zsched/mailq"
	"zsched/scheduler"
	"zsched/scheduler/view"
)

// targets are the job lines that an order is about.
type targets struct {
	whole    bool // list holds whole messages
	list     []scheduler.Target
	spoolIDs []string // of the messages in list, if it holds whole messages
	// rank is the number of messages that were added before each message, and
	// vertices the number of its vertices that are targets.
	rank     map[scheduler.MessageID]int
	vertices map[scheduler.MessageID]int
	mixed    bool                    // the targets of a message are not all adjacent in list
	threads  map[mailq.Name]struct{} // in which the order has an effect
	last     scheduler.Target
	// untouched is why the order has no effect on one of them; nil: it has, or they are not there.
	untouched error
	// keptBack are the messages that are selected and are no targets: those that a RETRY
	// selects in held threads, the held ones that a REQUEUE leaves, and those
	// that a RELEASE selects in held threads.
	keptBack map[scheduler.MessageID]struct{}
	isHeld   bool // one of keptBack is held as a message
	// unheld are the messages that a REQUEUE or REROUTE takes out of a hold: that of a thread,
	// or one that waits for an agent.
	unheld map[scheduler.MessageID]struct{}
	// stays is why some of what was selected is no target, because it cannot go elsewhere; nil:
	// everything can. taken has the answer for each thread that was asked about.
	stays error
	taken map[mailq.Name]error
	// held are the targets that are held, or are to be, with their spoolids. before is the order
	// that holds one of them. alreadyHeld are those in which a HOLD changes nothing; they are no
	// targets.
	held        map[scheduler.MessageID]string
	before      *view.Hold
	alreadyHeld map[scheduler.MessageID]struct{}
	// only has the offsets of the recipients of each message, if some of them are not
	// targets; nil: all are.
	only map[scheduler.MessageID][]int64
}

// restrict restricts the targets in a vertex to some recipients; nil: no restriction.
func (t *targets) restrict(v *view.JobLine, only []mailq.Recipient) {
	if only == nil {
		return
	}
	if t.only == nil {
		t.only = make(map[scheduler.MessageID][]int64)
	}
	offsets := t.only[v.Message]
	for i := range only {
		offsets = append(offsets, only[i].Offset)
	}
	slices.Sort(offsets)
	t.only[v.Message] = offsets
}

// leavesRecipients reports whether a message with so many open recipients has some that
// are not targets.
func (t *targets) leavesRecipients(id scheduler.MessageID, recipients int) bool {
	return t.only != nil && len(t.only[id]) < recipients
}

func newTargets(whole bool) *targets {
	return &targets{
		whole: whole, rank: make(map[scheduler.MessageID]int), vertices: make(map[scheduler.MessageID]int),
		threads:  make(map[mailq.Name]struct{}),
		keptBack: make(map[scheduler.MessageID]struct{}), unheld: make(map[scheduler.MessageID]struct{}),
		taken: make(map[mailq.Name]error),
		held:  make(map[scheduler.MessageID]string), alreadyHeld: make(map[scheduler.MessageID]struct{}),
	}
}

func (t *targets) add(o *mailq.Order, v *view.JobLine) {
	switch {
	case o.Verb == mailq.Reroute && v.Order == string(mailq.Reroute):
		t.untouched = errToBeRerouted
	case o.Verb == mailq.Retry && v.State == view.Fed:
		t.untouched = errFed
	}
	if v.Hold != nil || v.Order == string(mailq.Hold) {
		t.before, t.held[v.Message] = v.Hold, v.SpoolID
	}
	target := scheduler.Target{Message: v.Message, Channel: v.Channel, Host: v.Host}
	if t.whole {
		t.vertices[v.Message]++
	}
	_, again := t.rank[v.Message]
	if !again {
		t.rank[v.Message] = len(t.rank)
	} else if t.last.Message != v.Message {
		t.mixed = true
	}
	t.last = target
	switch {
	case !t.whole:
		t.list = append(t.list, target)
	case !again:
		t.list = append(t.list, scheduler.Target{Message: v.Message})
		t.spoolIDs = append(t.spoolIDs, v.SpoolID)
	}
}

// heldIDs are the spoolids of the targets that are held, in order.
func (t *targets) heldIDs() []string { return slices.Sorted(maps.Values(t.held)) }

// errOrdered refuses a RELEASE of a message that waits for another order.
func errOrdered(verb string) error {
	return fmt.Errorf("it is not held, and mailq %s waits until the agent reports: mailq hold replaces that order, and mailq release then ends the hold",
		strings.ToLower(verb))
}

// errFed refuses a RETRY of mail that is being tried, and an order about some of its recipients.
var errFed = errors.New("it is with an agent")

// errToBeRerouted refuses a REROUTE that was ordered before.
var errToBeRerouted = errors.New("it is to be sent there already, when the agent reports")

// whyUntouched returns why an order has no effect on any of the targets; nil: the order
// matches nothing.
func (t *targets) whyUntouched(o *mailq.Order) error {
	switch {
	case t.untouched != nil:
		return t.untouched
	case len(t.alreadyHeld) > 0 && o.Message != "":
		return errAlreadyHeld
	case len(t.alreadyHeld) > 0:
		return fmt.Errorf("%s already held", mailq.Plural(len(t.alreadyHeld), "message is", "messages are"))
	case len(t.keptBack) > 0:
		return t.errKeptBack(o)
	}
	return nil
}

// errKeptBack is the error of an order that selects nothing but mail that is kept back.
func (t *targets) errKeptBack(o *mailq.Order) error {
	are := mailq.Plural(len(t.keptBack), "message is", "messages are")
	switch {
	case o.Verb == mailq.Release:
		return fmt.Errorf("%s %w; mailq release of the thread ends that", are, errWithThread)
	case o.Verb == mailq.Requeue:
		return fmt.Errorf("%s held: select held mail with state=held, or release it first", are)
	case o.Message != "" && t.isHeld:
		return errors.New("it is held; mailq release ends that")
	}
	with := " with the thread"
	if t.isHeld {
		with = ""
	}
	return fmt.Errorf("%s held%s; mailq release ends that", are, with)
}

// errWithThread is part of the error of a RELEASE that selects mail of held threads.
var errWithThread = errors.New("held with the thread")

// byMessage returns the targets with those of each message side by side, so that
// its recipients are sent elsewhere as one message.
func (t *targets) byMessage() []scheduler.Target {
	if t.mixed && !t.whole {
		slices.SortStableFunc(t.list, func(a, b scheduler.Target) int { return cmp.Compare(t.rank[a.Message], t.rank[b.Message]) })
	}
	return t.list
}
