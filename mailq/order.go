package mailq

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"zsched/internal/interval"
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
	Suspend Verb = "SUSPEND" // deliver none of a thread's mail, which expires as usual
	Lift    Verb = "LIFT"    // end what Suspend and reply rules do to a thread
)

// Order is an acting verb and its target. Exactly one of Message, Thread and
// Where is set.
type Order struct {
	Verb    Verb
	Message string        // spoolid or number
	Thread  *Name         // the whole thread; HOLD also keeps back what arrives later
	Where   *Selection    // everything in the queue that matches
	To      Name          // the new thread of Reroute
	DryRun  bool          // count only
	For     time.Duration // time until a Hold or Suspend ends by itself; 0: it lasts until released
	By      Actor         // not part of the command
	Why     string        // the reason given, for the log
}

// Actor is the user who gives an order.
type Actor struct {
	User string
	Peer string // an address, or "uid 0" on a UNIX socket
}

// Outcome counts what an order did, or would do.
type Outcome struct {
	Messages   int `json:"messages"`
	Recipients int `json:"recipients"`
	Threads    int `json:"threads"`
	// Suspended are those messages of a move to another node that have mail for a
	// destination that SUSPEND suspends here: the other node delivers it.
	Suspended int `json:"suspended,omitempty"`
	// WithAgents are those of the messages that an agent has, at least in part: for them the
	// order waits until the agent reports.
	WithAgents int `json:"with_agents,omitempty"`
	// KeptBack are messages that a RETRY selects and that are not tried, because their thread
	// is held or SUSPEND suspends it. Messages does not count them.
	KeptBack int `json:"kept_back,omitempty"`
	// Held are messages that the order selects as well, and that are held: nothing is done to
	// them. Messages does not count them.
	Held int `json:"held,omitempty"`
	// ThreadHolds are the holds of threads that a RELEASE ends.
	ThreadHolds int `json:"thread_holds,omitempty"`
	// HoldsLost are those of the messages that were held, or were to be held, and whose mail
	// is not held where a REQUEUE or REROUTE sends it.
	HoldsLost int `json:"holds_lost,omitempty"`
	// NotLoaded are messages that the order selects as well, and that the scheduler has not
	// loaded: nothing is done to them. WhyNotLoaded is the reason of one of them.
	NotLoaded    int    `json:"not_loaded,omitempty"`
	WhyNotLoaded string `json:"why_not_loaded,omitempty"`
}

// Add adds what another order did.
func (did *Outcome) Add(more Outcome) {
	did.Messages += more.Messages
	did.Recipients += more.Recipients
	did.Threads += more.Threads
	did.Suspended += more.Suspended
	did.WithAgents += more.WithAgents
	did.KeptBack += more.KeptBack
	did.Held += more.Held
	did.ThreadHolds += more.ThreadHolds
	did.HoldsLost += more.HoldsLost
	did.NotLoaded += more.NotLoaded
	did.WhyNotLoaded = cmp.Or(did.WhyNotLoaded, more.WhyNotLoaded)
}

// NothingMatches is the error of an order that matches nothing.
const NothingMatches = "nothing in the queue matches"

// String returns the command that gives the order, without LF. By is not part of
// it. KILL MSG ends with an empty BECAUSE if it would otherwise be the old
// command, because the reply to that has no count.
func (o *Order) String() string {
	words := []string{string(o.Verb)}
	switch {
	case o.Where != nil:
		words = append(words, "WHERE", o.Where.String())
		if o.Verb == Reroute {
			words = append(words, "TO")
		}
	case o.Thread != nil:
		words = append(words, "THREAD", o.Thread.words())
	default:
		words = append(words, "MSG", Quote(o.Message))
	}
	if o.Verb == Reroute {
		words = append(words, o.To.words())
	}
	if o.DryRun {
		words = append(words, "DRYRUN")
	}
	if o.For > 0 {
		words = append(words, "FOR", interval.Format(o.For))
	}
	if why := TrimBlanks(OneReply(o.Why)); why != "" {
		words = append(words, "BECAUSE", why)
	} else if o.Verb == Kill && o.Message != "" && !o.DryRun {
		words = append(words, "BECAUSE")
	}
	return strings.Join(words, " ")
}

// words returns the channel and the host as two words of a command.
func (n Name) words() string { return Quote(n.Channel) + " " + Quote(n.Host) }

// ShowThread returns the command that lists the jobs of a thread.
func ShowThread(name Name) string { return "SHOW THREAD " + name.words() }

