package mailq

// Orders: how KILL and its like are written, and read.

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"zsched/internal/units"
	"zsched/scheduler/view"
)

// Order is an acting verb and its target. Exactly one of Message, Thread and
// Where is set.
type Order struct {
	Verb    view.Verb
	Message string        // spoolid or number
	Thread  *Name         // the whole thread; HOLD also keeps back what arrives later
	Where   *Selection    // everything in the queue that matches
	To      Name          // the new thread of Reroute
	DryRun  bool          // count only
	For     time.Duration // time until a Hold ends by itself; 0: it lasts until released
	By      Actor         // not part of the command
	Because string        // the reason given, for the log
}

// Actor is the user who gives an order.
type Actor struct {
	User string
	Peer string // an address, or "uid 0" on a UNIX socket
}

// MaxUnconfirmed is how many messages an order may affect without --yes, or without the whole
// word yes.
const MaxUnconfirmed = 100

// NothingMatches is the error of an order that matches nothing.
const NothingMatches = "nothing in the queue matches"

// String returns the command that gives the order, without LF. By is not part of
// it. KILL MSG ends with an empty BECAUSE if it would otherwise be the old
// command, because the reply to that has no count.
func (o *Order) String() string {
	command, needsTo := []string{string(o.Verb)}, o.Verb.Info().To
	switch {
	case o.Where != nil:
		command = append(command, "WHERE", o.Where.String())
		if needsTo {
			command = append(command, "TO")
		}
	case o.Thread != nil:
		command = append(command, "THREAD", words(*o.Thread))
	default:
		command = append(command, "MSG", Quote(o.Message))
	}
	if needsTo {
		command = append(command, words(o.To))
	}
	if o.DryRun {
		command = append(command, "DRYRUN")
	}
	if o.For > 0 {
		command = append(command, "FOR", units.FormatInterval(o.For))
	}
	if why := TrimBlanks(OneReply(o.Because)); why != "" {
		command = append(command, "BECAUSE", why)
	} else if o.Verb == view.VerbKill && o.Message != "" && !o.DryRun {
		command = append(command, "BECAUSE")
	}
	return strings.Join(command, " ")
}

// words returns the channel and the host as two words of a command.
func words(n Name) string { return Quote(n.Channel) + " " + Quote(n.Host) }

// Explain returns the command that asks what the mail of a thread is waiting for.
func Explain(name Name) string { return "EXPLAIN " + words(name) }

// ErrUnknownRequest says that an acting verb does not take the target given.
var ErrUnknownRequest = errors.New("unknown request")

// ParseOrder reads the rest of a line that begins with an acting verb. plain is
// true for MSG id with nothing after it: after KILL this is ZMailer's own
// command, whose reply has no count.
func ParseOrder(verb view.Verb, rest string) (o Order, plain bool, err error) {
	o.Verb = verb
	may := verb.Info()
	target, rest := CutRaw(rest)
	switch {
	case target == "MSG" && may.Message:
		o.Message, rest, _, err = CutWord(rest)
	case target == "THREAD" && may.Thread:
		o.Thread = new(Name)
		*o.Thread, rest, err = CutName(rest)
	case target == "WHERE" && may.Where:
		o.Where = new(Selection)
		if *o.Where, rest, err = cutSelection(rest); err == nil && may.To {
			var to string
			if to, rest = CutRaw(rest); to != "TO" {
				err = errors.New("TO and a channel and host must follow the selection")
			}
		}
	default:
		return o, false, ErrUnknownRequest
	}
	if err == nil && may.To {
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
		if !o.Verb.Info().For {
			return fmt.Errorf("FOR applies only to HOLD")
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
		o.Because = after
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

// Outcome counts what an order did, or would do. The reply to an order is "+OK; " and an outcome
// as JSON.
type Outcome = view.Outcome

// FormatOutcome returns the reply to an order that was executed, or to a dry run.
func FormatOutcome(did Outcome) string {
	text, _ := json.Marshal(did) // numbers can be written
	return "+OK; " + string(text)
}

// ParseOutcome reads the reply to an order. The error is the server's text if
// the server refused the order, or says that this is not a reply to an order.
func ParseOutcome(reply string) (did Outcome, err error) {
	if len(reply) > 1 && reply[0] == '-' {
		return did, errors.New(reply[1:])
	}
	text, ok := strings.CutPrefix(reply, "+OK; {")
	if !ok || json.Unmarshal([]byte("{"+text), &did) != nil {
		return Outcome{}, fmt.Errorf("%q is not a reply to an order", reply)
	}
	return did, nil
}
