package mailq

// Outcomes: what an order did. An outcome is JSON on the wire; here it becomes English.

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Outcome counts what an order did, or would do. The reply to an order is "+OK; " and an outcome
// as JSON.
type Outcome struct {
	Messages   int `json:"messages"`
	Recipients int `json:"recipients"`
	Threads    int `json:"threads"`
	// WithAgents are those of the messages that an agent has, at least in part, so that the
	// order waits until the agent reports.
	WithAgents int `json:"with_agents,omitempty"`
	// Refused are messages that an agent has, and on which, or on some of whose recipients, the order
	// has no effect now; or that another node may have. Messages does not count them.
	Refused int `json:"refused,omitempty"`
	// KeptBack are messages on which the order has no effect because they or their thread are held.
	// Messages does not count them.
	KeptBack int `json:"kept_back,omitempty"`
}

// counts are the counts of an outcome beside messages, recipients and threads, in the order of
// their sentences. A new count is a field of Outcome and a line here.
var counts = []struct {
	of       func(*Outcome) *int
	sentence func(o *Order, n int) string
}{
	{func(did *Outcome) *int { return &did.WithAgents }, func(o *Order, n int) string {
		return fmt.Sprintf("%s with agents: %s when the agent reports, unless it delivers them.",
			Plural(n, "message is", "messages are"), o.Verb.Info().Effect)
	}},
	{func(did *Outcome) *int { return &did.Refused }, func(_ *Order, n int) string {
		return "Nothing is done to " + Plural(n, "message that is", "messages that are") + " with agents, or on the way to another node: try again."
	}},
	{func(did *Outcome) *int { return &did.KeptBack }, func(o *Order, n int) string {
		text := "Nothing is done to " + Plural(n, "message that is", "messages that are") + " held"
		switch o.Verb {
		case Release:
			return text + " with the thread: release the thread."
		case Requeue:
			return text + ": select held mail with state=held."
		}
		return text + ": release held mail first."
	}},
}

// Add adds what another order did.
func (did *Outcome) Add(more Outcome) {
	did.Messages += more.Messages
	did.Recipients += more.Recipients
	did.Threads += more.Threads
	for _, c := range counts {
		*c.of(did) += *c.of(&more)
	}
}

// Sentences say what an order did: "3 messages, 5 recipients, 1 thread." and one sentence for each
// further count.
func (did Outcome) Sentences(o *Order) []string {
	sentences := []string{fmt.Sprintf("%s, %s, %s.", Plural(did.Messages, "message", "messages"),
		Plural(did.Recipients, "recipient", "recipients"), Plural(did.Threads, "thread", "threads"))}
	for _, c := range counts {
		if n := *c.of(&did); n > 0 {
			sentences = append(sentences, c.sentence(o, n))
		}
	}
	return sentences
}

// Reply returns the reply to an order that was executed, or to a dry run.
func (did Outcome) Reply() string {
	text, _ := json.Marshal(did) // numbers and a text can be written
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