// Explain returns the command that asks what the mail of a thread is waiting for.
func Explain(name Name) string { return "EXPLAIN " + name.words() }

// ShowMessage returns the command that asks for a message by spoolid or number.
func ShowMessage(id string) string { return "SHOW MSG " + Quote(id) }

// String returns the counts in the form that replies use.
func (o Outcome) String() string {
	return fmt.Sprintf("%d messages, %d recipients, %d threads", o.Messages, o.Recipients, o.Threads)
}

// Reply returns the reply to an order that was executed, or to a dry run.
func (o *Order) Reply(did Outcome) string {
	dry := ""
	if o.DryRun {
		dry = "DRYRUN "
	}
	reply := fmt.Sprintf("+OK; %s%s %s.", dry, o.Verb, did)
	if did.Suspended > 0 {
		reply += fmt.Sprintf(" %d messages of suspended threads.", did.Suspended)
	}
	if did.WithAgents > 0 {
		reply += fmt.Sprintf(" %d messages with agents.", did.WithAgents)
	}
	if did.KeptBack > 0 {
		reply += fmt.Sprintf(" %d messages held or suspended.", did.KeptBack)
	}
	if did.Held > 0 {
		reply += fmt.Sprintf(" %d messages held.", did.Held)
	}
	if did.ThreadHolds > 0 {
		reply += fmt.Sprintf(" %d holds of threads.", did.ThreadHolds)
	}
	if did.HoldsLost > 0 {
		reply += fmt.Sprintf(" %d messages lose their hold.", did.HoldsLost)
	}
	if did.NotLoaded > 0 { // the last one, because a reason may have full stops
		reply += fmt.Sprintf(" %d%s%s.", did.NotLoaded, notLoaded, OneReply(did.WhyNotLoaded))
	}
	return reply
}

// notLoaded is what follows the number in the sentence about messages that are not loaded.
const notLoaded = " messages not loaded: "

// ParseOutcome reads the reply to an order. The error is the server's text if
// the server refused the order, or says that this is not a reply to an order.
func ParseOutcome(reply string) (Outcome, error) {
	var o Outcome
	var verb string
	rest, ok := strings.CutPrefix(reply, "+OK; ")
	if !ok {
		if len(reply) > 1 && reply[0] == '-' {
			return o, errors.New(reply[1:])
		}
		return o, fmt.Errorf("%q is not a reply to an order", reply)
	}
	rest = strings.TrimPrefix(rest, "DRYRUN ")
	n, err := fmt.Sscanf(rest, "%s %d messages, %d recipients, %d threads.", &verb, &o.Messages, &o.Recipients, &o.Threads)
	if err != nil || n != 4 {
		return Outcome{}, fmt.Errorf("%q is not a reply to an order", reply)
	}
	_, more, _ := strings.Cut(rest, "threads. ")
	if before, why, found := strings.Cut(more, notLoaded); found {
		i := strings.LastIndexByte(before, ' ') + 1
		if n, err := strconv.Atoi(before[i:]); err == nil {
			o.NotLoaded, o.WhyNotLoaded, more = n, strings.TrimSuffix(why, "."), before[:i]
		}
	}
	for sentence := range strings.SplitSeq(more, ".") {
		count, what, _ := strings.Cut(strings.TrimSpace(sentence), " ")
		n, err := strconv.Atoi(count)
		switch {
		case err != nil: // of a later version
		case what == "messages of suspended threads":
			o.Suspended = n
		case what == "messages with agents":
			o.WithAgents = n
		case what == "messages held or suspended":
			o.KeptBack = n
		case what == "messages held":
			o.Held = n
		case what == "holds of threads":
			o.ThreadHolds = n
		case what == "messages lose their hold":
			o.HoldsLost = n
		}
	}
	return o, nil
}

// effects say what an order does to messages.
var effects = map[Verb]string{
	Kill: "dropped", Expire: "returned to their senders", Hold: "held", Suspend: "kept back",
	Requeue: "given back to the router", Reroute: "sent elsewhere",
}

// WithAgentsText says what becomes of messages that are with agents; "" if there are
// none.
func (o *Order) WithAgentsText(did Outcome) string {
	if did.WithAgents == 0 {
		return ""
	}
	return fmt.Sprintf("%s with agents: %s when the agent reports, unless it delivers them.",
		Plural(did.WithAgents, "message is", "messages are"), effects[o.Verb])
}

