package admin

// Targets of an order: the job lines that it is about.

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"zsched/mailq"
	"zsched/scheduler"
	"zsched/scheduler/view"
)

// targets are the job lines that an order is about.
type targets struct {
	list     []scheduler.Target
	spoolIDs map[scheduler.MessageID]string  // of their messages
	threads  map[mailq.Name]struct{}         // in which the order has an effect
	only     map[scheduler.MessageID][]int64 // offsets of the recipients, if the order is about some of them; nil: about all
	// untouched is why the order has no effect on one of them; nil: it has, or they are not there.
	untouched error
	// keptBack are the messages that are selected and are no targets: those that a RETRY
	// selects in held threads, the held ones that a REQUEUE leaves, and those
	// that a RELEASE selects in held threads.
	keptBack map[scheduler.MessageID]struct{}
	// stays is why some of what was selected is no target, because it cannot go elsewhere; nil:
	// everything can. taken has the answer for each thread that was asked about.
	stays error
	taken map[mailq.Name]error
}

func newTargets() *targets {
	return &targets{
		spoolIDs: make(map[scheduler.MessageID]string), threads: make(map[mailq.Name]struct{}),
		keptBack: make(map[scheduler.MessageID]struct{}), taken: make(map[mailq.Name]error),
	}
}

// add adds a job line, or those of its recipients that only has; nil: all.
func (t *targets) add(o *mailq.Order, v *view.JobLine, only []mailq.Recipient) {
	switch {
	case o.Verb == mailq.Reroute && v.Order == string(mailq.Reroute):
		t.untouched = errOrdered
	case o.Verb == mailq.Retry && v.State == view.Fed:
		t.untouched = errFed
	}
	if o.Verb != mailq.Retry || isRetryable(v) {
		t.threads[v.Name] = struct{}{}
	}
	t.list = append(t.list, scheduler.Target{Message: v.Message, Channel: v.Channel, Host: v.Host})
	t.spoolIDs[v.Message] = v.SpoolID
	if only == nil {
		return
	}
	if t.only == nil {
		t.only = make(map[scheduler.MessageID][]int64)
	}
	for i := range only {
		t.only[v.Message] = append(t.only[v.Message], only[i].Offset)
	}
	slices.Sort(t.only[v.Message])
}

// byMessage puts the targets of each message side by side, so that its recipients are sent elsewhere
// as one message. If whole is set, they become one target.
func (t *targets) byMessage(whole bool) {
	slices.SortStableFunc(t.list, func(a, b scheduler.Target) int { return cmp.Compare(a.Message, b.Message) })
	if whole {
		for i := range t.list {
			t.list[i] = scheduler.Target{Message: t.list[i].Message}
		}
		t.list = slices.Compact(t.list)
	}
}

// sortedIDs are the spoolids of the messages.
func (t *targets) sortedIDs() []string { return slices.Sorted(maps.Values(t.spoolIDs)) }

// errOrdered refuses an order on a message that waits for another one.
var errOrdered = errors.New("an order waits already until the agent reports")

// errFed refuses a RETRY of mail that is being tried, and an order about some of its recipients.
var errFed = errors.New("it is with an agent")

// whyUntouched returns why an order has no effect on any of the targets; nil: the order
// matches nothing.
func (t *targets) whyUntouched(o *mailq.Order) error {
	are := mailq.Plural(len(t.keptBack), "message is", "messages are")
	switch {
	case t.untouched != nil || len(t.keptBack) == 0:
		return t.untouched
	case o.Verb == mailq.Release:
		return fmt.Errorf("%s held with the thread; mailq release of the thread ends that", are)
	case o.Verb == mailq.Requeue:
		return fmt.Errorf("%s held: select held mail with state=held, or release it first", are)
	}
	return fmt.Errorf("%s held; mailq release ends that", are)
}
