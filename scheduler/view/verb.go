package view

// Verbs: what each order of an administrator does, what it may be about, and what is said of it.

import (
	"slices"
	"strings"
)

// Verb is what an order does with its targets, in the words of mailq.
type Verb string

const (
	// VerbKill drops recipients without a notice: they are tagged as done.
	VerbKill Verb = "KILL"
	// VerbExpire fails recipients now, with a notice that an administrator
	// expired them.
	VerbExpire Verb = "EXPIRE"
	// VerbRetry makes recipients due now, within the window. It ends their wait
	// and the suspension of their thread. In a queueonly thread it starts a run with only
	// these.
	VerbRetry Verb = "RETRY"
	// VerbHold stops the feeding of whole messages, and moves each to hold/ when no agent has
	// any of it. The mail of a thread, present and future, stays where it is.
	VerbHold Verb = "HOLD"
	// VerbRelease ends a VerbHold, for the whole message: its files are moved back.
	VerbRelease Verb = "RELEASE"
	// VerbRequeue returns recipients to the router.
	VerbRequeue Verb = "REQUEUE"
	// VerbReroute sends recipients to another channel and host.
	VerbReroute Verb = "REROUTE"
	// VerbLift ends what reply rules do to a thread.
	VerbLift Verb = "LIFT"
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
	{Verb: VerbHold, Message: true, Thread: true, Where: true, For: true, Effect: "held",
		Help: "keep mail back; the hold of a thread keeps later mail back too"},
	{Verb: VerbRelease, Message: true, Thread: true, Where: true, Help: "let held mail go"},
	{Verb: VerbRetry, Message: true, Thread: true, Where: true, Help: "make mail due now"},
	{Verb: VerbLift, Thread: true, Help: "end what reply rules do to a destination"},
	{Verb: VerbExpire, Message: true, Thread: true, Where: true, Effect: "returned to their senders", Help: "return mail to its senders"},
	{Verb: VerbKill, Message: true, Thread: true, Where: true, Effect: "dropped", Help: "drop mail without a notice"},
	{Verb: VerbRequeue, Message: true, Where: true, Effect: "given back to the router", Help: "give messages back to the router"},
	{Verb: VerbReroute, Message: true, Thread: true, Where: true, To: true, Effect: "sent elsewhere", Help: "send mail to another channel and host"},
}

// Info returns what there is to know about a verb; the zero value: there is no such verb.
func (v Verb) Info() (info VerbInfo) {
	if i := slices.IndexFunc(Verbs[:], func(info VerbInfo) bool { return info.Verb == v }); i >= 0 {
		info = Verbs[i]
	}
	return info
}

// IsAboutMail reports whether an order is about mail, and so may be about a message. The core carries
// these out.
func (v Verb) IsAboutMail() bool { return v.Info().Message }

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
