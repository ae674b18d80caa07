package mailq

// Senders: the mail in the queue by sender or by the sender's domain.

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// SenderItem is a line of JSON SHOW SENDERS: what the queue holds from one sender,
// or from one domain. Held messages are not counted.
type SenderItem struct {
	// Sender is an address or, with DOMAINS, a domain: in lower case, "" where the
	// sender has none. The null sender is "<>" in both lists.
	Sender     string    `json:"sender"`
	Messages   int       `json:"messages"`
	Jobs       int       `json:"jobs"`
	Recipients int       `json:"recipients"` // not done
	Bytes      int64     `json:"bytes"`      // of the message files
	OldestAt   time.Time `json:"oldest_at"`
	NewestAt   time.Time `json:"newest_at"`
	// Others: this line counts all senders that have no line of their own.
	Others bool `json:"others,omitempty"`
	// Total: this line counts the whole queue; Senders is the number of the other
	// lines. It is the last one.
	Total   bool `json:"total,omitempty"`
	Senders int  `json:"senders,omitempty"`
}

// Add counts a job. first says that no other job of its message was counted.
func (it *SenderItem) Add(job *Job, first bool) {
	it.Jobs++
	it.Recipients += len(job.Recipients)
	if first {
		it.Messages++
		it.Bytes += job.Size
	}
	it.span(job.ArrivedAt, job.ArrivedAt)
}

// Sum adds the counts of another sender.
func (it *SenderItem) Sum(other *SenderItem) {
	it.Messages += other.Messages
	it.Jobs += other.Jobs
	it.Recipients += other.Recipients
	it.Bytes += other.Bytes
	it.span(other.OldestAt, other.NewestAt)
}

// span makes the times include those of other mail.
func (it *SenderItem) span(oldest, newest time.Time) {
	if it.OldestAt.IsZero() || oldest.Before(it.OldestAt) {
		it.OldestAt = oldest
	}
	if newest.After(it.NewestAt) {
		it.NewestAt = newest
	}
}

// SenderOf returns the sender of a job, or its domain, as SenderItem.Sender.
func SenderOf(job *Job, domain bool) string {
	switch at := strings.LastIndexByte(job.Sender, '@'); {
	case job.Sender == "":
		return "<>"
	case !domain:
		return strings.ToLower(job.Sender)
	case at < 0:
		return ""
	default:
		return strings.ToLower(job.Sender[at+1:])
	}
}

// SenderSorts are the orders of the lines of SHOW SENDERS. Equal lines keep their
// order.
var SenderSorts = map[string]func(a, b *SenderItem) int{
	"size":       func(a, b *SenderItem) int { return cmp.Compare(b.Messages, a.Messages) },
	"age":        func(a, b *SenderItem) int { return a.OldestAt.Compare(b.OldestAt) },
	"bytes":      func(a, b *SenderItem) int { return cmp.Compare(b.Bytes, a.Bytes) },
	"recipients": func(a, b *SenderItem) int { return cmp.Compare(b.Recipients, a.Recipients) },
}

// SortSenders sorts the lines of SHOW SENDERS by a key of SenderSorts. The lines of
// others and of the total stay last.
func SortSenders(items []*SenderItem, key string) {
	last := func(it *SenderItem) int {
		switch {
		case it.Total:
			return 2
		case it.Others:
			return 1
		}
		return 0
	}
	slices.SortStableFunc(items, func(a, b *SenderItem) int {
		return cmp.Or(cmp.Compare(last(a), last(b)), SenderSorts[key](a, b))
	})
}

// SenderHead is the line above the lines of SHOW SENDERS.
func SenderHead() string {
	return senderColumns("Msgs", "Rcpnts", "Bytes", "Oldest", "Newest") + "  Sender"
}

func senderColumns(messages, recipients, bytes, oldest, newest any) string {
	return fmt.Sprintf("%8v %8v %12v %9v %9v", messages, recipients, bytes, oldest, newest)
}

// Text is a line of SHOW SENDERS.
func (it *SenderItem) Text(now time.Time) string {
	age := func(at time.Time) string {
		if at.IsZero() {
			return "-"
		}
		return FormatAge(now, at)
	}
	name := it.Sender
	switch {
	case it.Total:
		name = "Total: " + Plural(it.Senders, "line", "lines")
	case it.Others:
		name = "(others)"
	case name == "":
		name = "(no domain)"
	}
	return senderColumns(it.Messages, it.Recipients, it.Bytes, age(it.OldestAt), age(it.NewestAt)) + "  " + name
}
