package admin

// Targets of an order: the job lines that it is about.

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"zsched/ctlfile"
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
	// keptBack are the messages that are selected and left alone because they or their thread are
	// held, away those that are left alone because another node may have them, and withAgents those
	// on which the order has no effect because an agent has them.
	keptBack, away, withAgents map[scheduler.MessageID]struct{}
}

// collect finds the targets of an order. Those of a HOLD are whole messages: it also holds their
// mail for destinations that are not selected. So is the target of any other order about one
// message, except RELEASE, RETRY and a move to another node: its recipients that go to one
// destination then go as one message.
func collect(o *order, lines iter.Seq2[*view.JobLine, error]) (*targets, error) {
	whole := o.Verb == view.VerbHold || o.Message != "" && o.Verb != view.VerbRelease && o.Verb != view.VerbRetry && !o.isMove()
	t := &targets{
		spoolIDs: make(map[scheduler.MessageID]string), threads: make(map[mailq.Name]struct{}),
		keptBack: make(map[scheduler.MessageID]struct{}), away: make(map[scheduler.MessageID]struct{}), withAgents: make(map[scheduler.MessageID]struct{}),
	}
	for v, err := range lines {
		switch {
		case err != nil:
			return nil, err
		case o.isKeptBack(v):
			t.keptBack[v.Message] = struct{}{}
			continue
		case v.Channel == ctlfile.TransferChannel && slices.Contains(o.nodes, v.Host) && v.Name != o.To:
			t.away[v.Message] = struct{}{}
			continue
		case o.waitsForAgent(v):
			t.withAgents[v.Message] = struct{}{}
		}
		if o.Verb != view.VerbRelease || v.State == view.Held || v.Order == string(view.VerbHold) {
			t.add(o, v)
		}
	}
	if whole && len(t.away) > 0 {
		t.list = nil
	}
	t.byMessage(whole)
	return t, nil
}

// isKeptBack reports whether an order leaves a job line alone because it is held. A RELEASE of mail
// does not end the hold of its thread; a RETRY does not concern held mail, and held mail does not move
// to another node. The router cannot hold a message, so a REQUEUE of a held one must be about the
// message, or about held mail.
func (o *order) isKeptBack(v *view.JobLine) bool {
	switch {
	case o.Verb == view.VerbRelease:
		return v.Held && v.State != view.Held && v.Order != string(view.VerbHold)
	case o.Verb == view.VerbRetry:
		return v.Held && v.State != view.Fed
	case o.Verb == view.VerbRequeue:
		return v.State == view.Held && o.Message == "" && (o.Where == nil || o.Where.State != view.Held)
	}
	return o.isMove() && (v.Held || v.Order == string(view.VerbHold))
}

// waitsForAgent reports whether an order has no effect on a job line because an agent has it, or
// because another order waits until the agent reports.
func (o *order) waitsForAgent(v *view.JobLine) bool {
	switch o.Verb {
	case view.VerbRelease:
		return v.Order != "" && v.Order != string(view.VerbHold)
	case view.VerbRetry:
		return v.State == view.Fed || v.Order != ""
	}
	return o.Verb == view.VerbReroute && v.Order == string(view.VerbReroute)
}

// canBeTried reports whether a RETRY makes a job line due, or ends what blocks its thread.
func canBeTried(v *view.JobLine) bool {
	return v.State == view.Due || v.State == view.Waiting || v.State == view.Blocked && v.Wait != view.NoWait
}

// add adds a job line. If a selection is about some of its recipients, it has only those.
func (t *targets) add(o *order, v *view.JobLine) {
	if was, found := t.spoolIDs[v.Message]; found && was != v.SpoolID {
		return // another message, which got the number meanwhile
	}
	if o.Verb != view.VerbRetry || v.Order == "" && canBeTried(v) {
		t.threads[v.Name] = struct{}{}
	}
	t.list = append(t.list, scheduler.Target{Message: v.Message, Channel: v.Channel, Host: v.Host})
	t.spoolIDs[v.Message] = v.SpoolID
	if o.Where == nil || !o.Where.SelectsRecipients() {
		return
	}
	if t.only == nil {
		t.only = make(map[scheduler.MessageID][]int64)
	}
	for i := range v.Recipients {
		t.only[v.Message] = append(t.only[v.Message], v.Recipients[i].Offset)
	}
}

// byMessage puts the targets of each message side by side, so that its recipients are sent elsewhere
// as one message, and sorts their offsets. If whole is set, they become one target.
func (t *targets) byMessage(whole bool) {
	for _, offsets := range t.only {
		slices.Sort(offsets)
	}
	slices.SortStableFunc(t.list, func(a, b scheduler.Target) int { return cmp.Compare(a.Message, b.Message) })
	if whole {
		for i := range t.list {
			t.list[i] = scheduler.Target{Message: t.list[i].Message}
		}
		t.list = slices.Compact(t.list)
	}
}

// remaining returns those of the targets whose messages are still in the queue.
func (t *targets) remaining(s *scheduler.Scheduler, list []scheduler.Target) []scheduler.Target {
	return slices.DeleteFunc(slices.Clone(list), func(target scheduler.Target) bool {
		_, found := inQueue(s, t.spoolIDs[target.Message])
		return !found
	})
}

// sortedIDs are the spoolids of the messages.
func (t *targets) sortedIDs() []string { return slices.Sorted(maps.Values(t.spoolIDs)) }
