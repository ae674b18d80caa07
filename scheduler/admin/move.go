package admin

// Moves to another node and back: which of them are refused, and moves of parked messages.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/mailq"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
	"zsched/scheduler/spool"
)

// isMove reports whether an order moves mail to another node.
func isMove(o *mailq.Order) bool {
	return o.Verb == mailq.Reroute && o.To.Channel == ctlfile.TransferChannel
}

// checkNode refuses a move to a node that does not exist. A move to this node needs no table
// of nodes: it ends moves.
func (q *Queue) checkNode(ctx context.Context, o *mailq.Order) error {
	switch {
	case !isMove(o) || q.nodes == nil:
		return nil
	case q.movesBack(o) && o.Thread != nil && o.Thread.Channel != ctlfile.TransferChannel:
		return q.errThisNode(o)
	case q.movesBack(o):
		return nil
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
	if o.Verb != mailq.Reroute || q.movesBack(o) {
		return nil
	}
	stuck := false
	if err := q.port.Ask(ctx, func(l *daemon.Loop) {
		stuck = len(l.Core().Explain(o.To.Channel, o.To.Host).Params.Command) == 0 &&
			(isMove(o) || !l.IsHeld(spool.Thread(o.To)))
	}); err != nil {
		return err
	}
	if stuck {
		return fmt.Errorf("no clause of the scheduler gives a command for %s/%s: the mail would wait there",
			mailq.Field(o.To.Channel), mailq.Field(o.To.Host))
	}
	return nil
}

// movesBack reports whether an order moves mail to this node: recipients on their way to
// another node go back to where they were.
func (q *Queue) movesBack(o *mailq.Order) bool {
	return isMove(o) && slices.Contains(q.ownNames, o.To.Host)
}

// affected returns those job lines of a held message on which an order has an effect: all of
// them or, if it moves mail to this node, those on their way to another node.
func (q *Queue) affected(o *mailq.Order, m *spool.Stored) []*mailq.Job {
	jobs := storedJobs(m)
	if q.movesBack(o) {
		jobs = slices.DeleteFunc(jobs, func(j *mailq.Job) bool { return j.Channel != ctlfile.TransferChannel })
	}
	return jobs
}

// errThisNode refuses a move of mail that is here already.
func (q *Queue) errThisNode(o *mailq.Order) error {
	return fmt.Errorf("%q is this node: only mail in channel %s can be moved to it, which ends its move to another node",
		o.To.Host, ctlfile.TransferChannel)
}

// errToBeHeld refuses a move of mail that would lose a hold.
var errToBeHeld = errors.New("an agent has this mail, which is to be held: move it when it is held, or release it first")

// dropUnasked drops the targets that are on their way to another node which does not
// answer. Before they are sent elsewhere, that node must say which of them it has already.
// The error is that of such a node; nil: all targets stay. A dry run asks too, and fails if no
// target is left.
func (q *Queue) dropUnasked(ctx context.Context, o *mailq.Order, t *targets) (err error) {
	if q.nodeAnswers == nil || o.Verb != mailq.Reroute && o.Verb != mailq.Requeue {
		return nil
	}
	for name := range t.threads {
		if name.Channel != ctlfile.TransferChannel || name == o.To {
			continue
		}
		if e := q.nodeAnswers(ctx, name.Host); e != nil {
			err = e
			delete(t.threads, name)
			t.list = slices.DeleteFunc(t.list, func(target scheduler.Target) bool {
				return t.whole || target.Channel == name.Channel && target.Host == name.Host
			})
		}
	}
	if o.DryRun && len(t.list) > 0 {
		return nil
	}
	return err
}

// suspendedHere returns the threads that SUSPEND suspends, for a move to another node,
// which does not take the suspensions along, and for a RETRY, which does not end them. For any
// other order it returns none.
func (q *Queue) suspendedHere(ctx context.Context, o *mailq.Order) (names map[mailq.Name]struct{}, err error) {
	if o.Verb != mailq.Retry && (!isMove(o) || q.movesBack(o)) {
		return nil, nil
	}
	names = make(map[mailq.Name]struct{})
	err = q.port.Ask(ctx, func(l *daemon.Loop) {
		for _, s := range l.Suspensions() {
			names[mailq.Name(s.Thread)] = struct{}{}
		}
	})
	return names, err
}

// moveParked moves the parked messages that are selected to another node. There is no
// other order about them: they wait for a notice to be written, not for delivery.
func (q *Queue) moveParked(ctx context.Context, o *mailq.Order, did *tally) error {
	if !isMove(o) || q.movesBack(o) {
		return errors.New("mail with state=parked can only be moved to another node")
	}
	match := isSelected(o.Where, time.Now())
	var parked []*spool.Stored
	for m, err := range q.files.Find(ctx, spool.Query{Places: []spool.Place{spool.Postman}}) {
		if err != nil {
			return err
		}
		if jobs := storedJobs(m); slices.ContainsFunc(jobs, match) {
			parked = append(parked, m)
			for _, job := range jobs {
				did.threads[job.Name] = struct{}{}
			}
		}
	}
	return q.eachMessage(o, parked, did, func(m *spool.Stored) (mailq.Outcome, error) {
		if !o.DryRun {
			sent, err := q.port.ResubmitHeld(ctx, spool.Resubmission{
				From: spool.Postman, Path: m.Name.Path, Channel: o.To.Channel, Host: o.To.Host,
			})
			if err != nil {
				return mailq.Outcome{}, err
			}
			q.touched(ctx, o, m, sent)
		}
		return countJobs(storedJobs(m)), nil
	})
}
