package mailq

// Counts: the mail in the queue by a key, such as its sender (SHOW COUNT).

import "time"

// AgeBounds are the upper bounds of CountItem.Ages in minutes. One more column counts
// everything older.
var AgeBounds = [...]int{5, 10, 20, 40, 80, 160, 320, 640, 1280}

// CountItem is a line of JSON SHOW COUNT: the mail in the queue that has one value of the key.
type CountItem struct {
	Key        string `json:"key"`
	Messages   int    `json:"messages"` // one for each destination of a message
	Recipients int    `json:"recipients"`
	// OldestAt and NewestAt are the times of the message files.
	OldestAt time.Time `json:"oldest_at"`
	NewestAt time.Time `json:"newest_at"`
	// Ages counts the recipients of each column of AgeBounds.
	Ages [len(AgeBounds) + 1]int `json:"ages"`
	// Destination is the thread of some of this mail.
	Destination Name `json:"destination"`
	// Others: this line counts all values that have no line of their own.
	Others bool `json:"others,omitempty"`
	// Total: this line, the last one, counts all mail that has a value; Lines is the number of
	// the other lines.
	Total bool `json:"total,omitempty"`
	Lines int  `json:"lines,omitempty"`
}

// AddRecipient counts a recipient of a job.
func (it *CountItem) AddRecipient(job *JobLine, now time.Time) {
	it.Recipients++
	it.Ages[ageColumn(now.Sub(job.ArrivedAt))]++
	it.span(job.ArrivedAt, job.ArrivedAt)
}

// Add adds the counts of another line.
func (it *CountItem) Add(other *CountItem) {
	it.Messages += other.Messages
	it.Recipients += other.Recipients
	for column, n := range other.Ages {
		it.Ages[column] += n
	}
	it.span(other.OldestAt, other.NewestAt)
}

// span makes the times include those of other mail.
func (it *CountItem) span(oldest, newest time.Time) {
	if it.OldestAt.IsZero() || oldest.Before(it.OldestAt) {
		it.OldestAt = oldest
	}
	if newest.After(it.NewestAt) {
		it.NewestAt = newest
	}
}

func ageColumn(age time.Duration) int {
	for i, bound := range AgeBounds {
		if age < time.Duration(bound)*time.Minute {
			return i
		}
	}
	return len(AgeBounds)
}
