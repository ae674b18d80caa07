package admin

// Moves to another node: which of them are refused.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"zsched/ctlfile"
	"zsched/mailq"
	"zsched/scheduler/daemon"
	"zsched/scheduler/view"
)

// isMove reports whether an order moves mail to another node.
func isMove(o *mailq.Order) bool {
	return o.Verb == mailq.Reroute && o.To.Channel == ctlfile.TransferChannel
}

// checkNode refuses a move to a node that does not exist, or to this one.
func (q *Queue) checkNode(o *mailq.Order) error {
	if !isMove(o) || q.nodes == nil {
		return nil
	}
	if slices.Contains(q.ownNames, o.To.Host) {
		return fmt.Errorf("%q is this node", o.To.Host)
	}
	nodes, err := q.nodes()
	switch {
	case err != nil:
		return err
	case nodes == nil:
		return errors.New("no table of nodes (PARAMxfer-nodes)")
	case !slices.Contains(nodes, o.To.Host):
		return fmt.Errorf("%q is not in the table of nodes: %s", o.To.Host, strings.Join(nodes, ", "))
	}
	return nil
}

// checkCommand refuses to send mail where no agent would be started for it, unless that is to
// a held thread, where it is to wait.
func (q *Queue) checkCommand(ctx context.Context, o *mailq.Order) error {
	if o.Verb != mailq.Reroute {
		return nil
	}
	stuck := false
	if err := q.port.Ask(ctx, func(l *daemon.Loop) {
		_, params := l.Core().Explain(o.To.Channel, o.To.Host)
		stuck = len(params.Command) == 0 && (isMove(o) || l.Core().ThreadHold(o.To.Channel, o.To.Host) == nil)
	}); err != nil {
		return err
	}
	if stuck {
		return fmt.Errorf("no clause of the scheduler gives a command for %s/%s: the mail would wait there",
			mailq.Field(o.To.Channel), mailq.Field(o.To.Host))
	}
	return nil
}

// errHeldStays refuses a move of mail that is held, or is to be.
var errHeldStays = errors.New("held mail is not moved to another node: release it first")

// mayHaveTaken returns why mail in a thread cannot be sent elsewhere: it is on its way to
// another node, which may have taken it although its answer was lost; nil: it can be.
func (q *Queue) mayHaveTaken(o *mailq.Order, from mailq.Name) error {
	if q.nodes == nil || from.Channel != ctlfile.TransferChannel || from == o.To || o.Verb != mailq.Reroute && o.Verb != mailq.Requeue {
		return nil
	}
	nodes, err := q.nodes()
	if err != nil || !slices.Contains(nodes, from.Host) {
		return err
	}
	return fmt.Errorf("node %s may have taken mail in %s/%s already, which would be delivered twice: let it arrive and move it back from there, or, if that node will never run again, take it out of the table of nodes first",
		from.Host, from.Channel, from.Host)
}

// staysHere returns why an order cannot take a job line elsewhere; nil: it can.
func (q *Queue) staysHere(o *mailq.Order, v *view.JobLine, t *targets) error {
	if isMove(o) && (v.Held || v.Order == string(mailq.Hold)) {
		return errHeldStays
	}
	why, known := t.taken[v.Name]
	if !known {
		why = q.mayHaveTaken(o, v.Name)
		t.taken[v.Name] = why
	}
	return why
}