// HeldText says how many held messages the order leaves as they are; "" if there are none.
func (o *Order) HeldText(did Outcome) string {
	if did.Held == 0 {
		return ""
	}
	are, them := Plural(did.Held, "more message is", "more messages are"), "them"
	if did.Held == 1 {
		them = "it"
	}
	if o.Verb == Retry {
		return fmt.Sprintf("%s held and not tried: mailq release ends that.", are)
	}
	return fmt.Sprintf("%s held, and nothing is done to %s: select %s with state=held.", are, them, them)
}

// Notes are the sentences about what an order did not do, and about holds that it ended. The last
// one may have text from outside.
func (o *Order) Notes(did Outcome) (notes []string) {
	if held := o.HeldText(did); held != "" {
		notes = append(notes, held)
	}
	if did.KeptBack > 0 {
		notes = append(notes, Plural(did.KeptBack, "message is", "messages are")+" held or suspended with the thread and not tried.")
	}
	if did.ThreadHolds > 0 {
		notes = append(notes, Plural(did.ThreadHolds, "hold of a thread", "holds of threads")+" ended.")
	}
	if did.HoldsLost > 0 {
		notes = append(notes, "The hold of "+Plural(did.HoldsLost, "message", "messages")+" ends.")
	}
	if did.NotLoaded > 0 {
		notes = append(notes, Plural(did.NotLoaded, "more message is", "more messages are")+
			" not loaded, and nothing is done to them: "+did.WhyNotLoaded+".")
	}
	return notes
}

// targets has the kinds of target that each acting verb takes.
var targets = map[Verb]struct{ msg, thread, where bool }{
	Kill:    {true, true, true},
	Expire:  {true, true, true},
	Retry:   {true, true, true},
	Hold:    {true, true, true},
	Release: {true, true, true},
	Requeue: {true, false, true},
	Reroute: {true, true, true},
	Suspend: {false, true, false},
	Lift:    {false, true, false},
}

// ErrUnknownRequest says that an acting verb does not take the target given.
var ErrUnknownRequest = errors.New("unknown request")

// ParseOrder reads the rest of a line that begins with an acting verb. plain is
// true for MSG id with nothing after it: after KILL this is ZMailer's own
// command, whose reply has no count.
func ParseOrder(verb Verb, rest string) (o Order, plain bool, err error) {
	o.Verb = verb
	may := targets[verb]
	target, rest := CutRaw(rest)
	switch {
	case target == "MSG" && may.msg:
		o.Message, rest, _, err = CutWord(rest)
	case target == "THREAD" && may.thread:
		o.Thread = new(Name)
		*o.Thread, rest, err = CutName(rest)
	case target == "WHERE" && may.where:
		o.Where = new(Selection)
		if *o.Where, rest, err = cutSelection(rest); err == nil && verb == Reroute {
			var to string
			if to, rest = CutRaw(rest); to != "TO" {
				err = errors.New("TO and a channel and host must follow the selection")
			}
		}
	default:
		return o, false, ErrUnknownRequest
	}
	if err == nil && verb == Reroute {
		o.To, rest, err = CutName(rest)
	}
	if err == nil {
		err = o.parseTail(rest)
	}
	return o, target == "MSG" && rest == "", err
}

// parseTail reads DRYRUN, FOR and BECAUSE.
func (o *Order) parseTail(rest string) error {
	word, after := CutRaw(rest)
	if word == "DRYRUN" || word == "DRY" {
		o.DryRun = true
		word, after = CutRaw(after)
	}
	if word == "FOR" {
		if o.Verb != Hold && o.Verb != Suspend {
			return fmt.Errorf("FOR applies only to HOLD and SUSPEND")
		}
		var span string
		span, after = CutRaw(after)
		var err error
		if o.For, err = ParseSpan("FOR", span); err != nil {
			return err
		}
		word, after = CutRaw(after)
	}
	switch word {
	case "":
		return nil
	case "BECAUSE":
		o.Why = after
		return nil
	}
	return fmt.Errorf("%q is not understood; only DRYRUN, FOR and BECAUSE may follow", word)
}

// CutName takes a channel and a host off s.
func CutName(s string) (n Name, rest string, err error) {
	var ok bool
	if n.Channel, s, ok, err = CutWord(s); err != nil {
		return n, "", err
	}
	if ok {
		if n.Host, s, ok, err = CutWord(s); err != nil {
			return n, "", err
		}
	}
	if !ok {
		return n, "", errors.New("a channel and a host are needed")
	}
	return n, s, nil
}
