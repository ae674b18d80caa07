// Package trace finds in the scheduler's event log what happened to a message, and
// prints it (scheduler-events(5), mailq(1)).
//
//	Files ──► Read: events of the matching messages ──► Print
//
// The user names a spoolid, a Message-Id, a file, an address, or where mail came from. If a message
// was sent elsewhere (REROUTE), the new message matches too. scan.go finds lines, and find.go the events
// among them; here they are printed: a line for each, with its fields as the log has them.
package trace

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"zsched/internal/text"
	"zsched/mailq"
)

// Event is a line of the event log.
type Event struct {
	Time       time.Time `json:"time"`
	Event      string    `json:"event"`
	SpoolID    string    `json:"spoolid"`
	MessageID  string    `json:"message_id"`
	Sender     string    `json:"sender"`
	Client     string    `json:"client"`
	Source     string    `json:"source"`
	Recipient  string    `json:"recipient"`
	Original   string    `json:"original"`
	Alias      string    `json:"alias"`
	NewSpoolID string    `json:"new_spoolid"`
	File       string    `json:"file"`

	line   []byte
	file   int // its place in the log: the index of the file
	offset int64
}

// PrintJSON prints the lines of the log as they are.
func PrintJSON(out io.Writer, events []*Event) error {
	w := bufio.NewWriter(out)
	for _, e := range events {
		w.Write(e.line)
		w.WriteByte('\n')
	}
	return w.Flush()
}

// Print prints what happened to each message, in the order in which the messages
// first appear in the events. Times are in the given time zone.
func Print(out io.Writer, events []*Event, zone *time.Location) error {
	var order []string // spoolids, and names of files that did not become messages
	of := make(map[string][]*Event)
	for _, e := range events {
		key := cmp.Or(e.SpoolID, e.File)
		if of[key] == nil {
			order = append(order, key)
		}
		of[key] = append(of[key], e)
	}
	w := bufio.NewWriter(out)
	for i, key := range order {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w, text.Escape(heading(key, of[key])))
		for _, e := range of[key] {
			fmt.Fprintln(w, text.Escape("  "+e.Time.In(zone).Format("2006-01-02 15:04:05.000")+"  "+e.Event+e.fields(zone)))
		}
	}
	return w.Flush()
}

// heading says which message it is.
func heading(id string, events []*Event) string {
	messageID, sender := "", ""
	for _, e := range events {
		messageID, sender = cmp.Or(messageID, e.MessageID), cmp.Or(sender, e.Sender)
	}
	if messageID != "" {
		id += " " + messageID
	}
	if sender != "" {
		id += " from " + sender
	}
	return id
}

// inHeading are the fields that the lines of a message leave out.
var inHeading = []string{"time", "event", "spoolid", "message_id", "sender", "since", "class"}

// fields returns the other fields of an event, in the order of the log: " recipient=u@h attempts=1".
func (e *Event) fields(zone *time.Location) string {
	var b strings.Builder
	in := json.NewDecoder(bytes.NewReader(e.line))
	in.UseNumber()
	_, _ = in.Token() // the brace
	for in.More() {
		name, _ := in.Token()
		var value any
		if in.Decode(&value) != nil {
			break
		}
		shown := fmt.Sprint(value)
		if at, err := time.Parse(time.RFC3339, shown); err == nil {
			shown = at.In(zone).Format(time.DateTime)
		}
		if name := fmt.Sprint(name); !slices.Contains(inHeading, name) {
			b.WriteString(" " + name + "=" + mailq.Quote(shown))
		}
	}
	return b.String()
}
