package mailq

import (
	"fmt"
	"strings"
	"time"

	"zsched/scheduler/view"
)

// This file declares the values that answers carry as JSON: one struct for each
// kind of line. A field that the protocol may leave out has omitempty or
// omitzero.

// The values of package view are sent as they are.
type (
	Name      = view.Name
	Ring      = view.Ring    // a line of JSON SHOW QUEUE SHORT
	Thread    = view.Thread  // of JSON SHOW QUEUE THREADS
	JobLine   = view.JobLine // of JSON SHOW THREAD
	Recipient = view.Recipient
	// Explanation is the answer to JSON EXPLAIN: what the mail for a destination is waiting for.
	Explanation = view.Explanation
)

// ParseName reads channel/host.
func ParseName(s string) (Name, error) {
	channel, host, ok := strings.Cut(s, "/")
	if !ok || channel == "" || host == "" {
		return Name{}, fmt.Errorf("%q is not channel/host", s)
	}
	return Name{Channel: channel, Host: host}, nil
}

// HeldItem is a line of JSON SHOW HELD: the part of a held message that is for
// one destination, or a held thread. A thread has no message, path or spoolid. If Order
// is set, the message is held as soon as no agent has any of it.
type HeldItem struct {
	JobLine
	view.Hold
	// Messages counts the mail of a held thread.
	Messages int `json:"messages,omitempty"`
}

// IsThread reports whether the item is a held thread.
func (h *HeldItem) IsThread() bool { return h.SpoolID == "" }

// Message is the answer to JSON SHOW MSG: what is in a control file.
type Message struct {
	Message   uint64    `json:"message"`
	Path      string    `json:"path"`
	SpoolID   string    `json:"spoolid"`
	MessageID string    `json:"message_id,omitempty"` // its Message-Id
	Sender    string    `json:"sender"`
	ErrorsTo  string    `json:"errors_to,omitempty"`
	ArrivedAt time.Time `json:"arrived_at"`
	Control   int64     `json:"control_bytes"`
	Size      int64     `json:"bytes"`
	Held      bool      `json:"held,omitempty"`
	// NoFile says that the message file is lost: the recipients fail at their next attempt.
	NoFile     bool               `json:"no_message_file,omitempty"`
	Recipients []MessageRecipient `json:"recipients"`
}

// MessageRecipient is a recipient line of a control file, done or not.
type MessageRecipient struct {
	Name
	User string `json:"user"`
	// Originals are the addresses that it had before aliases: the one that the
	// sender gave, and the one that this host expanded.
	Originals []string  `json:"originals,omitempty"`
	Offset    int64     `json:"offset"`
	State     string    `json:"state"` // as JobLine.State; or held, delivered, failed, expired, killed, requeued, rerouted, moved or done
	Attempts  int       `json:"attempts"`
	WakeAt    time.Time `json:"wake_at,omitzero"`
	Reason    string    `json:"reason,omitempty"`
	Order     string    `json:"order,omitempty"` // as JobLine.Order
	OrderTo   string    `json:"order_to,omitempty"`
	Wait      view.Wait `json:"wait,omitempty"` // as JobLine.Wait
}

// RuleItem is a line of JSON SHOW RULES: a reply rule.
type RuleItem struct {
	File       string    `json:"file"`
	Line       int       `json:"line"`
	Pattern    string    `json:"pattern"`
	Expression string    `json:"expression"`
	Action     string    `json:"action"`
	Hits       uint64    `json:"hits"` // since the configuration was read
	LastAt     time.Time `json:"last_at,omitzero"`
}

// Text is a line of SHOW RULES.
func (r *RuleItem) Text(now time.Time) string {
	text := fmt.Sprintf("%s:%d: %d hits", r.File, r.Line, r.Hits)
	if !r.LastAt.IsZero() {
		text += ", last " + FormatAge(now, r.LastAt) + " ago"
	}
	return text + ": reply " + r.Pattern + " \"" + r.Expression + "\" " + r.Action
}

// ListError is the last object of an incomplete list.
type ListError struct {
	Error string `json:"error"`
}
