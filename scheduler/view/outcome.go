package view

// Outcomes: what an order did, count by count.

import (
	"fmt"

	"zsched/internal/units"
)

// Outcome counts what an order did, or would do. The core answers an order with it; the counts that
// the core cannot know are 0 then.
type Outcome struct {
	Messages   int `json:"messages"`
	Recipients int `json:"recipients"`
	Threads    int `json:"threads"` // not by the core
	// WithAgents are those of the messages that an agent has, at least in part, so that the
	// order waits until the agent reports. The core does not count them for RETRY and RELEASE.
	WithAgents int `json:"with_agents,omitempty"`
	// Refused are messages that an agent has, and on which, or on some of whose recipients, the order
	// has no effect now; or that another node may have. Messages does not count them.
	Refused int `json:"refused,omitempty"`
	// KeptBack are messages on which the order has no effect because they or their thread are held.
	// Messages does not count them. Not by the core.
	KeptBack int `json:"kept_back,omitempty"`
	// Loading says that the queue was still being loaded, so that the order has no effect on the mail
	// that was not loaded yet. Not by the core.
	Loading bool `json:"loading,omitempty"`
}

// counts are the counts of an outcome beside messages, recipients and threads, in the order of
// their sentences. A new count is a field of Outcome and a line here.
var counts = []struct {
	of       func(*Outcome) *int
	sentence func(verb Verb, n int) string
}{
	{func(did *Outcome) *int { return &did.WithAgents }, func(verb Verb, n int) string {
		return fmt.Sprintf("%s with agents: %s when the agent reports, unless it delivers them.",
			units.Plural(n, "message is", "messages are"), verb.Info().Effect)
	}},
	{func(did *Outcome) *int { return &did.Refused }, func(_ Verb, n int) string {
		return nothing(n) + "with agents, or on the way to another node: try again."
	}},
	{func(did *Outcome) *int { return &did.KeptBack }, func(verb Verb, n int) string {
		switch verb {
		case VerbRelease:
			return nothing(n) + "held with the thread: release the thread."
		case VerbRequeue:
			return nothing(n) + "held: select held mail with state=held."
		}
		return nothing(n) + "held: release held mail first."
	}},
}

// nothing begins a sentence about messages to which nothing is done.
func nothing(n int) string {
	return "Nothing is done to " + units.Plural(n, "message that is ", "messages that are ")
}

// Add adds what another order did.
func (did *Outcome) Add(more Outcome) {
	did.Messages += more.Messages
	did.Recipients += more.Recipients
	did.Threads += more.Threads
	for _, c := range counts {
		*c.of(did) += *c.of(&more)
	}
	did.Loading = did.Loading || more.Loading
}

// Sentences say what an order did: "3 messages, 5 recipients, 1 thread.", one sentence for each
// further count, and one if the queue was still being loaded.
func (did Outcome) Sentences(verb Verb) []string {
	sentences := []string{fmt.Sprintf("%s, %s, %s.", units.Plural(did.Messages, "message", "messages"),
		units.Plural(did.Recipients, "recipient", "recipients"), units.Plural(did.Threads, "thread", "threads"))}
	for _, c := range counts {
		if n := *c.of(&did); n > 0 {
			sentences = append(sentences, c.sentence(verb, n))
		}
	}
	if did.Loading {
		sentences = append(sentences, "The queue is still being loaded: what is loaded later is not affected.")
	}
	return sentences
}
