package mailq

import (
	"context"
	"errors"
)

// orderCounts are the counters of orders: what follows SC.MQ2 in their names.
func orderCount(o *Order) string {
	switch {
	case o.Verb == Kill && o.Thread != nil:
		return "CommandKillThr"
	case o.Verb == Kill && o.Message != "":
		return "CommandKillMsg"
	case o.Verb == Reroute && o.Thread != nil:
		return "CommandRerouteThr"
	case o.Verb == Reroute && o.Message != "":
		return "CommandRerouteMsg"
	}
	return ""
}

// order is every acting verb.
func order(r *request, ctx context.Context) bool {
	o, counted, err := parseOrder(Verb(r.verb), r.rest)
	switch {
	case errors.Is(err, errUnknownRequest):
		r.server.counts.add("CommandsRej")
		r.say("-Unknown request.")
		if o.Verb == Kill {
			r.say("")
		}
		return true
	case err != nil:
		return r.wrong(err)
	}
	o.By = Actor{User: r.user, Peer: r.peer.String()}
	if name := orderCount(&o); name != "" {
		r.server.counts.add(name)
	}
	old := o.Verb == Kill && !counted
	var did Outcome
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
	case did == Outcome{} && !o.DryRun:
		return r.wrong(errors.New("nothing in the queue matches"))
	default:
		r.say(outcomeReply(&o, did))
	}
	return true
}
