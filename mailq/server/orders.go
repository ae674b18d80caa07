package server

// Orders: how a session carries out KILL, HOLD and the others.

import (
	"context"
	"errors"

	"zsched/mailq"
	"zsched/scheduler/view"
)

// act executes every acting verb: KILL, EXPIRE, RETRY, HOLD, RELEASE, REQUEUE, REROUTE
// and LIFT. It gives the order to the queue and replies with a count. An order
// or a dry run that matches nothing is an error, except for KILL MSG id: ZMailer did
// not check that, and scripts expect its reply and the empty line after it.
func act(r *request, ctx context.Context) bool {
	order, plain, err := mailq.ParseOrder(view.Verb(r.verb), r.rest)
	switch {
	case errors.Is(err, mailq.ErrUnknownRequest):
		r.reply("-Unknown request.")
		if order.Verb == view.VerbKill {
			r.reply("")
		}
		return true
	case err != nil:
		return r.reject(err)
	}
	order.By = mailq.Actor{User: r.user, Peer: r.peer.String()}
	asZMailer := order.Verb == view.VerbKill && plain
	var did mailq.Outcome
	if order.Message != "" || order.Thread != nil || order.Where != nil {
		did, err = r.server.queue.Act(ctx, order)
		r.note(Note{Kind: NoteOrder, Order: &order, Outcome: did, Err: err})
	} else if !asZMailer {
		err = errors.New("the spoolid or number of a message is needed")
	}
	switch {
	case err != nil:
		return r.reject(err)
	case asZMailer:
		r.reply("+OK; KILLed something.")
		r.reply("")
	case did == mailq.Outcome{Loading: true}:
		return r.reject(errors.New(mailq.NothingMatches + ": it is still being loaded"))
	case did == mailq.Outcome{}:
		return r.reject(errors.New(mailq.NothingMatches))
	default:
		r.reply(mailq.FormatOutcome(did))
	}
	return true
}
