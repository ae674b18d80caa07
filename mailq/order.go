package mailq

import (
	"errors"
	"fmt"
	"strings"
)

// String is the command that gives the order, without LF. KILL of a message
// asks for the count. DRYRUN, the reason and all names are in it; By is not.
func (o *Order) String() string {
	words := []string{string(o.Verb)}
	switch {
	case o.Where != nil:
		words = append(words, "WHERE", o.Where.String())
		if o.Verb == Reroute {
			words = append(words, "TO")
		}
	case o.Thread != nil:
		words = append(words, "THREAD", Quote(o.Thread.Channel), Quote(o.Thread.Host))
	default:
		words = append(words, "MSG", Quote(o.Message))
	}
	if o.Verb == Reroute {
		words = append(words, Quote(o.To.Channel), Quote(o.To.Host))
	}
	if o.DryRun {
		words = append(words, "DRYRUN")
	}
	if why := TrimBlanks(OneReply(o.Why)); why != "" {
		words = append(words, "BECAUSE", why)
	} else if o.Verb == Kill && o.Message != "" && !o.DryRun {
		words = append(words, "BECAUSE")
	}
	return strings.Join(words, " ")
}

// String is the count as it stands in replies.
func (o Outcome) String() string {
	return fmt.Sprintf("%d messages, %d recipients, %d threads", o.Messages, o.Recipients, o.Threads)
}

// outcomeReply is the reply to an order that was carried out.
func OutcomeReply(order *Order, o Outcome) string {
	dry := ""
	if order.DryRun {
		dry = "DRYRUN "
	}
	return fmt.Sprintf("+OK; %s%s %s.", dry, order.Verb, o)
}

// ParseOutcome reads the reply to an order. The error holds what the server
// said if it refused, or if it is no such reply.
func ParseOutcome(reply string) (Outcome, error) {
	var o Outcome
	var verb string
	rest, ok := strings.CutPrefix(reply, "+OK; ")
	if !ok {
		if len(reply) > 1 && reply[0] == '-' {
			return o, errors.New(reply[1:])
		}
		return o, fmt.Errorf("%q is no reply to an order", reply)
	}
	rest = strings.TrimPrefix(rest, "DRYRUN ")
	n, err := fmt.Sscanf(rest, "%s %d messages, %d recipients, %d threads.", &verb, &o.Messages, &o.Recipients, &o.Threads)
	if err != nil || n != 4 {
		return Outcome{}, fmt.Errorf("%q is no reply to an order", reply)
	}
	return o, nil
}

// targets says what each acting verb may be about.
var targets = map[Verb]struct{ msg, thread, where bool }{
	Kill:    {true, true, true},
	Expire:  {true, true, true},
	Retry:   {true, true, true},
	Hold:    {true, true, true},
	Release: {true, true, true},
	Requeue: {true, false, true},
	Reroute: {true, true, true},
}

// errUnknownRequest is an acting verb about what it cannot be about.
var ErrUnknownRequest = errors.New("unknown request")

// parseOrder reads what follows an acting verb. counted says that more than
// the old KILL MSG id was given.
func ParseOrder(verb Verb, rest string) (o Order, counted bool, err error) {
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
		err = o.tail(rest)
	}
	return o, target != "MSG" || rest != "", err
}

// tail reads DRYRUN and BECAUSE.
func (o *Order) tail(rest string) error {
	word, after := CutRaw(rest)
	if word == "DRYRUN" || word == "DRY" {
		o.DryRun = true
		word, after = CutRaw(after)
	}
	switch word {
	case "":
		return nil
	case "BECAUSE":
		o.Why = after
		return nil
	}
	return fmt.Errorf("%q is not understood; only DRYRUN and BECAUSE may follow", word)
}

// cutName takes a channel and a host off s.
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
