package mailq

// Outcomes: what an order did. An outcome is JSON on the wire; here it becomes English.

import (
	"cmp"
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
	// Refused are messages that an agent has, and some of whose recipients the order is about:
	// nothing is done to these. Messages does not count them.
	Refused int `json:"refused,omitempty"`
	// KeptBack are messages that a RETRY selects and that are not tried, because they or their
	// thread are held; or held ones that a REQUEUE leaves. Messages
	// does not count them.
	KeptBack int `json:"kept_back,omitempty"`
	// NotLoaded are messages that the order selects as well, and that the scheduler has not
	// loaded: nothing is done to them. WhyNotLoaded is the reason of one of them.
	NotLoaded    int    `json:"not_loaded,omitempty"`
	WhyNotLoaded string `json:"why_not_loaded,omitempty"`
}

// counts are the counts of an outcome beside messages, recipients and threads, in the order of
// their sentences. A new count is a field of Outcome and a line here.
var counts = []struct {
	of       func(*Outcome) *int
	sentence func(o *Order, did *Outcome, n int) string
}{
	{func(did *Outcome) *int { return &did.WithAgents }, func(o *Order, _ *Outcome, n int) string {
		return fmt.Sprintf("%s with agents: %s when the agent reports, unless it delivers them.",
			Plural(n, "message is", "messages are"), o.Verb.Info().Effect)
	}},
	{func(did *Outcome) *int { return &did.Refused }, func(_ *Order, _ *Outcome, n int) string {
		return "Nothing is done to some recipients of " + Plural(n, "message that is", "messages that are") + " with agents: try again."
	}},
	{func(did *Outcome) *int { return &did.KeptBack }, func(o *Order, _ *Outcome, n int) string {
		if o.Verb == Requeue {
			return Plural(n, "more message is", "more messages are") + " held and not given back to the router: select held mail with state=held."
		}
		return Plural(n, "message is", "messages are") + " held and not tried."
	}},
	{func(did *Outcome) *int { return &did.NotLoaded }, func(_ *Order, did *Outcome, n int) string {
		return Plural(n, "more message is", "more messages are") + " not loaded, and nothing is done to them: " + did.WhyNotLoaded + "."
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
	did.WhyNotLoaded = cmp.Or(did.WhyNotLoaded, more.WhyNotLoaded)
}

// Sentences say what an order did: "3 messages, 5 recipients, 1 thread." and one sentence for each
// further count. The last one may have text from outside.
func (did Outcome) Sentences(o *Order) []string {
	sentences := []string{fmt.Sprintf("%s, %s, %s.", Plural(did.Messages, "message", "messages"),
		Plural(did.Recipients, "recipient", "recipients"), Plural(did.Threads, "thread", "threads"))}
	for _, c := range counts {
		if n := *c.of(&did); n > 0 {
			sentences = append(sentences, c.sentence(o, &did, n))
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
