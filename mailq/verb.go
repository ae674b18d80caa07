package mailq

// Verbs: what each order may be about, and what is said of it.

import (
	"slices"
	"strings"
)

// Verb is an acting verb: what an order does.
type Verb string

const (
	Kill    Verb = "KILL"    // drop recipients silently
	Expire  Verb = "EXPIRE"  // fail recipients, with a notice
	Retry   Verb = "RETRY"   // make mail due now
	Hold    Verb = "HOLD"    // keep mail back
	Release Verb = "RELEASE" // let held mail go
	Requeue Verb = "REQUEUE" // give messages back to the router
	Reroute Verb = "REROUTE" // send recipients to another thread
	Lift    Verb = "LIFT"    // end what reply rules do to a thread
)

// VerbInfo is what there is to know about a verb.
type VerbInfo struct {
	Verb Verb
	// Message, Thread and Where say what an order may be about.
	Message, Thread, Where bool
	For                    bool // it may end by itself, after a time
	To                     bool // it needs a channel and a host
	// Effect is what becomes of messages: "3 messages are dropped"; "": nothing lasts.
	Effect string
	Help   string
}

// Verbs are all verbs, in the order of help. A new order is a line here. The parser, HELP and the
// subcommands of mailq follow the table; package scheduler/admin carries the order out.
var Verbs = [...]VerbInfo{
	{Verb: Hold, Message: true, Thread: true, Where: true, For: true, Effect: "held",
		Help: "keep mail back; the hold of a thread keeps later mail back too"},
	{Verb: Release, Message: true, Thread: true, Where: true, Help: "let held mail go"},
	{Verb: Retry, Message: true, Thread: true, Where: true, Help: "make mail due now"},
	{Verb: Lift, Thread: true, Help: "end what reply rules do to a destination"},
	{Verb: Expire, Message: true, Thread: true, Where: true, Effect: "returned to their senders", Help: "return mail to its senders"},
	{Verb: Kill, Message: true, Thread: true, Where: true, Effect: "dropped", Help: "drop mail without a notice"},
	{Verb: Requeue, Message: true, Where: true, Effect: "given back to the router", Help: "give messages back to the router"},
	{Verb: Reroute, Message: true, Thread: true, Where: true, To: true, Effect: "sent elsewhere", Help: "send mail to another channel and host"},
}

// Info returns what there is to know about a verb; the zero value: there is no such verb.
func (v Verb) Info() (info VerbInfo) {
	if i := slices.IndexFunc(Verbs[:], func(info VerbInfo) bool { return info.Verb == v }); i >= 0 {
		info = Verbs[i]
	}
	return info
}

// Arguments returns what may follow the verb, for HELP.
func (i *VerbInfo) Arguments() string {
	to := ""
	if i.To {
		to = " channel host"
	}
	var forms []string
	if i.Message {
		forms = append(forms, "MSG id"+to)
	}
	if i.Thread {
		forms = append(forms, "THREAD channel host"+to)
	}
	if i.Where && i.To {
		to = " TO" + to
	}
	if i.Where {
		forms = append(forms, "WHERE key=value..."+to)
	}
	tail := " [DRYRUN]"
	if i.For {
		tail += " [FOR span]"
	}
	return strings.Join(forms, " | ") + tail + " [BECAUSE text]"
}
