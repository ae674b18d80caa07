package scheduler

// Verb is what an Ordered wants done with its targets. Where a target is with
// an agent, or its file is being read, the order waits until it comes back,
// and what is done by then stays done. A later order on the same mail takes
// the place of one that waits.
type Verb uint8

const (
	// VerbKill drops recipients without a notice: they are tagged as done.
	VerbKill Verb = iota + 1
	// VerbExpire fails recipients now, with a notice that says that an
	// administrator did it.
	VerbExpire
	// VerbRetry makes recipients due now, through the window: it ends their
	// wait and the suspension of their thread, and gives poisoned ones another
	// chance. Of a queueonly thread it starts a run with just these.
	VerbRetry
	// VerbHold feeds no more of the whole messages, and has each moved away
	// (Hold) once nothing of it is with an agent.
	VerbHold
	// VerbRequeue gives recipients back to the router (Resubmit).
	VerbRequeue
	// VerbReroute sends recipients to another channel and host (Resubmit).
	VerbReroute
)

// Target is a message, or what of it goes to one channel and host.
type Target struct {
	Message       MessageID
	Channel, Host string // both empty: the whole message
}

func (s *Scheduler) ordered(e *Ordered) { panic("not yet") }

func (s *Scheduler) holdThread(e HeldThread) { panic("not yet") }
