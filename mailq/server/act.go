package server

import (
	"context"
	"errors"

	"zsched/mailq"
)

// orderCounts are the counters of orders: what follows SC.MQ2 in their names.
func orderCount(o *mailq.Order) string {
	switch {
	case o.Verb == mailq.Kill && o.Thread != nil:
		return "CommandKillThr"
	case o.Verb == mailq.Kill && o.Message != "":
		return "CommandKillMsg"
	case o.Verb == mailq.Reroute && o.Thread != nil:
		return "CommandRerouteThr"
	case o.Verb == mailq.Reroute && o.Message != "":
		return "CommandRerouteMsg"
	}
	return ""
}

// order is every acting verb.
func order(r *request, ctx context.Context) bool {
	o, plain, err := mailq.ParseOrder(mailq.Verb(r.verb), r.rest)
	switch {
	case errors.Is(err, mailq.ErrUnknownRequest):
		r.server.counts.add("CommandsRej")
		r.say("-Unknown request.")
		if o.Verb == mailq.Kill {
			r.say("")
		}
		return true
	case err != nil:
		return r.wrong(err)
	}
	o.By = mailq.Actor{User: r.user, Peer: r.peer.String()}
	if name := orderCount(&o); name != "" {
		r.server.counts.add(name)
	}
	old := o.Verb == mailq.Kill && plain
	var did mailq.Outcome
	if o.Message != "" || o.Thread != nil || o.Where != nil {
		did, err = r.server.queue.Act(ctx, o)
		r.note(Note{Kind: NoteOrder, Order: &o, Outcome: did, Err: err})
	} else if !old {
		return r.wrong(errors.New("the spoolid or number of a message is needed"))
	}
	switch {
	case err != nil:
		return r.wrong(err)
	case old:
		// The old program did not look, and scripts expect its words, the
		// empty line behind them included.
		r.say("+OK; KILLed something.")
		r.say("")
	case did == mailq.Outcome{} && !o.DryRun:
		return r.wrong(errors.New("nothing in the queue matches"))
	default:
		r.say(o.Reply(did))
	}
	return true
}
